import pytest

from omnigraph.lang.source import Source, SourceUnreadable, Span
from omnigraph.limits import MAX_SOURCE_BYTES


def test_a_byte_order_mark_is_skipped_once() -> None:
    assert Source.decode(b"\xef\xbb\xbfab").text == "ab"
    assert Source.decode("\ufeffab").text == "ab"
    assert Source.decode("\ufeff\ufeffab").text == "\ufeffab"


@pytest.mark.parametrize(
    ("data", "readable"),
    [
        (b"ab\xffcd", "ab"),
        (b"\xc3", ""),
        (b"\xc3\xa9\xed\xa0\x80", "é"),
        ("é\ud800", "é"),
        (b"\xef\xbb\xbfa\xff", "a"),
    ],
)
def test_text_that_is_not_utf8_says_where_it_stops(data: str | bytes, readable: str) -> None:
    with pytest.raises(SourceUnreadable, match="UTF-8") as caught:
        Source.decode(data)
    assert caught.value.source.text == readable
    assert caught.value.extent == (len(readable), len(readable))


@pytest.mark.parametrize("unit", ["a", "é", "😀"])
def test_the_size_limit_counts_bytes(unit: str) -> None:
    fits = MAX_SOURCE_BYTES // len(unit.encode())
    assert Source.decode(unit * fits).text
    assert Source.decode((unit * fits).encode()).text
    for data in (unit * (fits + 1), (unit * (fits + 1)).encode()):
        with pytest.raises(SourceUnreadable, match="limit"):
            Source.decode(data)


def _span(text: str, start: int, end: int) -> Span:
    return Source(text).span((start, end))


@pytest.mark.parametrize(
    ("text", "extent", "span"),
    [
        ("abc", (1, 2), (1, 2, 1, 2, 1, 3)),
        ("abc", (0, 3), (0, 3, 1, 1, 1, 4)),
        ("a\nbc", (2, 4), (2, 4, 2, 1, 2, 3)),
        ("a\nbc", (0, 4), (0, 4, 1, 1, 2, 3)),
        ("a\r\nb", (3, 4), (3, 4, 2, 1, 2, 2)),
        ("é😀x", (2, 3), (6, 7, 1, 3, 1, 4)),
        ("é😀x", (1, 2), (2, 6, 1, 2, 1, 3)),
        ("é\n😀x", (3, 4), (7, 8, 2, 2, 2, 3)),
        ("ab", (1, 1), (1, 2, 1, 2, 1, 3)),
        ("ab", (2, 2), (2, 3, 1, 3, 1, 4)),
        ("é", (1, 1), (2, 3, 1, 2, 1, 3)),
        ("", (0, 0), (0, 1, 1, 1, 1, 2)),
        ("a\n", (2, 2), (2, 3, 2, 1, 2, 2)),
    ],
)
def test_a_span_has_bytes_lines_and_columns(
    text: str, extent: tuple[int, int], span: tuple[int, ...]
) -> None:
    found = _span(text, *extent)
    assert tuple(found.to_dict().values()) == span


def test_spans_agree_with_a_naive_count_everywhere() -> None:
    text = "ab\né😀\n\n\r\nx\ty\u2028z"
    for start in range(len(text)):
        before = text[:start]
        span = _span(text, start, start + 1)
        assert span.start == len(before.encode())
        assert span.line == before.count("\n") + 1
        assert span.column == start - (before.rfind("\n") + 1) + 1


def test_a_line_that_fits_is_given_whole_without_its_end() -> None:
    source = Source("a\r\nb\n\nc")
    assert [source.line_window(line, 0, 80) for line in (1, 2, 3, 4)] == [
        (0, "a"),
        (0, "b"),
        (0, ""),
        (0, "c"),
    ]
    assert Source("").line_window(1, 0, 80) == (0, "")


def test_a_long_line_is_given_around_the_column() -> None:
    source = Source("x\n" + "0123456789" * 10 + "\ny")
    assert source.line_window(2, 50, 10) == (45, "5678901234")
    assert source.line_window(2, 0, 10) == (0, "0123456789")
    assert source.line_window(2, 99, 10) == (94, "456789")


def test_bytes_of_a_skipped_mark_count_in_offsets_and_not_in_columns() -> None:
    span = Source.decode(b"\xef\xbb\xbfab").span((1, 2))
    assert (span.start, span.end) == (4, 5)
    assert (span.line, span.column) == (1, 2)
