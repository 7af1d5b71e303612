"""What a step expects beside what it got: compared exactly, and shown side by side.

Values are equal when their spellings are, so that `3` is not `3.0` and `0.0` is not `-0.0`. Only a
step that says `approx` (relative) or `within` (absolute) lets floats differ.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import cast

from tests.scripts.script_executors import Answer, Column, Merged, Receipt
from tests.scripts.script_format import Step
from tests.scripts.script_values import (
    Value,
    cells_of,
    parse_value,
    render_table,
    spell_value,
)

from omnigraph.errors import OmnigraphError

Outcome = Answer | Receipt | Merged | OmnigraphError | None
"""What a step led to; None where a step that has nothing to tell went well."""

_DETAIL = re.compile(r"detail (?P<name>\w+) = (?P<value>.+)")
_EXACT = ("violation ", "conflict ")
_SAYS = re.compile(r"says (?P<text>\".*\")")


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of the expectation beside the line that was got."""

    expected: str
    actual: str
    is_same: bool


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floats of a step may be from what it expects."""

    relative: float
    absolute: float

    @classmethod
    def of(cls, step: Step) -> "Tolerance":
        """What the options of the step say."""
        try:
            return cls(
                float(step.options.get("approx", "0")), float(step.options.get("within", "0"))
            )
        except ValueError as error:
            raise step.error("a tolerance is a number, as `approx 1e-12`") from error

    def allows(self, wanted: object, got: object) -> bool:
        """Whether two values are the same."""
        if (
            isinstance(wanted, float)
            and isinstance(got, float)
            and (self.relative or self.absolute)
        ):
            return math.isclose(wanted, got, rel_tol=self.relative, abs_tol=self.absolute)
        if isinstance(wanted, list) and isinstance(got, list):
            return len(wanted) == len(got) and all(map(self.allows, wanted, got))
        return spell_value(wanted) == spell_value(got)


def compare(step: Step, outcome: Outcome) -> list[Pair]:
    """Every line that was expected beside what was got.

    Raises:
        ScriptError, SpellingError: the expectation does not follow the format.
    """
    expected = step.expected or ()
    is_error = bool(expected) and expected[0].startswith("error ")
    if is_error and isinstance(outcome, OmnigraphError):
        return _compare_error(step, expected, outcome)
    if not is_error and isinstance(outcome, Answer):
        return _compare_answer(step, expected, outcome)
    if not is_error and isinstance(outcome, Receipt):
        return _compare_receipt(expected, outcome)
    return _side_by_side(expected, actual_lines(step, outcome))


def actual_lines(step: Step, outcome: Outcome) -> list[str]:
    """What was got, in the form of an expectation."""
    match outcome:
        case None:
            return []
        case Answer():
            header = [_heading(each, is_typed=_is_typed(step)) for each in outcome.columns]
            rows = [[spell_value(cell) for cell in row] for row in outcome.rows]
            return render_table([header, *rows])
        case Receipt():
            told = [f"warning {spell_value(each)}" for each in outcome.warnings]
            unchanged = [] if outcome.has_commit else ["no commit"]
            return [f"{outcome.nodes} nodes, {outcome.edges} edges", *unchanged, *told]
        case Merged():
            return [outcome.outcome]
        case OmnigraphError():
            return [f"error {outcome.code}", *_broken(outcome)]


def _is_typed(step: Step) -> bool:
    return bool(step.expected) and ": " in (step.expected or ("",))[0]


def _heading(column: Column, *, is_typed: bool) -> str:
    return f"{column.name}: {column.type}" if is_typed else column.name


def _side_by_side(expected: Sequence[str], actual: Sequence[str]) -> list[Pair]:
    pairs = zip_longest(expected, actual, fillvalue="")
    return [Pair(wanted, got, wanted == got) for wanted, got in pairs]


def _compare_answer(step: Step, expected: Sequence[str], answer: Answer) -> list[Pair]:
    shown = actual_lines(step, answer)
    if not expected:
        return _side_by_side(expected, shown)
    header = cells_of(expected[0])
    is_same_header = len(header) == len(answer.columns) and all(
        wanted == _heading(column, is_typed=": " in wanted)
        for wanted, column in zip(header, answer.columns, strict=True)
    )
    rows = [_row(step, line, len(header)) for line in expected[1:]]
    tolerance = Tolerance.of(step)
    got = list(answer.rows)
    order = list(range(len(got)))
    if "unordered" in step.options:
        order = _matched(rows, got, tolerance.allows)
    pairs = [Pair(expected[0], shown[0], is_same_header)]
    for wanted, line, at in zip_longest(rows, expected[1:], order):
        if wanted is None:
            pairs.append(Pair("", shown[at + 1], is_same=False))
        elif at is None:
            pairs.append(Pair(line, "", is_same=False))
        else:
            is_same = tolerance.allows(wanted, list(got[at]))
            pairs.append(Pair(line, shown[at + 1], is_same))
    return pairs


def _row(step: Step, line: str, columns: int) -> list[Value]:
    values = [parse_value(cell) for cell in cells_of(line)]
    if len(values) != columns:
        raise step.error(f"a row of {columns} cells is expected, not `{line}`")
    return values


def _matched(
    rows: Sequence[list[Value]],
    got: Sequence[Sequence[object]],
    is_same: Callable[[object, object], bool],
) -> list[int]:
    """The places of the rows that were got, each beside the expected row that it equals."""
    left = list(range(len(got)))
    found: list[int | None] = []
    for wanted in rows:
        at = next((each for each in left if is_same(wanted, list(got[each]))), None)
        found.append(at)
        if at is not None:
            left.remove(at)
    rest = iter(left)
    placed = [next(rest, None) if at is None else at for at in found]
    return [each for each in placed if each is not None] + list(rest)


def _compare_receipt(expected: Sequence[str], receipt: Receipt) -> list[Pair]:
    """Warnings are told by a piece of them; all else is exact."""
    told = [f"warning {spell_value(each)}" for each in receipt.warnings]
    plain = [f"{receipt.nodes} nodes, {receipt.edges} edges"]
    plain += [] if receipt.has_commit else ["no commit"]
    pairs: list[Pair] = []
    for wanted, got in zip_longest(expected, [*plain, *told], fillvalue=""):
        is_piece = (
            wanted.startswith("warning ")
            and got.startswith("warning ")
            and str(parse_value(wanted[8:])) in str(parse_value(got[8:]))
        )
        pairs.append(Pair(wanted, got, is_piece or wanted == got))
    return pairs


def _compare_error(step: Step, expected: Sequence[str], error: OmnigraphError) -> list[Pair]:
    """Code, violations and conflicts are exact; messages are told by pieces, details by some."""
    broken = iter(_broken(error))
    wants_broken = any(line.startswith(_EXACT) for line in expected)
    pairs: list[Pair] = []
    for line in expected:
        if line.startswith("error "):
            got = f"error {error.code}"
        elif line.startswith(_EXACT):
            got = next(broken, "")
        elif match := _SAYS.fullmatch(line):
            is_said = str(parse_value(match["text"])) in error.message
            got = line if is_said else f"says {spell_value(error.message)}"
        elif match := _DETAIL.fullmatch(line):
            found = error.details.get(match["name"])
            got = f"detail {match['name']} = {spell_value(found)}"
        else:
            raise step.error(
                f"an error is told by `violation`, `conflict`, `says` and `detail`, not `{line}`"
            )
        pairs.append(Pair(line, got, line == got))
    if wants_broken:
        pairs += [Pair("", line, is_same=False) for line in broken]
    if not all(pair.is_same for pair in pairs):
        pairs.append(Pair("", f"says {spell_value(error.message)}", is_same=True))
    return pairs


def _broken(error: OmnigraphError) -> list[str]:
    """The broken rules and the conflicts of an error, in the form of an expectation."""
    violations, conflicts = (
        cast("Sequence[Mapping[str, str | None]]", error.details.get(name, ()))
        for name in ("violations", "merge_conflicts")
    )  # cast: as every front end gives them
    return [
        *(f"violation {each['code']}" for each in violations),
        *(
            f"conflict {each['kind']} {each['type_name']} {spell_value(each['entity_id'])}"
            for each in conflicts
        ),
    ]


def render_pairs(pairs: Sequence[Pair]) -> str:
    """Expectation and outcome side by side; `!=` marks the lines that differ."""
    left = ["expected", *(pair.expected for pair in pairs)]
    marks = ["  ", *("  " if pair.is_same else "!=" for pair in pairs)]
    right = ["actual", *(pair.actual for pair in pairs)]
    width = max(map(len, left))
    lines = zip(left, marks, right, strict=True)
    return "\n".join(f"    {one.ljust(width)}  {mark}  {two}".rstrip() for one, mark, two in lines)
