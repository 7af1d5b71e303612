"""Named points at which a test can make a write path fail, die or stand still.

A protocol step calls `maybe_fail("<step>")`. In production nothing is armed and the call is one
dictionary lookup. Only a test arms a point: by `armed` in its own process, or through the variables
`OMNIGRAPH_TESTING` and `OMNIGRAPH_FAILPOINTS` in a child, which `settings.py` reads and the process
hands to `arm_from`. This module never reads the environment itself.

A name must be registered in `NAMES`: a typing error in a test would otherwise arm nothing and pass.
The armed points are the one mutable state at module level in the tree. It cannot have another
owner, because the steps that look at it share nothing else.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, TypeAlias

WRITERS: Final = (
    "mutation",
    "load",
    "branch_merge",
    "schema_apply",
    "ensure_indices",
    "optimize",
    "embed",
    "table_settings",
)
"""The kinds of writer that exist; each has every step of the commit protocol."""

STEPS: Final = (
    "post_capture",
    "post_stage_pre_lease",
    "post_lease_pre_sidecar",
    "post_phase_a",
    "pre_table_commit",
    "post_table_commit",
    "between_links",
    "post_phase_b_pre_manifest_commit",
    "post_phase_c_pre_phase_d",
    "post_phase_d_pre_release",
)
"""The steps of the commit protocol, in order."""

NAMES: frozenset[str] = frozenset(f"{kind}.{step}" for kind in WRITERS for step in STEPS) | {
    "restage.post_move_pre_lease",
    "publish.post_read_pre_commit",
    "publish.ack_lost",
    "publish.contention",
    "lease.post_create",
    "lease.renew",
    "lease.release",
    "fork.post_create_pre_open",
    "fork.pre_reclaim",
    "recovery.post_list",
    "recovery.post_classify",
    "recovery.between_restores",
    "recovery.post_restore_pre_publish",
    "recovery.pre_roll_forward_publish",
    "recovery.post_publish_pre_delete",
    "init.post_claim",
    "init.post_schema",
    "init.post_table_create",
    "init.manifest_ack_lost",
    "init.post_manifest_pre_unclaim",
    "clone.post_fill",
    "branch_create.post_native",
    "branch_delete.post_publish_pre_reclaim",
    "branch_merge.post_classify",
    "optimize.pre_rewrite",
    "cleanup.post_floor_pre_gc",
    "cleanup.between_tables",
    "spark_load.post_open",
    "spark_load.post_list",
    "spark_load.post_intake",
    "spark_load.post_check",
    "spark_load.post_resolve",
}
"""Every registered point. A protocol step and its name arrive together."""


class Action(StrEnum):
    """What an armed point does."""

    RAISE = "raise"
    KILL = "kill"
    STOP = "stop"


Callback: TypeAlias = Callable[[], None]


class FailpointHit(Exception):
    """Raised at a point armed with `raise`; no code may catch it by name."""


_armed: Final[dict[str, Callback]] = {}


def maybe_fail(name: str) -> None:
    """Do what the point is armed with; nothing in production."""
    act = _armed.get(name)
    if act is not None:
        act()


@contextmanager
def armed(name: str, action: Action | Callback) -> Iterator[None]:
    """Arm one point for the length of a block, then restore what it was.

    Raises:
        ValueError: if the name is not registered.
    """
    act = _act(name, action)
    before = _armed.get(name)
    _armed[name] = act
    try:
        yield
    finally:
        if before is None:
            _armed.pop(name, None)
        else:
            _armed[name] = before


def arm_from(points: Mapping[str, Action]) -> None:
    """Arm every given point, or none, until the process ends or `disarm_all`.

    Raises:
        ValueError: if a name is not registered.
    """
    _armed.update({name: _act(name, action) for name, action in points.items()})


def disarm_all() -> None:
    """Disarm every point."""
    _armed.clear()


def parse_points(spec: str) -> dict[str, Action]:
    """Read `name=action;name=action`. Empty parts are skipped; names are not checked here.

    Raises:
        ValueError: if a part has another shape, a name comes twice, or the action is unknown.
    """
    points: dict[str, Action] = {}
    for part in filter(None, (part.strip() for part in spec.split(";"))):
        name, equals, action = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise ValueError(f"{part!r} is not of the form name=action")
        if name in points:
            raise ValueError(f"failpoint {name!r} is given twice")
        if action not in set(Action):
            raise ValueError(f"failpoint {name!r}: unknown action {action!r}; use {_actions()}")
        points[name] = Action(action)
    return points


def _act(name: str, action: Action | Callback) -> Callback:
    if name not in NAMES:
        raise ValueError(f"no failpoint is called {name!r}; registered: {sorted(NAMES)}")
    match action:
        case Action.RAISE:
            return lambda: _raise(name)
        case Action.KILL:
            return lambda: os.kill(os.getpid(), signal.SIGKILL)
        case Action.STOP:
            return lambda: os.kill(os.getpid(), signal.SIGSTOP)
        case _:
            return action


def _raise(name: str) -> None:
    raise FailpointHit(name)


def _actions() -> str:
    return ", ".join(Action)
