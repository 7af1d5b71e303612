"""The errors page names every error class, every diagnostic and every reason, and nothing else."""

import inspect
import re

from tests.docs.emitted import COMPUTED, Pair, collect_emitted
from tests.docs.markdown import read_page

from omnigraph import errors
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.errors import OmnigraphError

_PAGE = read_page("docs/errors.md")
_EMITTED = collect_emitted()
_CLASS_ROW = re.compile(r'^\| <a id="(?P<anchor>[a-z_]+)"></a>`(?P<code>[a-z_]+)` \|')
_REASON_ROW = re.compile(
    r'^\| (?:<a id="(?P<anchor>[A-Z0-9-]+)"></a>)?'
    r"`(?P<code>[A-Z][A-Z0-9-]*)` \|(?: `(?P<reason>[a-z_0-9]+)` \|)?"
)
_DETAIL_ROW = re.compile(r"^\| `(?P<code>parameter_error|query_selection)` \| `(?P<reason>\w+)` \|")


def _error_classes() -> dict[str, type[OmnigraphError]]:
    """The classes that are raised, by code: those that have one of their own."""
    return {
        cls.code: cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, OmnigraphError) and "code" in vars(cls) and cls is not OmnigraphError
    }


def _class_rows() -> dict[str, list[str]]:
    """Code of an error class to the cells of its row."""
    return {
        match["code"]: [cell.strip() for cell in line.strip("| ").split(" | ")]
        for _, line in _PAGE.prose
        if (match := _CLASS_ROW.match(line)) and match["anchor"] == match["code"]
    }


def _diagnostic_rows() -> list[tuple[str | None, str, str | None]]:
    """Anchor, code and reason of each row about a diagnostic."""
    return [
        (match["anchor"], match["code"], match["reason"])
        for _, line in _PAGE.prose
        if (match := _REASON_ROW.match(line))
    ]


def test_every_error_class_has_a_row_with_its_anchor_and_no_row_is_left_over() -> None:
    assert sorted(_class_rows()) == sorted(_error_classes())


def test_a_row_of_an_error_class_tells_its_name_retry_class_and_exit_code() -> None:
    shown = {code: (cells[1], cells[3], cells[4]) for code, cells in _class_rows().items()}
    assert shown == {
        code: (f"`{cls.__name__}`", f"`{cls.retry}`", str(EXIT_CODES[code]))
        for code, cls in _error_classes().items()
    }


def test_every_code_and_reason_of_the_compilers_has_a_row_and_no_row_is_left_over() -> None:
    documented = {(code, reason) for _, code, reason in _diagnostic_rows() if reason is not None}
    assert sorted(documented) == sorted(_emitted_pairs())


def test_every_code_of_lint_and_planner_has_a_row_and_no_row_is_left_over() -> None:
    documented = {code for _, code, reason in _diagnostic_rows() if reason is None}
    assert sorted(documented) == sorted(_EMITTED.codes)


def test_every_diagnostic_code_has_one_anchor() -> None:
    anchors = [anchor for anchor, _, _ in _diagnostic_rows() if anchor is not None]
    assert sorted(anchors) == sorted({code for _, code, _ in _diagnostic_rows()})
    assert all(code == anchor for anchor, code, _ in _diagnostic_rows() if anchor is not None)


def test_every_reason_of_a_parameter_or_a_selection_has_a_row() -> None:
    documented = {
        (match["code"], match["reason"])
        for _, line in _PAGE.prose
        if (match := _DETAIL_ROW.match(line))
    }
    assert sorted(documented) == sorted(_EMITTED.details)


def test_calls_with_a_computed_code_or_reason_are_those_that_are_listed() -> None:
    assert _EMITTED.computed == set(COMPUTED)


def _emitted_pairs() -> set[Pair]:
    return _EMITTED.pairs | {pair for pairs in COMPUTED.values() for pair in pairs}
