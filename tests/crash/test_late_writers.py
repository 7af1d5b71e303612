"""A writer that wakes after others took over: every case of the protocol, step by step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.crash.actors import Actor, Crash, Played, actors, parking
from tests.crash.checks import (
    commits_by,
    history,
    open_graph,
    require_convergence,
    require_honest,
    require_replayed,
)
from tests.crash.places import PLACES, Arranged, Place, arrange, leave_stale_fork
from tests.crash.points import seed
from tests.crash.scripts import NEXT, RIVAL, SCRIPTS
from tests.crash.tiers import at_places, chiefly
from tests.crash.writes import Write, commit
from tests.extended import thinned

from omnigraph import failpoints
from omnigraph.graph.recovery.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.storage.calls import StoreCall

pytestmark = pytest.mark.crash


@pytest.fixture(params=PLACES)
def arranged(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Arranged:
    return arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", request.param)


@contextmanager
def late(arranged: Arranged, point: str, script: Write) -> Iterator[tuple[Played, Actor]]:
    """A write that is parked at a point, and somebody to take over."""
    with actors(arranged.root, "late", "other") as (sleeper, other):
        write = Played(sleeper, script, arranged.branch, point)
        with parking(write):
            write.start()
            assert write.is_parked, f"{point} was not passed: {write.error!r}"
            yield write, other
            write.resume(late=False)
            write.join()


def judge(arranged: Arranged, late_script: Write, **others: Write) -> list[str]:
    """History explains what is there and the graph is usable; the actors in order of landing."""
    with open_graph(arranged.root) as graph:
        writes = {"late": late_script, "other": RIVAL} | others
        order = [
            str(each.actor_id)
            for each in reversed(history(graph, arranged.branch)[: -arranged.commits])
            if each.kind == "mutation"
        ]
        now = require_replayed(graph, arranged, writes)
        require_convergence(graph, arranged.root, arranged.branch, RIVAL, [now], is_strict=False)
    return order


@at_places("mutation.post_lease_pre_sidecar", "mutation.post_phase_a")
def test_one_that_wakes_before_its_first_effect_starts_over(arranged: Arranged, case: str) -> None:
    with late(arranged, case, SCRIPTS["upsert"]) as (write, other):
        commit(other.graph, RIVAL, arranged.branch)
    assert write.error is None
    assert judge(arranged, SCRIPTS["upsert"]) == ["other", "late"]


@chiefly("first")
def test_its_sidecar_explains_the_restores_of_a_recovery_that_died(arranged: Arranged) -> None:
    with late(arranged, "mutation.post_phase_a", SCRIPTS["upsert"]) as (write, other):
        other.crash_at("recovery.between_restores", RIVAL, arranged.branch)
    assert write.error is None
    assert judge(arranged, SCRIPTS["upsert"]) == ["late"]


@chiefly("main")
def test_one_that_was_rolled_back_cannot_move_a_table(arranged: Arranged) -> None:
    with late(arranged, "mutation.pre_table_commit", SCRIPTS["upsert"]) as (write, other):
        commit(other.graph, RIVAL, arranged.branch)
    assert write.refusal == "Fenced"
    assert judge(arranged, SCRIPTS["upsert"]) == ["other"]


@at_places(*SCRIPTS)
def test_no_kind_of_write_gets_past_the_fence(arranged: Arranged, case: str) -> None:
    with late(arranged, "mutation.pre_table_commit", SCRIPTS[case]) as (write, other):
        commit(other.graph, NEXT, arranged.branch)
    assert write.refusal == "Fenced"
    assert judge(arranged, SCRIPTS[case], other=NEXT) == ["other"]


@at_places("recovery.post_list", "recovery.post_classify")
def test_a_version_that_lands_during_its_recovery_is_rolled_back(
    arranged: Arranged, case: str
) -> None:
    with actors(arranged.root, "late", "other") as (sleeper, other):
        write = Played(sleeper, SCRIPTS["upsert"], arranged.branch, "mutation.pre_table_commit")
        healing = Played(other, RIVAL, arranged.branch, case)
        with parking(write, healing):
            write.start()
            healing.start()
            assert healing.is_parked
            write.resume(late=False)
            healing.resume(late=False)
        assert write.refusal in {"RecoveryRequired", "Fenced"}
        assert healing.error is None
    assert judge(arranged, SCRIPTS["upsert"]) == ["other"]


@at_places(
    "mutation.post_phase_b_pre_manifest_commit",
    "publish.post_read_pre_commit",
    "publish.contention",
)
def test_one_that_was_rolled_forward_hears_of_its_success(arranged: Arranged, case: str) -> None:
    with late(arranged, case, SCRIPTS["upsert"]) as (write, other):
        commit(other.graph, RIVAL, arranged.branch)
    assert judge(arranged, SCRIPTS["upsert"]) == ["late", "other"]
    with open_graph(arranged.root) as graph:
        assert commits_by(graph, arranged.branch, "late") == [write.commit_id]
        found = [each for each in history(graph, arranged.branch) if each.recovered]
        assert [each.graph_commit_id for each in found] == [write.commit_id]


@chiefly("named")
def test_one_that_was_rolled_back_before_its_publish_is_turned_away(
    arranged: Arranged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recovery, "_may_roll_forward", lambda *_: False)
    with late(arranged, "publish.post_read_pre_commit", SCRIPTS["upsert"]) as (write, other):
        commit(other.graph, RIVAL, arranged.branch)
    assert write.refusal == "Fenced"
    assert judge(arranged, SCRIPTS["upsert"]) == ["other"]


@chiefly("first")
def test_one_that_publishes_before_its_recovery_does_has_won(
    arranged: Arranged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recovery, "_may_roll_forward", lambda *_: False)
    with actors(arranged.root, "late", "other") as (sleeper, other):
        write = Played(sleeper, SCRIPTS["upsert"], arranged.branch, "publish.post_read_pre_commit")
        healing = Played(other, RIVAL, arranged.branch, "recovery.post_restore_pre_publish")
        with parking(write, healing):
            write.start()
            healing.start()
            assert healing.is_parked
            write.resume(late=False)
            assert write.commit_id is not None
            healing.resume(late=False)
        assert healing.error is None
    assert judge(arranged, SCRIPTS["upsert"]) == ["late", "other"]


@chiefly("main")
def test_a_late_restore_of_a_recovery_is_residue_that_the_next_write_removes(
    arranged: Arranged,
) -> None:
    store = Intruder()
    with actors(arranged.root, "dead", "other") as (dead, other):
        recoverer = Actor(arranged.root, "late", observer=store)
        dead.crash_at("mutation.post_table_commit", SCRIPTS["upsert"], arranged.branch)
        restores = "commit", 2

        def take_over() -> None:
            commit(other.graph, RIVAL, arranged.branch)

        store.arm(take_over, *restores)
        commit(recoverer.graph, SCRIPTS["replace"], arranged.branch)
        assert store.has_intruded
        recoverer.graph.close()
    order = judge(arranged, SCRIPTS["replace"], dead=SCRIPTS["upsert"])
    assert order == ["other", "late"]


def test_a_line_that_others_have_published_is_not_reclaimed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arranged = arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", "first")
    leave_stale_fork(arranged)
    with late(arranged, "fork.pre_reclaim", SCRIPTS["upsert"]) as (write, other):
        commit(other.graph, RIVAL, arranged.branch)
    assert write.error is None
    assert judge(arranged, SCRIPTS["upsert"]) == ["other", "late"]


class Intruder:
    """A `CallObserver` that lets somebody act right before one call."""

    def __init__(self) -> None:
        self._act: Callable[[], None] | None = None
        self._operation: str | None = None
        self._left = 0
        self.has_intruded = False
        self.call: StoreCall | None = None

    def arm(self, act: Callable[[], None], operation: str | None, number: int) -> None:
        """Act before the n-th call from now on, or the n-th of one operation."""
        self._act, self._operation, self._left = act, operation, number

    def before(self, call: StoreCall) -> None:
        if self._act is None or self._operation not in (None, call.operation):
            return
        self._left -= 1
        if self._left == 0:
            act, self._act = self._act, None
            self.has_intruded, self.call = True, call
            act()

    def after(self, call: StoreCall) -> None:
        """Nothing happens after a call."""


DEATHS = (
    None,
    "mutation.post_phase_a",
    "mutation.post_table_commit",
    "mutation.post_phase_b_pre_manifest_commit",
    "recovery.between_restores",
    "recovery.post_restore_pre_publish",
    "recovery.post_publish_pre_delete",
)
"""Where whoever takes over dies in turn; `None` if it lives."""


def take_over_at_calls(
    folder: Path,
    shared: Path,
    *,
    place: Place,
    script: str,
    death: str | None,
    is_late: bool,
    first: int = 1,
    step: int = 1,
) -> None:
    """Stop a writer before each of its storage calls, one run each, and let another take over."""
    for number in range(first, 1_000, step):
        arranged = arrange(shared, folder / f"graph-{number}", place)
        store = Intruder()
        sleeper = Actor(arranged.root, "late", observer=store)
        with actors(arranged.root, "other") as (other,):
            store.arm(_taking_over(sleeper, other, arranged, death, is_late=is_late), None, number)
            write = Played(sleeper, SCRIPTS[script], arranged.branch, None)
            write.start()
            write.join()
            sleeper.graph.close()
            label = f"before call {number}, {store.call}"
            try:
                _require_fair(arranged, write)
            except AssertionError as error:
                raise AssertionError(f"{label}: {error}") from error
        if not store.has_intruded:
            return


def _taking_over(
    sleeper: Actor, other: Actor, arranged: Arranged, death: str | None, *, is_late: bool
) -> Callable[[], None]:
    def die() -> None:
        raise Crash

    def act() -> None:
        if is_late:
            sleeper.sleep_past_lease()
        if death is None:
            commit(other.graph, RIVAL, arranged.branch)
            return
        try:
            with failpoints.armed(death, die):
                commit(other.graph, RIVAL, arranged.branch)
        except Crash:
            return

    return act


def _require_fair(arranged: Arranged, write: Played) -> None:
    with open_graph(arranged.root) as graph:
        require_honest(graph, arranged.branch, "late", write.commit_id, write.refusal)
        now = require_replayed(graph, arranged, {"late": write.script, "other": RIVAL})
        require_convergence(graph, arranged.root, arranged.branch, RIVAL, [now], is_strict=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", thinned([9, 3]))
def test_a_takeover_before_any_call_of_a_write_is_fair(
    step: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    turn = seed()
    take_over_at_calls(
        tmp_path,
        tmp_path_factory.getbasetemp(),
        place=PLACES[turn % 3],
        script=list(SCRIPTS)[turn % 5],
        death=DEATHS[turn % 7],
        is_late=bool(turn % 2),
        first=1 + turn % step,
        step=step,
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("when", ["in_time", "late"])
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("place", PLACES)
def test_every_takeover_before_any_call_of_a_write_is_fair(
    place: Place,
    death: str | None,
    when: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    turn = seed() + PLACES.index(place) + DEATHS.index(death)
    take_over_at_calls(
        tmp_path,
        tmp_path_factory.getbasetemp(),
        place=place,
        script=list(SCRIPTS)[turn % len(SCRIPTS)],
        death=death,
        is_late=when == "late",
    )
