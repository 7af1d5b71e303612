"""The transactional writer: rows and removals for many tables, validated and committed as one.

Nothing reaches storage before `commit`. Every rule of the schema is checked against the committed
rows of the captured state; a write that others overtook is checked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.blobs.blob_values import BlobBudget, joined, refer_stored
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.commit.read_set import AllRows, RowsById
from omnigraph.graph.commit.txn import PreparedWrite
from omnigraph.graph.history.commit_graph import Commit, commit_of
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import (
    FittedRows,
    TableDelta,
    fit_rows,
    gather,
    refuse_mutation,
    validate,
)
from omnigraph.storage.transactions import RowCounts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.protocol import CommitProtocol
    from omnigraph.graph.commit.txn import WriteRequest, WriteTxn
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import ArrowRows
    from omnigraph.ids import IdSource
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.handles import StagedWrite


@dataclass(slots=True)
class _Pending:
    """What the caller wants of one table."""

    item: NodeType | EdgeType
    parts: list[FittedRows] = field(default_factory=list)
    strict: list[pa.Array[pa.StringScalar]] = field(default_factory=list)
    upserts: set[int] = field(default_factory=set)
    """Which of the parts replace what is there, also rows of earlier parts."""

    removed: list[pa.Array[pa.StringScalar]] = field(default_factory=list)
    replaces_all: bool = False

    @property
    def is_strict(self) -> bool:
        return self.replaces_all or bool(self.removed)


class Writer:
    """Collects changes for one commit; a context manager that writes nothing by itself."""

    def __init__(
        self,
        protocol: CommitProtocol,
        ids: IdSource,
        request: WriteRequest,
        start: Snapshot,
        *,
        external_blobs: ExternalBlobs = DENY_ALL,
    ) -> None:
        self._protocol = protocol
        self._ids = ids
        self._blobs = BlobBudget(external_blobs)
        self._request = replace(request, branch_id=start.branch_id)
        self._start = start
        self._pending: dict[TableRef, _Pending] = {}
        self._is_done = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_done = True
        self._pending.clear()

    def append(self, type: str, batches: ArrowRows) -> None:
        """Add rows whose ids must not exist yet.

        Raises:
            InvalidArgument: unknown type or column.
            ExternalBlobDenied: a blob refers to an address that the graph does not allow.
        """
        pending, fitted = self._add(type, batches)
        pending.strict.append(fitted.table["id"].combine_chunks().drop_null())

    def upsert(self, type: str, batches: ArrowRows) -> None:
        """Add rows, replacing whole rows of the same id; of one id the last wins.

        Raises:
            InvalidArgument: unknown type or column.
            ExternalBlobDenied: a blob refers to an address that the graph does not allow.
        """
        pending, _ = self._add(type, batches)
        pending.upserts.add(len(pending.parts) - 1)

    def delete(self, type: str, ids: Iterable[str]) -> None:
        """Remove entities by id; ids that do not exist are ignored.

        Edges are not removed with their nodes: delete them in the same write.

        Raises:
            InvalidArgument: unknown type.
        """
        pending = self._of(type)
        if pending.replaces_all:
            raise _mixed(type)
        pending.removed.append(_entity_ids(ids))

    def overwrite(self, type: str, batches: ArrowRows) -> None:
        """Replace all rows of a type.

        Raises:
            InvalidArgument: unknown type or column, or the type has other changes in this write.
            ExternalBlobDenied: a blob refers to an address that the graph does not allow.
        """
        if self._of(type).parts or self._of(type).removed:
            raise _mixed(type)
        pending, _ = self._add(type, batches)
        pending.replaces_all = True

    def commit(self) -> Commit | None:
        """Validate and commit everything as one commit; `None` if nothing changes.

        Raises:
            ConstraintViolation, KeyConflict: a rule is broken; nothing was written.
            ReadSetChanged: others changed what a delete or overwrite depends on.
            PreconditionFailed: the head is not the given `if_commit`.
            ExternalBlobSource: something that a blob refers to could not be found.
        """
        self._require_open()
        self._is_done = True
        row = self._protocol.run(self._request, self._prepare)
        return None if row is None else commit_of(row)

    def _add(self, type: str, batches: ArrowRows) -> tuple[_Pending, FittedRows]:
        pending = self._of(type)
        if pending.replaces_all:
            raise _mixed(type)
        fitted = fit_rows(pending.item, batches, ids=self._ids)
        refer_stored(pending.item, fitted.table, self._blobs)
        pending.parts.append(fitted)
        return pending, fitted

    def _of(self, type: str) -> _Pending:
        self._require_open()
        item = self._start.type(type)
        return self._pending.setdefault(ref_of(item), _Pending(item))

    def _require_open(self) -> None:
        if self._is_done:
            raise InvalidArgument("this write is over; begin another with graph.write()")

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        deltas = {
            ref: _delta(pending, txn.tables.types[ref]) for ref, pending in self._pending.items()
        }
        refuse_mutation(validate(txn.catalog, deltas.values(), TxnLookups(txn)))
        self._blobs.probe()
        staged = [
            write
            for ref, delta in sorted(deltas.items())
            if (write := self._stage(txn, ref, delta)) is not None
        ]
        return PreparedWrite(
            staged=tuple(staged),
            is_strict=any(pending.is_strict for pending in self._pending.values()),
        )

    def _stage(self, txn: WriteTxn, ref: TableRef, delta: TableDelta) -> StagedWrite | None:
        store, stamp = txn.store, txn.stamp
        rows = delta.image.table.take(delta.image.at)
        if delta.replaces_all:
            txn.read_set.ask(ref, AllRows())
            return store.stage_overwrite(txn.writable(ref), rows, stamp)
        txn.read_set.ask(ref, RowsById(delta.gone))
        gone = store.existing_ids(txn.readable(ref), delta.gone)
        if not len(gone) and not rows.num_rows:
            return None
        base = txn.writable(ref)
        # An id that is removed and added again replaces its row; an append would make it two.
        freed = bool(pc.any(pc.is_in(delta.image.ids, value_set=delta.removed)).as_py())
        replaces = freed or self._pending[ref].upserts
        stage_rows = store.stage_merge_insert if replaces else store.stage_append
        if not len(gone):
            return stage_rows(base, rows, stamp)
        removal = store.stage_delete(base, gone, stamp)
        if not rows.num_rows:
            return removal
        # Later links are staged when the first has landed, so the rows are counted here.
        txn.read_set.ask(ref, RowsById(delta.image.ids))
        changed = len(store.existing_ids(txn.readable(ref), delta.image.ids))
        counts = RowCounts(added=rows.num_rows - changed, changed=changed, removed=len(gone))
        return store.chain(removal, lambda after: stage_rows(after, rows, stamp), counts=counts)


def _delta(pending: _Pending, item: NodeType | EdgeType) -> TableDelta:
    """The change in the shape of the type as it is now, which may have moved on since."""
    parts = _in_order(pending)
    if item is not pending.item:
        parts = [fit_rows(item, part.table) for part in parts]
    rows = FittedRows(
        item=item,
        table=joined(item.arrow_schema, [part.table for part in parts]),
        findings=gather(part.findings for part in parts),
    )
    return TableDelta(
        rows=rows,
        strict_ids=_joined(pending.strict),
        removed=_joined(pending.removed),
        replaces_all=pending.replaces_all,
    )


def _in_order(pending: _Pending) -> list[FittedRows]:
    """The parts without the rows that a later upsert replaces.

    Calls have an order. The rows of one call have none, so a row twice in it stays a violation.
    """
    if len(pending.parts) == 1:
        return pending.parts
    replaced: set[str | None] = set()
    kept: list[FittedRows] = []
    for position, part in reversed(list(enumerate(pending.parts))):
        ids = part.table["id"].to_pylist()
        stays = [entity_id is None or entity_id not in replaced for entity_id in ids]
        kept.append(part if all(stays) else replace(part, table=part.table.filter(stays)))
        if position in pending.upserts:
            replaced.update(ids)
    return kept[::-1]


def _entity_ids(ids: Iterable[str]) -> pa.Array[pa.StringScalar]:
    if isinstance(ids, str | bytes):
        raise InvalidArgument(f"ids are a list of texts, not one text {ids!r}", argument="ids")
    try:
        return pa.array(list(ids), pa.string()).drop_null().unique()
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"ids are a list of texts: {error}", argument="ids") from error


def _joined(arrays: list[pa.Array[pa.StringScalar]]) -> pa.Array[pa.StringScalar]:
    return pa.concat_arrays([pa.array([], pa.string()), *arrays])


def _mixed(type: str) -> InvalidArgument:
    return InvalidArgument(
        f"an overwrite of {type} replaces every row and cannot be combined with other changes of"
        " that type in one write",
        type=type,
    )
