import pytest

from omnigraph.lang import PropType, Scalar, render_key
from omnigraph.lang.keys import spell_key
from omnigraph.lang.values import UnfitValue, parse_date, parse_datetime


def _kind(scalar: Scalar) -> PropType:
    return PropType(scalar=scalar)


@pytest.mark.parametrize(
    ("value", "scalar", "spelling"),
    [
        ("acme", Scalar.STRING, "acme"),
        ("", Scalar.STRING, ""),
        (' "é\n', Scalar.STRING, ' "é\n'),
        (7, Scalar.I32, "7"),
        (-(2**63), Scalar.I64, "-9223372036854775808"),
        (2**64 - 1, Scalar.U64, "18446744073709551615"),
        (True, Scalar.BOOL, "true"),
        (False, Scalar.BOOL, "false"),
        (parse_date("1970-01-02"), Scalar.DATE, "1"),
        (parse_date("1969-12-31"), Scalar.DATE, "-1"),
        (parse_datetime("1970-01-01T00:00:01.5Z"), Scalar.DATETIME, "1500"),
        (0.10000000149011612, Scalar.F32, "0.1"),
        (1e21, Scalar.F64, "1000000000000000000000"),
        (0.1, Scalar.F64, "0.1"),
        (1.0, Scalar.F64, "1"),
        (100.0, Scalar.F32, "100"),
        (-0.0, Scalar.F64, "0"),
        (0.0, Scalar.F32, "0"),
        (-2.5, Scalar.F32, "-2.5"),
        (1e-7, Scalar.F64, "0.0000001"),
        (3, Scalar.F64, "3"),
    ],
)
def test_a_single_key_is_its_canonical_spelling(
    value: object, scalar: Scalar, spelling: str
) -> None:
    assert spell_key(value, _kind(scalar)) == spelling
    assert render_key([value], [_kind(scalar)]) == spelling


def test_several_members_are_a_compact_json_array_of_spellings() -> None:
    kinds = [_kind(Scalar.STRING), _kind(Scalar.I32), _kind(Scalar.BOOL)]
    assert render_key(["acme", 7], kinds[:2]) == '["acme","7"]'
    assert render_key(['é"\\', 7, True], kinds) == '["é\\"\\\\","7","true"]'


def test_tuples_that_differ_have_ids_that_differ() -> None:
    kinds = [_kind(Scalar.STRING), _kind(Scalar.STRING)]
    pairs = [('a","b', "c"), ("a", 'b","c'), ("a,b", "c"), ("", ""), ("a", "b")]
    assert len({render_key(pair, kinds) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("value", "scalar"),
    [
        (None, Scalar.STRING),
        (float("nan"), Scalar.F64),
        (float("inf"), Scalar.F32),
        (True, Scalar.I32),
        (1, Scalar.BOOL),
        ("7", Scalar.I32),
        (1.0, Scalar.I64),
        (True, Scalar.F64),
        ([1], Scalar.STRING),
    ],
)
def test_what_is_no_value_of_the_type_is_refused(value: object, scalar: Scalar) -> None:
    with pytest.raises(UnfitValue):
        spell_key(value, _kind(scalar))


def test_as_many_values_as_members_are_needed() -> None:
    with pytest.raises(ValueError, match="zip"):
        render_key(["a"], [_kind(Scalar.STRING), _kind(Scalar.STRING)])
