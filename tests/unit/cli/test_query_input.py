import pytest

from omnigraph.cli.query_input import parse_params


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ('{"a": 18446744073709551615}', {"a": 18446744073709551615}),
        ('{"a": -1.5e2, "b": [1, null], "c": {"d": true}}', {"a": -150.0, "b": [1, None]}),
        (b'\xef\xbb\xbf{"\xc3\xa9": "\xf0\x9f\x8c\x8d"}', {"é": "🌍"}),
    ],
)
def test_an_object_is_read_with_every_digit(text: str | bytes, value: dict[str, object]) -> None:
    found = parse_params(text)
    assert {name: found[name] for name in value} == value
    assert isinstance(found.get("a", 0), int | float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: Expecting value at line 1, column 1"),
        ("{'a': 1}", "is not JSON: Expecting property name"),
        ('{"a": 1,}', "is not JSON: "),
        ('{"a": 1} x', "is not JSON: Extra data at line 1, column 10"),
        ('{"a": NaN}', "is not JSON: it has no number NaN"),
        ('{"a": -Infinity}', "is not JSON: it has no number -Infinity"),
        ("[]", 'is not an object of names and values; write it as {"name": value}'),
        ("null", "is not an object"),
        ('"a"', "is not an object"),
        ('{"a": 1, "b": 2, "a": 1}', "has 'a' twice; give each name once"),
        ('{"a": [{"b": 1, "b": 2}]}', "has 'b' twice"),
        ('{"a": ' + "9" * 5_000 + "}", "has a number of 5,000 digits, which no type holds"),
        ('{"a": ' + "[" * 100_000, "is nested too deeply"),
        ('{"a": "\x01"}', "is not JSON: Invalid control character"),
        (b'{"a": "\xff"}', "is not UTF-8 (byte 7); save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8 (byte 0)"),
    ],
)
def test_what_is_no_object_of_parameters_is_explained(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        parse_params(text)
    assert str(caught.value).startswith(message)
