"""A table's own line on a named branch, made when the branch first writes the table.

A fork shows what its origin shows and no pin names it yet, so it needs no sidecar. It is made under
the branch's lease, after healing, so no armed write can be at work on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import DriftNeedsRepair, StorageInternalError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.storage.handles import Pin, lance_branch
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from omnigraph.graph.manifest.rows import PinRow
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.ids import BranchId
    from omnigraph.storage.handles import TableHandle, TableLayout
    from omnigraph.storage.table_store import TableStorage


def own_line(
    store: TableStorage, layout: TableLayout, pinned: PinRow, branch_id: BranchId
) -> TableHandle | None:
    """The table at its pin on the branch's own line, if the pin is there already."""
    if pinned.branch != lance_branch(branch_id):
        return None
    return store.open(layout, pin_of(pinned))


def fork_table(
    store: TableStorage, layout: TableLayout, pinned: PinRow, branch_id: BranchId, lease: Lease
) -> TableHandle:
    """Make or adopt the branch's line of a table whose pin is still on another line.

    Raises:
        DriftNeedsRepair: the line exists and something moved it.
        LeaseLost: whoever took over may have published the line; it was left as it is.
    """
    store.remove_torn(layout, lance_branch(branch_id))
    if not _is_usable(store, layout, pinned, branch_id, lease):
        maybe_fail("fork.pre_reclaim")
        lease.check()
        store.delete_fork(layout, branch_id)
    lease.check()
    forked = _made(store, layout, pinned, branch_id, lease)
    maybe_fail("fork.post_create_pre_open")
    return store.open(layout, forked)


def _is_usable(
    store: TableStorage, layout: TableLayout, pinned: PinRow, branch_id: BranchId, lease: Lease
) -> bool:
    """Whether the line is not there yet, or is as its creation from the pin leaves it."""
    try:
        state = store.fork_state(layout, branch_id)
        if state is None:
            return True
        own = Pin(location=layout.location, branch=lance_branch(branch_id), version=state.head)
        store.open(layout, own)
    except (ObjectMissing, StorageInternalError):
        return False  # A power cut took a part of it while it was made: nobody has written to it.
    if state.head != state.parent_version:
        lease.check()  # Whoever took over may have moved it.
        raise _drift(layout, pinned, branch_id, state.head)
    return (state.parent_branch, state.parent_version) == (pinned.branch, pinned.version)


def _made(
    store: TableStorage, layout: TableLayout, pinned: PinRow, branch_id: BranchId, lease: Lease
) -> Pin:
    """The line, made or taken as it is; durable in both cases."""
    try:
        return store.fork(store.open(layout, pin_of(pinned)), branch_id)
    except AlreadyExists as moved:
        lease.check()  # Whoever took over may have made and moved it.
        raise _drift(layout, pinned, branch_id, None) from moved


def _drift(
    layout: TableLayout, pinned: PinRow, branch_id: BranchId, head: int | None
) -> DriftNeedsRepair:
    return DriftNeedsRepair(
        f"{layout.table_key} has versions on branch {branch_id} that no commit names; reads go on."
        " Undo the change from outside, or create the branch anew",
        table=layout.table_key,
        pin=pinned.version,
        head=head,
    )
