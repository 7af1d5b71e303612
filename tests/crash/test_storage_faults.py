"""A failed call of the store, whichever it is, leaves all or nothing, and nobody is lied to."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.crash.actors import Actor
from tests.crash.checks import (
    content_of,
    history,
    read_only_content,
    repeat,
    require_settled,
)
from tests.crash.faults import FailingStore, Moment
from tests.crash.model import knows, person
from tests.crash.places import PLACES, Arranged, Place, arrange
from tests.crash.points import seed
from tests.crash.scripts import NEXT, Script, Step
from tests.crash.writes import commit, play
from tests.extended import thinned

from omnigraph.errors import KeyConflict, OmnigraphError, RecoveryRequired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph import Graph

pytestmark = pytest.mark.crash


def mixed(number: int) -> Script:
    """A changed row in one table, a new one in another: sent twice it is refused."""
    return Script(
        steps=(
            Step("upsert", "Person", (person("p0", number),)),
            Step("append", "Knows", (knows(f"f{number}", "p0", "p1", number),)),
        ),
        is_repeatable=False,
    )


def strict(number: int) -> Script:
    """Two links in one table, every row of the other."""
    return Script(
        steps=(
            Step("delete", "Person", ids=(f"s{number - 1}",)),
            Step("upsert", "Person", (person(f"s{number}", number),)),
            Step("overwrite", "Knows", (knows(f"o{number}", "p0", "p1", number),)),
        )
    )


KINDS = {"mixed": mixed, "strict": strict}
ERRORS: tuple[type[Exception], ...] = (OSError, TimeoutError, RuntimeError)
STEP = 3
"""Every third call, of each moment others: every call fails in one of them."""

WIDE_STEP = 24
"""The short run fails some of those, others every day."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", thinned([WIDE_STEP, STEP]))
@pytest.mark.parametrize("moment", Moment)
def test_a_write_survives_a_fault_at_any_call(
    moment: Moment, step: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    turn = seed() + list(Moment).index(moment)
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "main")
    first = 1 + list(Moment).index(moment) % STEP
    calls = count(first + seed() * STEP % step, step)
    fail_at_calls(arranged, calls, moment, list(KINDS)[turn % 2], ERRORS[turn % 3])


def fail_at_calls(
    arranged: Arranged, calls: Iterator[int], moment: Moment, kind: str, error: type[Exception]
) -> None:
    """One open graph lives through all of it, as a server does."""
    store = FailingStore()
    now = arranged.content
    with Actor(arranged.root, "faulty", observer=store, durability="full").graph as graph:
        for turn, number in enumerate(calls, 1):
            script = KINDS[kind](turn)
            before = [each.graph_commit_id for each in history(graph, arranged.branch)]
            store.arm(number, moment, error)
            outcome = attempt(graph, script, arranged.branch)
            store.disarm()
            label = f"call {number}, {store.hit}: {outcome!r}"
            shown = read_only_content(arranged.root, arranged.branch)
            new = play(now, script)
            require_honest(outcome, shown, old=now, new=new, label=label)
            if store.hit is None:
                return
            if moment is Moment.UNSYNCED and outcome is None:
                assert store.has_disarmed, f"acknowledged, and not durable: {label}"
            commit(graph, NEXT, arranged.branch)
            settled = content_of(graph, arranged.branch)
            assert settled in (play(now, NEXT), play(new, NEXT)), label
            assert shown != new or settled == play(new, NEXT), label
            if outcome is None or not isinstance(outcome, RecoveryRequired):
                assert settled == play(shown, NEXT), f"changed its mind: {label}"
            repeat(graph, script, arranged.branch)
            now = play(play(now, NEXT), script)
            assert content_of(graph, arranged.branch) == now, label
            require_settled(graph, arranged.root)
            made = history(graph, arranged.branch)[: -len(before)]
            # The script, the next write, and perhaps the script again: each at most once.
            mutations = [each for each in made if each.kind == "mutation"]
            assert len(mutations) <= (3 if script.is_repeatable else 2), label


def attempt(graph: Graph, script: Script, branch: str) -> OmnigraphError | None:
    try:
        commit(graph, script, branch)
    except OmnigraphError as error:
        return error
    return None


def require_honest(
    outcome: OmnigraphError | None, shown: object, *, old: object, new: object, label: str
) -> None:
    """Success means new, an unknown outcome either, every other error old."""
    match outcome:
        case None:
            assert shown == new, f"acknowledged, not there: {label}"
        case RecoveryRequired():
            assert shown in (old, new), f"half visible: {label}"
        case KeyConflict():
            raise AssertionError(f"landed, and was sent again by itself: {label}")
        case _:
            assert shown == old, f"reported as failed, and there: {label}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", Moment)
def test_every_write_survives_every_fault_at_every_call(
    moment: Moment,
    kind: str,
    place: Place,
    error: type[Exception],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", place)
    fail_at_calls(arranged, count(1), moment, kind, error)
