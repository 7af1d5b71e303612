from textwrap import dedent

import pytest

from omnigraph.errors import QueryInvalid
from omnigraph.lang.diagnostics import (
    Findings,
    FindingsFull,
    join_names,
    raise_findings,
    render,
    render_all,
)
from omnigraph.lang.source import Source
from omnigraph.limits import MAX_DIAGNOSTICS


def _rendered(text: str, extent: tuple[int, int], path: str | None = None) -> str:
    findings = Findings(Source(text, path))
    findings.add("T1", "reason", "detail", extent)
    return render(findings.sorted()[0], findings.source)


def _block(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_finding_is_drawn_with_its_line_and_a_caret() -> None:
    text = "match {\n  $p: Persn\n}"
    assert _rendered(text, (14, 19), "people.gq") == _block(
        """
        T1: detail
         --> people.gq:2:7
          |
        2 |   $p: Persn
          |       ^^^^^
        """
    )


def test_a_position_without_width_gets_one_caret() -> None:
    assert _rendered("ab", (2, 2)).splitlines()[1:] == [
        " --> <source>:1:3",
        "  |",
        "1 | ab",
        "  |   ^",
    ]


def test_a_finding_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    assert _rendered("abc\nde", (1, 6)).splitlines()[-1] == "  |  ^^"


def test_what_cannot_be_printed_is_shown_as_a_blank() -> None:
    lines = _rendered("a\tb\x00\x1b[31mc\r\nd", (2, 3)).splitlines()
    assert lines[3] == "1 | a b  [31mc"
    assert lines[4] == "  |   ^"


@pytest.mark.parametrize("start", [0, 49, 50, 51, 500, 950, 999])
def test_a_long_line_is_cut_around_the_finding(start: int) -> None:
    text = "x" * start + "!" + "y" * (999 - start)
    excerpt, caret = _rendered(text, (start, start + 1)).splitlines()[3:]
    assert len(excerpt) <= 110
    assert excerpt[caret.index("^")] == "!"


def test_a_caret_line_is_no_longer_than_the_excerpt() -> None:
    excerpt, caret = _rendered("x" * 1_000, (10, 900)).splitlines()[3:]
    assert len(caret) <= len(excerpt)


def test_line_numbers_of_any_width_keep_the_gutter_straight() -> None:
    lines = _rendered("\n" * 120 + "ab", (120, 121)).splitlines()
    assert lines[1:] == ["   --> <source>:121:1", "    |", "121 | ab", "    | ^"]


def test_findings_are_sorted_by_place_then_code_and_kept_once() -> None:
    findings = Findings(Source("abcdef"))
    for code, at in (("T9", 3), ("T2", 3), ("T5", 1), ("T5", 1)):
        findings.add(code, "reason", "detail", (at, at + 1))
    assert [(item.code, item.span.start) for item in findings.sorted()] == [
        ("T5", 1),
        ("T2", 3),
        ("T9", 3),
    ]
    assert len(findings) == 3
    assert findings


def test_the_message_starts_with_the_code() -> None:
    findings = Findings(Source("a"))
    findings.add("T6", "unknown_property", "type `P` has no property `x`", (0, 1))
    (found,) = findings.sorted()
    assert found.message == "T6: type `P` has no property `x`"
    assert found.to_dict() == {
        "code": "T6",
        "reason": "unknown_property",
        "message": found.message,
        "span": found.span.to_dict(),
    }


def test_there_is_room_for_so_many_findings_and_the_cut_is_told() -> None:
    findings = Findings(Source("x" * (MAX_DIAGNOSTICS + 1)))
    for at in range(MAX_DIAGNOSTICS):
        findings.add("T1", "reason", "detail", (at, at + 1))
    findings.add("T1", "reason", "detail", (0, 1))
    assert "not shown" not in render_all(findings)
    with pytest.raises(FindingsFull):
        findings.add("T1", "reason", "detail", (MAX_DIAGNOSTICS, MAX_DIAGNOSTICS + 1))
    assert findings.is_cut
    with pytest.raises(QueryInvalid, match="not shown") as caught:
        raise_findings(QueryInvalid, findings)
    diagnostics = caught.value.details["diagnostics"]
    assert isinstance(diagnostics, list)
    assert len(diagnostics) == MAX_DIAGNOSTICS
    assert caught.value.message.count("T1: detail") == MAX_DIAGNOSTICS


def test_the_error_carries_the_path_and_every_finding() -> None:
    findings = Findings(Source("ab", "file.gq"))
    findings.add("T1", "one", "first", (0, 1))
    findings.add("T2", "two", "second", (1, 2))
    with pytest.raises(QueryInvalid) as caught:
        raise_findings(QueryInvalid, findings)
    assert caught.value.details["path"] == "file.gq"
    assert "file.gq:1:1" in caught.value.message
    assert "file.gq:1:2" in caught.value.message


def test_names_are_joined_in_backquotes() -> None:
    assert join_names(["a", "b"]) == "`a`, `b`"
    assert join_names([]) == ""
