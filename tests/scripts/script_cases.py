"""A query that is asked many times: one line of a table for each case.

    query cases
    query q($x: String) { match { $d: Doc ${call}($d.body, $x) } return { $d } }
    ----
    call   | $x    | => d
    search | "fox" | ["a", "b"]
    fuzzy  | 3     | error parameter_error; says "String"

A column with a dollar sign is a parameter, left out where its cell is empty; any other is text that
stands in the query for `${name}`. The last column names the columns of the answer; below it stand
its rows, as a list of lists, or of values where there is one column. An error is told in one cell,
with semicolons between what would be lines elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.scripts.script_executors import Answer
from tests.scripts.script_format import Step, fill_in
from tests.scripts.script_outcomes import Outcome, Pair, Tolerance, compare
from tests.scripts.script_values import (
    cells_of,
    parse_value,
    render_table,
    spell_value,
)

from omnigraph.errors import OmnigraphError

_ARROW = "=>"


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: what to ask, and the cell that tells what is expected."""

    source: str
    params: Mapping[str, object]
    expected: str


def cases_of(step: Step, params: Mapping[str, object]) -> Iterator[Case]:
    """The cases of a step, with the parameters of all of them.

    Raises:
        ScriptError, SpellingError: the table does not follow the format.
    """
    header, *lines = _table(step)
    for line in lines:
        texts: dict[str, str] = {}
        values = dict(params)
        for name, cell in zip(header[:-1], line[:-1], strict=True):
            if not name.startswith("$"):
                texts[name] = cell
            elif cell:
                values[name[1:]] = parse_value(cell)
        yield Case(fill_in(step.text, texts), values, line[-1])


def compare_cases(step: Step, outcomes: Sequence[Outcome]) -> list[Pair]:
    """Every line of the table beside what was got."""
    header, *lines = _table(step)
    wanted = step.expected or ()
    shown = actual_cases(step, outcomes)
    pairs = [Pair(wanted[0], shown[0], _is_same_header(header[-1], outcomes))]
    for line, cells, got, outcome in zip(wanted[1:], lines, shown[1:], outcomes, strict=True):
        pairs.append(Pair(line, got, _is_same(step, cells[-1], outcome)))
    return pairs


def actual_cases(step: Step, outcomes: Sequence[Outcome]) -> list[str]:
    """The table with what was got in the last column; a cell that is right stays as it is."""
    header, *lines = _table(step)
    names = next((_names(each) for each in outcomes if isinstance(each, Answer)), header[-1])
    rows = [
        [*line[:-1], line[-1] if _is_same(step, line[-1], outcome) else _cell(outcome)]
        for line, outcome in zip(lines, outcomes, strict=True)
    ]
    return render_table([[*header[:-1], names], *rows])


def _table(step: Step) -> list[list[str]]:
    if not step.expected:
        raise step.error("a table of cases is missing")
    rows = [cells_of(line) for line in step.expected]
    if not rows[0][-1].startswith(_ARROW):
        raise step.error(f"the last column of a table of cases begins with `{_ARROW}`")
    for row, line in zip(rows, step.expected, strict=True):
        if len(row) != len(rows[0]):
            raise step.error(f"a row of {len(rows[0])} cells is expected, not `{line}`")
    return rows


def _names(answer: Answer) -> str:
    return f"{_ARROW} {', '.join(each.name for each in answer.columns)}"


def _is_same_header(wanted: str, outcomes: Sequence[Outcome]) -> bool:
    return all(wanted == _names(each) for each in outcomes if isinstance(each, Answer))


def _is_same(step: Step, cell: str, outcome: Outcome) -> bool:
    if isinstance(outcome, OmnigraphError) and cell.startswith("error "):
        told = replace(step, options={}, expected=tuple(cell.split("; ")))
        return all(pair.is_same for pair in compare(told, outcome))
    if not isinstance(outcome, Answer) or cell.startswith("error ") or not cell:
        return False
    wanted, got = parse_value(cell), _listed(outcome)
    return isinstance(wanted, list) and Tolerance.of(step).allows(wanted, got)


def _listed(answer: Answer) -> list[object]:
    if len(answer.columns) == 1:
        return [row[0] for row in answer.rows]
    return [list(row) for row in answer.rows]


def _cell(outcome: Outcome) -> str:
    if isinstance(outcome, OmnigraphError):
        return f"error {outcome.code}"
    assert isinstance(outcome, Answer)
    return spell_value(_listed(outcome))
