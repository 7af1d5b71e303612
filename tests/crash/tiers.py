"""Which cases of a crash test the default suite runs; continuous integration runs the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.crash.loads import LOADS
from tests.crash.mutations import MUTATIONS
from tests.crash.places import PLACES, Place
from tests.crash.points import BACK, FORWARD, Cell, SecondCell
from tests.crash.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _pytest.mark.structures import ParameterSet

_T = TypeVar("_T")

_PARTS = {
    "before": ("post_capture", "post_stage_pre_lease", "post_lease_pre_sidecar"),
    "tables": ("post_phase_a", "pre_table_commit", "post_table_commit", "between_links"),
    "publish": ("post_phase_b_pre_manifest_commit", "post_read_pre_commit", "contention"),
    "after": ("ack_lost", "post_phase_c_pre_phase_d", "post_phase_d_pre_release"),
    "look": ("post_list", "post_classify"),
    "restore": ("between_restores", "post_restore_pre_publish"),
    "forward": ("pre_roll_forward_publish",),
    "clean": ("post_publish_pre_delete",),
}
"""The steps of every part of a write, and of a recovery."""

_OUTCOMES = {"back": BACK, "forward": FORWARD}


def covering(
    cases: Sequence[_T], traits: Callable[[_T], set[object]], *, unpack: bool = False
) -> list[ParameterSet]:
    """Few cases for the default suite that have every trait of all of them.

    Args:
        cases: what a test is called with.
        traits: what makes a case differ from others.
        unpack: whether a case is a tuple of several parameters.
    """
    left = set[object]().union(*map(traits, cases))
    chosen: set[int] = set()
    while left:
        best = max(range(len(cases)), key=lambda number: len(traits(cases[number]) & left))
        chosen.add(best)
        left -= traits(cases[best])
    return [
        pytest.param(
            *(case if unpack and isinstance(case, tuple) else (case,)),
            marks=() if number in chosen else pytest.mark.extended,
        )
        for number, case in enumerate(cases)
    ]


def at_places(*cases: str) -> pytest.MarkDecorator:
    """A `point` or `script` at every place: by default each at one place, and every place once.

    The test takes the graph as `arranged`, a fixture of places, and the case as `case`.
    """
    chosen = {
        (cases[number % len(cases)], PLACES[number % len(PLACES)])
        for number in range(max(len(cases), len(PLACES)))
    }
    return pytest.mark.parametrize(
        ("arranged", "case"),
        [
            pytest.param(place, case, marks=() if (case, place) in chosen else pytest.mark.extended)
            for case in cases
            for place in PLACES
        ],
        indirect=["arranged"],
    )


def chiefly(chief: Place) -> pytest.MarkDecorator:
    """Every place for the fixture `arranged`; the default suite has only this one."""
    return pytest.mark.parametrize(
        "arranged",
        [
            pytest.param(place, marks=() if place == chief else pytest.mark.extended)
            for place in PLACES
        ],
        indirect=True,
    )


def traits_of(cell: Cell) -> set[object]:
    """Its write, its place, in which part it was stopped and how, and whom a recovery finds."""
    part = _part(cell.trap.point)
    found: set[object] = {cell.script, cell.place, part, cell.trap.action}
    if part in ("tables", "publish"):
        found.add((part, _writer(cell.script)))
    return found


def traits_of_second(cell: SecondCell) -> set[object]:
    """Which part of which recovery was stopped, how, and where."""
    first = cell.first.trap
    outcome = next(
        (name for name, crashes in _OUTCOMES.items() if first in [each.trap for each in crashes]),
        "done",
    )
    part = _part(cell.trap.point)
    return {part, cell.first.place, (outcome, cell.trap.action), _writer(cell.first.script)}


def _part(point: str) -> str:
    area, _, step = point.partition(".")
    return next((part for part, steps in _PARTS.items() if step in steps), area)


def _writer(script: str) -> str:
    """The way that a write takes to its tables."""
    ways = {"writer": SCRIPTS, "mutation": MUTATIONS, "load": LOADS}
    return next((way for way, scripts in ways.items() if script in scripts), script)
