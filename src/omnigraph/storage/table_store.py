"""`TableStore`: the tables of one graph on Lance, behind the `TableStorage` contract.

A facade: opening is in `table_versions`, reading in `reading`, staging in `writes` and
`maintenance`, committing in `commits`. It adds no rule of its own; the contract is `TableStorage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.storage import (
    blobs,
    changes,
    column_changes,
    commits,
    compaction,
    indexes,
    lance_writes,
    maintenance,
    reading,
    search,
    shared_work,
    sizes,
    staged_fragments,
    writes,
)
from omnigraph.storage.capabilities import Capabilities
from omnigraph.storage.compaction import CompactionChoice
from omnigraph.storage.files import line_folder
from omnigraph.storage.power_loss import remove_torn_refs, remove_torn_versions
from omnigraph.storage.reading import ScanOptions
from omnigraph.storage.table_storage import TableStorage as TableStorage
from omnigraph.storage.table_versions import Lines
from omnigraph.storage.transactions import RowCounts, Then, Writing, chain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from datafusion import DataFrame, SessionContext

    from omnigraph.ids import BranchId, IdSource
    from omnigraph.storage.blobs import Blob
    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.changes import ChangedRows
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.handles import (
        ForkState,
        Link,
        Pin,
        StagedWrite,
        TableHandle,
        TableLayout,
        VersionTrace,
        WriteStamp,
    )
    from omnigraph.storage.indexes import IndexCoverage, IndexSpec
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.maintenance import IndexWork
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.reading import Ids, Ordering
    from omnigraph.storage.search import TextInMemory
    from omnigraph.storage.shared_work import Asked, Outcome, Spread, Steps
    from omnigraph.storage.sizes import FragmentInfo, TableStats
    from omnigraph.storage.staged_fragments import Mask, PieceKind, Pieces
    from omnigraph.storage.writes import Rows


class TableStore:
    """The tables of one graph; safe to share between threads."""

    __slots__ = ("_calls", "_delete", "_delete_prefix", "_lines", "_reads", "_writing")

    def __init__(
        self,
        location: GraphLocation,
        calls: StoreCalls,
        durable: Durable,
        ids: IdSource,
        *,
        get: Callable[[str], bytes],
        delete: Callable[[str], None],
        delete_prefix: Callable[[str], object],
    ) -> None:
        self._calls = calls
        self._lines = Lines(location, calls, get)
        self._reads = reading.Reads(calls=calls)
        self._writing = Writing(
            location=location, calls=calls, durable=durable, ids=ids, reads=self._reads
        )
        self._delete = delete
        self._delete_prefix = delete_prefix

    def create_table(self, layout: TableLayout) -> Pin:
        """An empty table with its text indexes, untrained; durable."""
        return commits.create_table(self._writing, self._lines, layout)

    def open(self, layout: TableLayout, pin: Pin) -> TableHandle:
        """The table at a pin; cached."""
        return self._lines.open(layout, pin)

    def head_version(self, layout: TableLayout, branch: str | None) -> int:
        """The newest version of a line, asked of the store."""
        return self._lines.head_version(layout, branch)

    def traces(
        self, layout: TableLayout, branch: str | None, above: int, upto: int
    ) -> list[VersionTrace]:
        """Who made the versions `above + 1` to `upto` of a line."""
        return [
            self._lines.trace(layout, branch, version) for version in range(above + 1, upto + 1)
        ]

    def scan(
        self,
        handle: TableHandle,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
        batch_bytes: int | None = None,
        order: Sequence[Ordering] = (),
        with_row_ids: bool = False,
        with_row_addresses: bool = False,
        fragments: Sequence[int] | None = None,
    ) -> pa.RecordBatchReader:
        """The rows, read as they are asked for; blobs are left out."""
        options = ScanOptions(
            columns=columns,
            predicate=predicate,
            order=order,
            limit=limit,
            batch_bytes=batch_bytes,
            with_row_ids=with_row_ids,
            with_row_addresses=with_row_addresses,
            fragments=fragments,
        )
        return reading.scan(self._reads, handle, options)

    def scan_with_pending(
        self,
        handle: TableHandle,
        pending: pa.Table,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as they will be once `pending` has landed."""
        options = ScanOptions(columns=columns, predicate=predicate)
        return reading.scan_with_pending(self._reads, handle, options, pending)

    def frame(
        self, handle: TableHandle, session: SessionContext, columns: Sequence[str] | None = None
    ) -> DataFrame:
        """The table as a frame of a DataFusion session, by property names."""
        return reading.frame(self._calls, handle, session, columns)

    def provider(self, handle: TableHandle) -> object:
        """The table as a DataFusion table provider, by the names of its columns."""
        return reading.provider(self._calls, handle)

    def count(self, handle: TableHandle, predicate: Predicate | None = None) -> int:
        """How many rows there are, or satisfy a predicate."""
        return reading.count(self._reads, handle, predicate)

    def filtered(self, rows: pa.Table, predicate: Predicate) -> pa.Table:
        """The rows of a table in memory that satisfy a predicate, as a scan would judge them."""
        return reading.filtered(self._reads, rows, predicate)

    def take_ids(
        self, handle: TableHandle, ids: Ids, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows with these ids, in the order of the ids; absent ones are left out."""
        return reading.take_ids(self._reads, handle, ids, columns)

    def take_rows(
        self,
        handle: TableHandle,
        row_ids: pa.Array[pa.UInt64Scalar],
        columns: Sequence[str],
        *,
        is_once: bool = False,
    ) -> pa.Table:
        """The rows with these row ids, in their order; every one must be in the table.

        Said to be read but once, a version is not made ready for further calls.
        """
        return reading.take_rows(self._reads, handle, row_ids, columns, is_once=is_once)

    def existing_ids(self, handle: TableHandle, ids: Ids) -> Ids:
        """Those of the ids that the table has."""
        return reading.existing_ids(self._reads, handle, ids)

    def row_addresses(
        self, handle: TableHandle, predicate: Predicate | None = None
    ) -> pa.Array[pa.UInt64Scalar]:
        """Where the matching rows lie: fragment in the upper 32 bits, offset in the lower."""
        return reading.row_addresses(self._reads, handle, predicate)

    def changed_since(
        self,
        handle: TableHandle,
        old: TableHandle,
        columns: Sequence[str] = (),
        *,
        with_row_ids: bool = False,
    ) -> ChangedRows:
        """What changed on the way from an older version of the line, or of those it grew from."""
        return changes.changed_since(self._reads, handle, old, columns, with_row_ids=with_row_ids)

    def rows_between(self, handle: TableHandle, old: TableHandle) -> int:
        """How many rows `changed_since` would look at, at most; reads no file."""
        return changes.rows_between(self._reads, handle, old)

    def common_pin(self, one: TableHandle, other: TableHandle) -> Pin:
        """The newest version from which the lines of both grew, or that one of them is."""
        return self._lines.common_pin(one, other)

    def blob_lengths(self, handle: TableHandle, name: str) -> pa.Table:
        """`_rowid` and `length` of every row, without bytes; the length of a null blob is null."""
        return blobs.blob_lengths(self._calls, handle, name)

    def lost_blobs(self, handle: TableHandle, name: str) -> Iterator[str]:
        """For each file of blobs that is gone or cut short, the id of a row whose blob it holds."""
        return blobs.lost_blobs(self._calls, handle, name)

    def blob(self, handle: TableHandle, entity_id: str, name: str) -> Blob | None:
        """The blob of one row, or `None` if it is null."""
        return blobs.blob(self._calls, handle, entity_id, name)

    def search_text(
        self,
        handle: TableHandle,
        name: str,
        query: str,
        *,
        is_phrase: bool = False,
        limit: int | None = None,
    ) -> pa.Table:
        """Id and score of every row that the query matches."""
        return search.search_text(
            self._calls, handle, name, query, is_phrase=is_phrase, limit=limit
        )

    def ephemeral_text(self, ids: Ids, texts: pa.Array[pa.StringScalar]) -> TextInMemory:
        """The texts, copied and indexed in memory."""
        return search.ephemeral_text(self._calls, self._writing.ids, ids, texts)

    def search_vector(
        self,
        handle: TableHandle,
        name: str,
        vector: Sequence[float],
        k: int,
        *,
        predicate: Predicate | None = None,
        is_exact: bool = True,
    ) -> pa.Table:
        """Id and distance of the k nearest rows, nearest first."""
        return search.search_vector(
            self._reads, handle, name, vector, k, predicate=predicate, is_exact=is_exact
        )

    def capabilities(self) -> Capabilities:
        """What predicates, indexes and writes are supported."""
        return Capabilities()

    def fragments(self, handle: TableHandle) -> list[FragmentInfo]:
        """The fragments of a version, by number."""
        return sizes.fragments(self._calls, handle)

    def lost_columns(self, handle: TableHandle) -> list[str]:
        """The properties of the layout, blobs too, that this version has no column for."""
        return reading.lost_columns(handle)

    def files_after(self, staged: StagedWrite) -> int:
        """How many data files the table has once rows that were staged are committed."""
        return sizes.files_after(self._calls, staged)

    def stats(self, handle: TableHandle) -> TableStats:
        """How large the table is at this version."""
        return sizes.stats(self._calls, handle)

    def index_coverage(self, handle: TableHandle) -> list[IndexCoverage]:
        """The indexes of the table and what they cover, by name."""
        with self._calls.making("index_coverage", handle.layout.table_key):
            return indexes.coverage(handle.dataset, handle.layout)

    def stage_append(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Adds rows whose ids are proven absent."""
        return writes.stage_append(self._writing, handle, rows, stamp)

    def stage_merge_insert(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Upserts whole rows by `id`; their ids are unique."""
        return writes.stage_merge_insert(self._writing, handle, rows, stamp)

    def stage_update(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Replaces rows that exist."""
        return writes.stage_update(self._writing, handle, rows, stamp)

    def stage_delete(
        self, handle: TableHandle, target: Predicate | Ids, stamp: WriteStamp
    ) -> StagedWrite:
        """Removes the rows that match a predicate, or have one of these ids."""
        return writes.stage_delete(self._writing, handle, target, stamp)

    def stage_overwrite(
        self, handle: TableHandle, rows: Rows | None, stamp: WriteStamp
    ) -> StagedWrite:
        """Replaces every row, or empties the table."""
        return writes.stage_overwrite(self._writing, handle, rows, stamp)

    def stage_text_indexes(self, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
        """Registers, untrained, the text indexes of the layout that the table does not have."""
        return writes.stage_text_indexes(self._writing, handle, stamp)

    def is_buildable(self, handle: TableHandle, spec: IndexSpec) -> bool:
        """Whether there is something to build an index of."""
        return maintenance.is_buildable(self._writing, handle, spec)

    def plan_indexes(self, handle: TableHandle, specs: Sequence[IndexSpec]) -> list[IndexWork]:
        """What each index needs at this version."""
        return maintenance.plan_indexes(self._writing, self._lines, handle, specs)

    def stage_index(
        self,
        handle: TableHandle,
        specs: Sequence[IndexSpec],
        stamp: WriteStamp,
        *,
        unwanted: Collection[str] = (),
    ) -> StagedWrite:
        """Brings these indexes up to date, and removes those of these names, in one transaction."""
        return self.finish(self.index_steps(handle, specs, stamp, unwanted=unwanted))

    def index_steps(
        self,
        handle: TableHandle,
        specs: Sequence[IndexSpec],
        stamp: WriteStamp,
        *,
        unwanted: Collection[str] = (),
        spread: Spread | None = None,
    ) -> Steps[StagedWrite]:
        """`stage_index` in steps, each index spread over several tasks if it is said how."""
        return maintenance.index_steps(
            self._writing, self._lines, handle, specs, stamp, unwanted=unwanted, spread=spread
        )

    def stage_compaction(
        self,
        handle: TableHandle,
        stamp: WriteStamp,
        choice: CompactionChoice | None = None,
    ) -> StagedWrite:
        """Fewer, larger fragments of the same rows, and indexes over them if they are named."""
        return self.finish(self.compaction_steps(handle, stamp, choice))

    def compaction_steps(
        self,
        handle: TableHandle,
        stamp: WriteStamp,
        choice: CompactionChoice | None = None,
        spread: Spread | None = None,
    ) -> Steps[StagedWrite]:
        """`stage_compaction` in steps, each index spread over several tasks if it is said how."""
        return compaction.compaction_steps(
            self._writing, handle, stamp, choice or CompactionChoice(), self._delete, spread
        )

    def finish(self, steps: Steps[StagedWrite]) -> StagedWrite:
        """What the steps stage, every task done here."""
        return shared_work.finish(self._calls, steps)

    def perform(self, asked: Asked) -> list[Outcome]:
        """Do the tasks that some steps ask for."""
        return shared_work.perform(self._calls, asked)

    def outcome_files(self, handle: TableHandle, outcome: Outcome) -> tuple[str, ...]:
        """The files and folders, below the root, that a task of some steps wrote."""
        return shared_work.outcome_files(self._writing.location, handle.pin, outcome)

    def stage_columns(
        self, handle: TableHandle, stamp: WriteStamp, *, dropped: Sequence[str] = ()
    ) -> StagedWrite:
        """Adds the columns that only the handle's layout has, and drops physical columns."""
        return column_changes.stage_columns(self._writing, handle, stamp, dropped=dropped)

    def stage_filled_columns(
        self,
        handle: TableHandle,
        values: Mapping[str, pa.Scalar[pa.DataType]],
        stamp: WriteStamp,
    ) -> StagedWrite:
        """Adds columns of the handle's layout in which every row has one value."""
        return column_changes.stage_filled_columns(self._writing, handle, values, stamp)

    def deletes_old_versions(self, handle: TableHandle) -> bool:
        """Whether settings from outside make Lance delete versions; costs no request."""
        return lance_writes.without_cleanup(handle.dataset) is not None

    def stage_without_cleanup(self, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
        """Removes the settings by which Lance would delete old versions by itself."""
        return maintenance.stage_without_cleanup(self._writing, handle, stamp)

    def write_pieces(
        self, handle: TableHandle, rows: Rows, *, rows_per_file: int | None = None
    ) -> Pieces:
        """Data files of new rows."""
        return staged_fragments.write_pieces(
            self._writing, handle, rows, rows_per_file=rows_per_file
        )

    def write_changed(self, handle: TableHandle, rows: Rows, row_ids: Sequence[int]) -> Pieces:
        """Data files of new forms of the rows with these row ids, in ascending order.

        A blob that `rows` leaves out is kept.
        """
        return staged_fragments.write_changed(self._writing, handle, rows, row_ids)

    def delete_addresses(self, handle: TableHandle, addresses: Sequence[int]) -> Pieces:
        """The fragments without the rows at these addresses."""
        return staged_fragments.delete_addresses(self._writing, handle, addresses)

    def stage_pieces(
        self, handle: TableHandle, kind: PieceKind, parts: Pieces, stamp: WriteStamp
    ) -> StagedWrite:
        """One transaction of pieces that were written for this handle."""
        return staged_fragments.stage_pieces(self._writing, handle, kind, parts, stamp)

    def open_staged(self, handle: TableHandle, parts: Pieces) -> TableHandle:
        """The table with the new rows of these pieces, before anything is committed."""
        return staged_fragments.open_staged(self._writing, handle, parts)

    def whole_rows(
        self, handle: TableHandle, row_ids: pa.Array[pa.UInt64Scalar] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows with their blobs, a few at a time: all of them, or those with these row ids."""
        return staged_fragments.whole_rows(self._writing, handle, row_ids)

    def read_staged(self, view: TableHandle, fragments: Sequence[int]) -> pa.Table:
        """Whole rows of some fragments, blobs included; holds all of them."""
        return staged_fragments.read_staged(self._writing, view, fragments)

    def stage_merge_staged(
        self,
        handle: TableHandle,
        view: TableHandle,
        fragments: Sequence[int],
        stamp: WriteStamp,
        left_out: Mask | None = None,
    ) -> StagedWrite:
        """Upserts the rows of some fragments of a view but for some; their ids are unique."""
        return staged_fragments.stage_merge_staged(
            self._writing, handle, view, fragments, stamp, left_out
        )

    def staged_bytes(self, view: TableHandle, fragments: Sequence[int]) -> int:
        """How large the rows of some fragments are as they are stored, blobs included."""
        return staged_fragments.staged_bytes(self._writing, view, fragments)

    def piece_files(self, handle: TableHandle, parts: Pieces) -> tuple[str, ...]:
        """The files that making these pieces wrote, below the root."""
        return staged_fragments.piece_files(self._writing, handle, parts)

    def view_files(self, view: TableHandle) -> tuple[str, ...]:
        """The objects below the root whose deletion ends what `open_staged` made readable."""
        return staged_fragments.view_files(self._writing, view)

    def chain(
        self, first: StagedWrite, *then: Then, counts: RowCounts | None = None
    ) -> StagedWrite:
        """Several writes of one table, one after the other; `counts` are those of all of them."""
        return chain(self._writing, first, *then, counts=counts)

    def sync_staged(self, staged: StagedWrite) -> None:
        """Make the files of a staged write durable."""
        commits.sync_staged(self._writing, staged)

    def sync_links(
        self, layout: TableLayout, branch: str | None, base_version: int, uuids: Sequence[str]
    ) -> None:
        """Make the versions durable that these links made on top of a base."""
        commits.sync_links(self._writing, layout, branch, base_version, uuids)

    def commit_staged(self, handle: TableHandle, link: Link) -> TableHandle:
        """The version that a link makes on top of the handle, durable."""
        return commits.commit_staged(self._writing, self._lines, handle, link)

    def restore(
        self, layout: TableLayout, branch: str | None, version: int, stamp: WriteStamp
    ) -> TableHandle:
        """Shows an older version again, on top of the newest head, durable."""
        return commits.restore(self._writing, self._lines, layout, branch, version, stamp)

    def fork(self, handle: TableHandle, branch_id: BranchId) -> Pin:
        """A line for a graph branch that starts at this handle, durable."""
        return commits.fork(self._writing, self._lines, handle, branch_id, self._delete_prefix)

    def fork_state(self, layout: TableLayout, branch_id: BranchId) -> ForkState | None:
        """The line of a graph branch as the store has it, if it does."""
        return commits.fork_state(self._lines, layout, branch_id)

    def remove_torn(self, layout: TableLayout, branch: str | None) -> None:
        """Set aside what a power cut left of versions of a line, or of a line, never synced."""
        location, calls = self._writing.location, self._writing.calls
        line = line_folder(layout.location, branch)
        remove_torn_versions(location, calls, line, keeps_last=branch is None)
        if branch is not None:
            remove_torn_refs(location, calls, layout.location, branch)

    def forget(self, layout: TableLayout, branch: str | None, versions: Collection[int]) -> None:
        """Forget versions that were removed."""
        self._lines.forget_versions(layout, branch, versions)

    def delete_line(self, layout: TableLayout, name: str) -> None:
        """Remove a line by its name on storage; one that is not there is fine."""
        commits.delete_line(self._writing, self._lines, layout, name, self._delete_prefix)

    def delete_fork(self, layout: TableLayout, branch_id: BranchId) -> None:
        """Remove the line of a graph branch; one that is not there is fine."""
        commits.delete_fork(self._writing, self._lines, layout, branch_id, self._delete_prefix)
