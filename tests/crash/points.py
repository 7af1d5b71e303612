"""Which points a write can be stopped at, where it passes them, and how often.

The names are spelled out: a test reads this file to see that every registered point is used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from tests.crash.loads import LOADS
from tests.crash.mutations import MUTATIONS
from tests.crash.places import PLACES, Place
from tests.crash.processes import Trap
from tests.crash.scripts import SCRIPTS

from omnigraph.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")

ACTIONS = ("kill", "stop")
ALL = tuple(SCRIPTS)
QUERIES = tuple(MUTATIONS)
INPUTS = tuple(LOADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point on the way of a write."""

    name: str
    scripts: tuple[str, ...] = ALL
    places: tuple[Place, ...] = PLACES
    hits: tuple[int, ...] = (1,)
    first_hits: tuple[int, ...] = ()
    """Passages that only the first write on a branch makes."""

    slow: str | None = None


WRITE_POINTS = (
    Point(name="mutation.post_capture"),
    Point(name="mutation.post_stage_pre_lease"),
    Point(name="mutation.post_lease_pre_sidecar"),
    Point(name="mutation.post_phase_a"),
    Point(name="mutation.pre_table_commit", hits=(1, 2)),
    Point(name="mutation.post_table_commit", hits=(1, 2)),
    Point(name="mutation.between_links", scripts=("replace",), hits=(1, 2)),
    Point(name="mutation.post_phase_b_pre_manifest_commit"),
    Point(name="mutation.post_phase_c_pre_phase_d"),
    Point(name="mutation.post_phase_d_pre_release"),
    Point(name="publish.post_read_pre_commit"),
    Point(name="publish.contention"),
    Point(name="publish.ack_lost"),
    Point(name="lease.post_create", first_hits=(2, 3)),
    Point(name="lease.release", first_hits=(2, 3)),
    Point(name="lease.renew", slow="mutation.post_phase_a"),
    Point(name="fork.post_create_pre_open", places=("first",), hits=(1, 2)),
    Point(name="fork.pre_reclaim", places=("first",)),
)
"""What one undisturbed write passes."""

MUTATION_POINTS = (
    Point(name="mutation.post_capture", scripts=QUERIES),
    Point(name="mutation.post_stage_pre_lease", scripts=QUERIES),
    Point(name="mutation.post_lease_pre_sidecar", scripts=QUERIES),
    Point(name="mutation.post_phase_a", scripts=QUERIES),
    Point(name="mutation.pre_table_commit", scripts=QUERIES, hits=(1, 2)),
    Point(name="mutation.post_table_commit", scripts=QUERIES, hits=(1, 2)),
    Point(name="mutation.between_links", scripts=("gq_update",)),
    Point(name="mutation.post_phase_b_pre_manifest_commit", scripts=QUERIES),
    Point(name="mutation.post_phase_c_pre_phase_d", scripts=QUERIES),
    Point(name="mutation.post_phase_d_pre_release", scripts=QUERIES),
)
"""What is a mutation query's own on its way."""

LOAD_POINTS = (
    Point(name="load.post_capture", scripts=INPUTS),
    Point(name="load.post_stage_pre_lease", scripts=INPUTS),
    Point(name="load.post_lease_pre_sidecar", scripts=INPUTS),
    Point(name="load.post_phase_a", scripts=INPUTS),
    Point(name="load.pre_table_commit", scripts=INPUTS, hits=(1, 2)),
    Point(name="load.post_table_commit", scripts=INPUTS, hits=(1, 2)),
    Point(name="load.between_links", scripts=("load_overwrite",)),
    Point(name="load.post_phase_b_pre_manifest_commit", scripts=INPUTS),
    Point(name="load.post_phase_c_pre_phase_d", scripts=INPUTS),
    Point(name="load.post_phase_d_pre_release", scripts=INPUTS),
)
"""What is a load's own on its way; an overwrite registers the text indexes by a second link."""

_REVERT = ("revert",)

REVERT_POINTS = (
    *(
        replace(point, scripts=_REVERT)
        for point in WRITE_POINTS
        if point.name != "mutation.between_links"
    ),
    Point(name="mutation.between_links", scripts=_REVERT, hits=(1, 2, 3, 4)),
)
"""What a revert passes; it writes two tables with three links each."""

ENGINE_POINTS = (*MUTATION_POINTS, *LOAD_POINTS)
"""What the engine's writes pass; they share the rest of the way with those above."""

_EMBED = ("embed",)

EMBED_POINTS = (
    Point(name="embed.post_capture", scripts=_EMBED),
    Point(name="embed.post_stage_pre_lease", scripts=_EMBED),
    Point(name="embed.post_lease_pre_sidecar", scripts=_EMBED),
    Point(name="embed.post_phase_a", scripts=_EMBED),
    Point(name="embed.pre_table_commit", scripts=_EMBED),
    Point(name="embed.post_table_commit", scripts=_EMBED),
    Point(name="embed.post_phase_b_pre_manifest_commit", scripts=_EMBED),
    Point(name="embed.post_phase_c_pre_phase_d", scripts=_EMBED),
    Point(name="embed.post_phase_d_pre_release", scripts=_EMBED),
    Point(name="fork.post_create_pre_open", scripts=_EMBED, places=("first",)),
    Point(name="fork.pre_reclaim", scripts=_EMBED, places=("first",)),
)
"""What an embedding job passes; it writes one table with one link, so nothing between."""

_INDEX = ("index",)

INDEX_POINTS = (
    Point(name="ensure_indices.post_capture", scripts=_INDEX),
    Point(name="ensure_indices.post_stage_pre_lease", scripts=_INDEX),
    Point(name="ensure_indices.post_lease_pre_sidecar", scripts=_INDEX),
    Point(name="ensure_indices.post_phase_a", scripts=_INDEX),
    Point(name="ensure_indices.pre_table_commit", scripts=_INDEX, hits=(1, 2, 3)),
    Point(name="ensure_indices.post_table_commit", scripts=_INDEX, hits=(1, 2, 3)),
    Point(name="ensure_indices.post_phase_b_pre_manifest_commit", scripts=_INDEX),
    Point(name="ensure_indices.post_phase_c_pre_phase_d", scripts=_INDEX),
    Point(name="ensure_indices.post_phase_d_pre_release", scripts=_INDEX),
    Point(name="publish.post_read_pre_commit", scripts=_INDEX),
    Point(name="publish.contention", scripts=_INDEX),
    Point(name="publish.ack_lost", scripts=_INDEX),
    Point(name="lease.post_create", scripts=_INDEX, first_hits=(2, 3, 4)),
    Point(name="lease.release", scripts=_INDEX, first_hits=(2, 3, 4)),
    Point(name="lease.renew", scripts=_INDEX, slow="ensure_indices.post_phase_a"),
    Point(name="fork.post_create_pre_open", scripts=_INDEX, places=("first",), hits=(1, 2, 3)),
    Point(name="fork.pre_reclaim", scripts=_INDEX, places=("first",)),
)
"""What one undisturbed build of indexes passes; it has one link per table, so nothing between."""

_OPTIMIZE = ("optimize",)

OPTIMIZE_POINTS = (
    Point(name="optimize.post_capture", scripts=_OPTIMIZE),
    Point(name="optimize.pre_rewrite", scripts=_OPTIMIZE, hits=(1, 2, 3)),
    Point(name="optimize.post_stage_pre_lease", scripts=_OPTIMIZE),
    Point(name="optimize.post_lease_pre_sidecar", scripts=_OPTIMIZE),
    Point(name="optimize.post_phase_a", scripts=_OPTIMIZE),
    Point(name="optimize.pre_table_commit", scripts=_OPTIMIZE, hits=(1, 2, 3, 4, 5)),
    Point(name="optimize.post_table_commit", scripts=_OPTIMIZE, hits=(1, 2, 3, 4, 5)),
    Point(name="optimize.between_links", scripts=_OPTIMIZE, hits=(1, 2)),
    Point(name="optimize.post_phase_b_pre_manifest_commit", scripts=_OPTIMIZE),
    Point(name="optimize.post_phase_c_pre_phase_d", scripts=_OPTIMIZE),
    Point(name="optimize.post_phase_d_pre_release", scripts=_OPTIMIZE),
)
"""What one `optimize` passes: two tables are joined and indexed, by two links, one is indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A first crash that leaves work for a recovery."""

    trap: Trap
    scripts: tuple[str, ...] = (*ALL, *QUERIES)


BACK_OF_TABLES = (
    Crash(trap=Trap(point="mutation.post_phase_a", action="kill")),
    Crash(trap=Trap(point="mutation.post_table_commit", action="kill")),
    Crash(trap=Trap(point="mutation.pre_table_commit", action="kill", hit=2)),
    Crash(
        trap=Trap(point="mutation.between_links", action="kill"), scripts=("replace", "gq_update")
    ),
    Crash(trap=Trap(point="load.post_table_commit", action="kill"), scripts=INPUTS),
    Crash(trap=Trap(point="ensure_indices.post_table_commit", action="kill"), scripts=_INDEX),
    Crash(trap=Trap(point="optimize.between_links", action="kill"), scripts=_OPTIMIZE),
)
BACK_OF_ONE_TABLE = (Crash(trap=Trap(point="embed.post_phase_a", action="kill"), scripts=_EMBED),)
BACK = (*BACK_OF_TABLES, *BACK_OF_ONE_TABLE)
FORWARD = (
    Crash(trap=Trap(point="mutation.post_phase_b_pre_manifest_commit", action="kill")),
    Crash(
        trap=Trap(point="publish.post_read_pre_commit", action="kill"),
        scripts=(*ALL, *QUERIES, *INPUTS),
    ),
    Crash(trap=Trap(point="load.post_phase_b_pre_manifest_commit", action="kill"), scripts=INPUTS),
    Crash(
        trap=Trap(point="ensure_indices.post_phase_b_pre_manifest_commit", action="kill"),
        scripts=_INDEX,
    ),
    Crash(trap=Trap(point="embed.post_table_commit", action="kill"), scripts=_EMBED),
)
DONE = (
    Crash(trap=Trap(point="publish.ack_lost", action="kill"), scripts=(*ALL, *QUERIES, *INPUTS)),
    Crash(trap=Trap(point="mutation.post_phase_c_pre_phase_d", action="kill")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPoint:
    """A point on the way of a recovery, and the crashes that lead there."""

    name: str
    after: tuple[Crash, ...]
    hits: tuple[int, ...] = (1,)


RECOVERY_POINTS = (
    RecoveryPoint(name="recovery.post_list", after=(*BACK, *FORWARD, *DONE)),
    RecoveryPoint(name="recovery.post_classify", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="recovery.between_restores", after=BACK_OF_TABLES, hits=(1, 2)),
    RecoveryPoint(name="recovery.between_restores", after=BACK_OF_ONE_TABLE),
    RecoveryPoint(name="recovery.post_restore_pre_publish", after=BACK),
    RecoveryPoint(name="recovery.pre_roll_forward_publish", after=FORWARD),
    RecoveryPoint(name="recovery.post_publish_pre_delete", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="publish.post_read_pre_commit", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="publish.contention", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="publish.ack_lost", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="lease.post_create", after=(*BACK, *FORWARD)),
    RecoveryPoint(name="lease.release", after=(*BACK, *FORWARD, *DONE)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One crash: where, how, in which write, at which place."""

    trap: Trap
    script: str
    place: Place
    has_rival: bool = False
    """Whoever takes over writes to the same tables."""

    def __str__(self) -> str:
        hit = f"#{self.trap.hit}" if self.trap.hit > 1 else ""
        rival = "-rival" if self.has_rival else ""
        return f"{self.trap.point}{hit}-{self.trap.action}-{self.script}-{self.place}{rival}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondCell:
    """A crash, and another one in its recovery."""

    first: Cell
    trap: Trap

    def __str__(self) -> str:
        hit = f"#{self.trap.hit}" if self.trap.hit > 1 else ""
        return f"{self.first}-then-{self.trap.point}{hit}-{self.trap.action}"


def seed() -> int:
    """Rotates what the short run does: given, or another one every day."""
    given = os.environ.get("OMNIGRAPH_SEED")
    return int(given) if given else SystemClock().now_us() // 86_400_000_000


def cells(points: Sequence[Point]) -> list[Cell]:
    """Every crash of a write."""
    return [cell for point in points for action in ACTIONS for cell in _of(point, action)]


def _of(point: Point, action: str) -> list[Cell]:
    return [
        Cell(
            trap=Trap(point=point.name, action=action, hit=hit, slow=point.slow),
            script=script,
            place=place,
            has_rival=has_rival,
        )
        for has_rival in ((False, True) if action == "stop" else (False,))
        for place in point.places
        for hit in point.hits + (point.first_hits if place == "first" else ())
        for script in point.scripts
    ]


def chosen_cells(points: Sequence[Point]) -> list[Cell]:
    """One crash per point and action."""
    turn = count(seed())
    return [_pick(_of(point, action), next(turn)) for point in points for action in ACTIONS]


def rotating_cells(points: Sequence[Point]) -> list[Cell]:
    """One crash per point; the actions take turns."""
    turn = count(seed())
    return [
        _pick([cell for action in ACTIONS for cell in _of(point, action)], next(turn))
        for point in points
    ]


def second_cells() -> list[SecondCell]:
    """Every crash of a recovery, after every first crash at every place; the writes take turns."""
    return [_pick(options, turn) for turn, options in enumerate(_alternatives(), start=seed())]


def _alternatives() -> list[list[SecondCell]]:
    grouped: dict[tuple[object, ...], list[SecondCell]] = {}
    for point in RECOVERY_POINTS:
        for action in ACTIONS:
            for cell in _second(point, action):
                key = (cell.trap, cell.first.trap, cell.first.place)
                grouped.setdefault(key, []).append(cell)
    return list(grouped.values())


def _second(point: RecoveryPoint, action: str) -> list[SecondCell]:
    return [
        SecondCell(
            first=Cell(trap=crash.trap, script=script, place=place),
            trap=Trap(point=point.name, action=action, hit=hit),
        )
        for crash in point.after
        for script in crash.scripts
        for place in PLACES
        for hit in point.hits
    ]


def chosen_second_cells() -> list[SecondCell]:
    """One crash of a recovery per point and action."""
    turn = count(seed())
    return [
        _pick(_second(point, action), next(turn)) for point in RECOVERY_POINTS for action in ACTIONS
    ]


def _pick(options: Sequence[_T], turn: int) -> _T:
    """Another option every turn; neighbours in the list differ little, so it strides."""
    stride = next(each for each in (37, 41, 43) if len(options) % each)
    return options[turn * stride % len(options)]
