"""What a staged write is made of: links, each one transaction with a uuid that is known beforehand.

The first link of a write is staged with it. A later one is staged when its turn comes, on the
handle that the commit before it returned, and its files are made durable at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from lance import LanceOperation, Transaction

from omnigraph.errors import InternalError
from omnigraph.ids import new_link_uuid
from omnigraph.storage.files import written_files
from omnigraph.storage.handles import Link, StagedWrite, TableHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.ids import IdSource
    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.handles import WriteStamp
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.reading import Reads

Then: TypeAlias = "Callable[[TableHandle], StagedWrite]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What every staged write needs."""

    location: GraphLocation
    calls: StoreCalls
    durable: Durable
    ids: IdSource
    reads: Reads


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """What a write does to the rows of a table."""

    added: int = 0
    changed: int = 0
    removed: int = 0


def staged(
    writing: Writing,
    base: TableHandle,
    operation: LanceOperation.BaseOperation,
    stamp: WriteStamp,
    *,
    added: int = 0,
    changed: int = 0,
    removed: int = 0,
    rebase: Callable[[TableHandle], StagedWrite] | None = None,
    restaged_rows: int = 0,
) -> StagedWrite:
    """A staged write of one link."""
    uuid = new_link_uuid(writing.ids)
    transaction = Transaction(base.pin.version, operation, uuid, stamp.properties)

    def stage(handle: TableHandle) -> Transaction:
        if handle.pin != base.pin:
            raise InternalError(f"staged at {base.pin}, committed on {handle.pin}")
        return transaction

    return StagedWrite(
        base=base,
        links=(Link(uuid=uuid, operation=type(operation).__name__, stage=stage),),
        rows_added=added,
        rows_changed=changed,
        rows_removed=removed,
        rows_after=live_rows(writing, base) + added - removed,
        files=written_files(writing.location, base.pin, operation),
        rebase=rebase,
        restaged_rows=restaged_rows,
    )


def nothing(
    writing: Writing, base: TableHandle, rebase: Callable[[TableHandle], StagedWrite] | None
) -> StagedWrite:
    """A write that has nothing to do: no transaction, no version, the table is not touched."""
    return StagedWrite(base=base, rows_after=live_rows(writing, base), rebase=rebase)


def live_rows(writing: Writing, handle: TableHandle) -> int:
    """How many rows the table has, from its metadata."""
    with writing.calls.making("count", handle.layout.table_key):
        return handle.dataset.count_rows()


def chain(
    writing: Writing, first: StagedWrite, *then: Then, counts: RowCounts | None = None
) -> StagedWrite:
    """Several writes of one table, committed one after the other.

    A later one is staged on the handle that the commit before it returned, and its files are synced
    at once; the uuids of all are known now. `counts` tells what the whole chain does to rows, which
    only the caller can know before all of it is staged; by default the later ones touch none.
    """
    rebase = first.rebase

    def again(newer: TableHandle) -> StagedWrite:
        if rebase is None:
            raise InternalError(f"{newer.layout.table_key}: this write cannot move to another base")
        return chain(writing, rebase(newer), *then, counts=counts)

    moving = None if rebase is None else again
    if first.is_noop and then:
        rest = chain(writing, then[0](first.base), *then[1:], counts=counts)
        # On a newer base the first may find something to do after all.
        return replace(rest, rebase=moving)
    joined = replace(
        first,
        links=(*first.links, *(_later(writing, first, step) for step in then)),
        rebase=moving,
    )
    if counts is None:
        return joined
    return replace(
        joined,
        rows_added=counts.added,
        rows_changed=counts.changed,
        rows_removed=counts.removed,
        rows_after=live_rows(writing, first.base) + counts.added - counts.removed,
    )


def _later(writing: Writing, first: StagedWrite, then: Then) -> Link:
    uuid = new_link_uuid(writing.ids)
    properties = first.links[0].stage(first.base).transaction_properties

    def stage(handle: TableHandle) -> Transaction:
        late = then(handle)
        if len(late.links) > 1:
            raise InternalError(f"{handle.layout.table_key}: a later link must be a single one")
        if late.is_noop:
            # The sidecar has named this link, so a version is made even if it changes nothing.
            return Transaction(handle.pin.version, LanceOperation.Append([]), uuid, properties)
        writing.durable.sync(late.files)
        return replace(late.links[0].stage(handle), uuid=uuid)

    return Link(uuid=uuid, operation="Later", stage=stage)
