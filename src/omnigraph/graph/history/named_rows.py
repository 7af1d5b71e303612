"""Names on the main line: how a branch or a tag gets one, loses it, and never shares it.

Every such row is judged and merged on one version of the main line, and every merge replaces the
head of that line. So of two that want one name, or that would take away what the other rests on,
one is judged on a version that shows the other.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchBusy,
    BranchExists,
    StorageInternalError,
    StorageUnavailable,
    TagExists,
)
from omnigraph.graph.manifest.rows import BranchRow, BranchState, TagRow
from omnigraph.graph.recovery.leases import LeaseLost
from omnigraph.ids import MAIN_BRANCH_ID
from omnigraph.limits import MAX_PUBLISH_ROUNDS
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.ids import BranchId


def require_free(name: str, line: ManifestLine) -> None:
    """Refuse a name that a live branch or tag has.

    Raises:
        BranchExists, TagExists: what has it.
    """
    branch = line.branches().get(name)
    if branch is not None and branch.state is BranchState.LIVE:
        raise BranchExists(
            f"there is a branch {name!r} already; choose another name or delete it first",
            branch=name,
        )
    tag = line.tags().get(name)
    if tag is not None and tag.state is BranchState.LIVE:
        raise TagExists(
            f"there is a tag {name!r} already; choose another name or delete it first", tag=name
        )


def live_branches(line: ManifestLine) -> dict[BranchId, BranchRow]:
    """The rows of live branches by id; `main` has none."""
    rows = line.branches().values()
    return {row.branch_id: row for row in rows if row.state is BranchState.LIVE}


def live_tags(line: ManifestLine) -> list[TagRow]:
    """The rows of live tags, by name."""
    rows = (row for row in line.tags().values() if row.state is BranchState.LIVE)
    return sorted(rows, key=lambda row: row.name)


@contextmanager
def holding(graph: GraphCoordinator, *scopes: str) -> Iterator[Sequence[Lease]]:
    """Hold leases in this order; one that is lost before the row is written ends it all.

    Raises:
        BranchBusy: one was not free in time, or was lost; nothing was changed.
    """
    with ExitStack() as stack:
        leases = [stack.enter_context(graph.leases.holding(scope)) for scope in scopes]
        try:
            yield leases
        except LeaseLost as lost:
            raise BranchBusy(
                f"the lease {scopes[0]!r} was lost to another process; send the same again",
                scope=scopes[0],
            ) from lost


def write_named(
    graph: GraphCoordinator,
    row: BranchRow | TagRow,
    judge: Callable[[ManifestLine], None],
    leases: Sequence[Lease] = (),
) -> None:
    """Write the row of a name by the recipe of a publish: judge and merge on one version.

    Raises:
        StorageUnavailable: every round was lost to others; the row is not there.
        and what `judge` raises.
    """
    line = graph.lines.read(MAIN_BRANCH_ID)
    for attempt in range(MAX_PUBLISH_ROUNDS):
        if _has(line, row):
            # An acknowledgement was lost, or the row is there and not yet durable.
            graph.publisher.renew(line)
            return
        judge(line)
        for lease in leases:
            lease.check()
        try:
            graph.publisher.merge_beside_head(line, [row])
        except (StorageSignal, StorageUnavailable, StorageInternalError):
            graph.pauses.between_rounds(attempt)
            line = graph.lines.read_again(MAIN_BRANCH_ID)
            continue
        return
    if _has(line, row):
        graph.publisher.renew(line)
        return
    raise StorageUnavailable(
        f"the name {row.name!r} lost {MAX_PUBLISH_ROUNDS} rounds against other writers; try again",
        operation="merge",
        target=row.name,
    )


def _has(line: ManifestLine, row: BranchRow | TagRow) -> bool:
    held = line.branches() if isinstance(row, BranchRow) else line.tags()
    return held.get(row.name) == row
