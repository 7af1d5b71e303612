"""Where the driver of a load on Spark dies or stands still.

The names are spelled out: a test reads this file to see that every registered point is used.
"""

from __future__ import annotations

from tests.crash.points import Cell, Point, seed
from tests.crash.processes import Trap
from tests.crash.spark_loads import JOBS

_ALL = tuple(JOBS)

STAGE_POINTS = (
    Point(name="spark_load.post_open", scripts=_ALL),
    Point(name="spark_load.post_list", scripts=_ALL),
    Point(name="spark_load.post_intake", scripts=_ALL),
    Point(name="spark_load.post_check", scripts=_ALL),
    Point(name="spark_load.post_resolve", scripts=_ALL),
)
"""The end of every stage before the commit."""

BEFORE_EFFECTS = (
    Point(name="load.post_capture", scripts=_ALL),
    Point(name="load.post_stage_pre_lease", scripts=_ALL),
    Point(name="load.post_lease_pre_sidecar", scripts=_ALL),
    Point(name="load.post_phase_a", scripts=_ALL),
    Point(name="lease.post_create", scripts=_ALL),
    Point(name="fork.post_create_pre_open", scripts=_ALL, places=("first",), hits=(1, 2)),
)
DURING_EFFECTS = (
    Point(name="load.pre_table_commit", scripts=_ALL, hits=(1, 2)),
    Point(name="load.post_table_commit", scripts=_ALL, hits=(1, 2)),
    Point(name="load.between_links", scripts=("spark_overwrite",)),
)
AFTER_EFFECTS = (
    Point(name="load.post_phase_b_pre_manifest_commit", scripts=_ALL),
    Point(name="publish.post_read_pre_commit", scripts=_ALL),
    Point(name="publish.contention", scripts=_ALL),
    Point(name="publish.ack_lost", scripts=_ALL),
    Point(name="load.post_phase_c_pre_phase_d", scripts=_ALL),
    Point(name="load.post_phase_d_pre_release", scripts=_ALL),
    Point(name="lease.release", scripts=_ALL),
)
GROUPS = (STAGE_POINTS, BEFORE_EFFECTS, DURING_EFFECTS, AFTER_EFFECTS)


def kills(points: tuple[Point, ...]) -> list[Cell]:
    """Every kill of a driver at these points."""
    return [
        Cell(trap=Trap(point=point.name, action="kill", hit=hit), script=script, place=place)
        for point in points
        for place in point.places
        for hit in point.hits
        for script in point.scripts
    ]


def every_kill() -> list[Cell]:
    """The whole product."""
    return [cell for points in GROUPS for cell in kills(points)]


def chosen_kills() -> list[Cell]:
    """One of the stages, and one of each part of the commit; other ones every day."""
    return [_striding(kills(points), seed()) for points in GROUPS]


def chosen_stops() -> list[Cell]:
    """One driver that stands still at every point of its commit."""
    turn = seed()
    found = []
    for number, point in enumerate((*BEFORE_EFFECTS, *DURING_EFFECTS, *AFTER_EFFECTS)):
        cell = _striding(kills((point,)), turn + number)
        trap = Trap(point=cell.trap.point, action="stop", hit=cell.trap.hit)
        found.append(
            Cell(trap=trap, script=cell.script, place=cell.place, has_rival=number % 2 == 0)
        )
    return found


def _striding(options: list[Cell], turn: int) -> Cell:
    stride = next(each for each in (37, 41, 43) if len(options) % each)
    return options[turn * stride % len(options)]
