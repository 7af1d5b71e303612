"""`TableStorage`: what the layers above may ask of the tables of a graph.

Reads see exactly the version of a handle. Staged writes write files and move no head; one without
links has nothing to do. Only `commit_staged`, `restore`, `create_table`, `fork` and `delete_fork`
change what a table shows, and each of them is durable when it returns.

Every call may raise `StorageUnavailable`, `StorageDenied` and `StorageInternalError`; the signals
of `signals` are named where they can occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from datafusion import DataFrame, SessionContext

    from omnigraph.ids import BranchId
    from omnigraph.storage.blobs import Blob
    from omnigraph.storage.capabilities import Capabilities
    from omnigraph.storage.changes import ChangedRows
    from omnigraph.storage.compaction import CompactionChoice
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
    from omnigraph.storage.maintenance import IndexWork
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.reading import Ids, Ordering
    from omnigraph.storage.search import TextInMemory
    from omnigraph.storage.shared_work import Asked, Outcome, Spread, Steps
    from omnigraph.storage.sizes import FragmentInfo, TableStats
    from omnigraph.storage.staged_fragments import Mask, PieceKind, Pieces
    from omnigraph.storage.transactions import RowCounts, Then
    from omnigraph.storage.writes import Rows


class TableStorage(Protocol):
    """The tables of one graph; safe to share between threads."""

    def create_table(self, layout: TableLayout) -> Pin:
        """An empty table with its text indexes, untrained; durable, unreachable until registered.

        Raises:
            AlreadyExists: there is a table at this location.
        """
        ...

    def open(self, layout: TableLayout, pin: Pin) -> TableHandle:
        """The table at a pin; cached.

        Raises:
            ObjectMissing: there is no such version.
            StorageUnsupported: the line names files that are not of this graph.
        """
        ...

    def head_version(self, layout: TableLayout, branch: str | None) -> int:
        """The newest version of a line, asked of the store.

        Raises:
            ObjectMissing: there is no such line.
        """
        ...

    def traces(
        self, layout: TableLayout, branch: str | None, above: int, upto: int
    ) -> list[VersionTrace]:
        """Who made the versions `above + 1` to `upto` of a line; bare where that cannot be read."""
        ...

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
        ...

    def scan_with_pending(
        self,
        handle: TableHandle,
        pending: pa.Table,
        *,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as they will be once `pending` has landed."""
        ...

    def frame(
        self, handle: TableHandle, session: SessionContext, columns: Sequence[str] | None = None
    ) -> DataFrame:
        """The table as a frame of a DataFusion session, by property names."""
        ...

    def provider(self, handle: TableHandle) -> object:
        """The table as a DataFusion table provider, by the names of its columns."""
        ...

    def count(self, handle: TableHandle, predicate: Predicate | None = None) -> int:
        """How many rows there are, or satisfy a predicate."""
        ...

    def filtered(self, rows: pa.Table, predicate: Predicate) -> pa.Table:
        """The rows of a table in memory that satisfy a predicate, as a scan would judge them."""
        ...

    def take_ids(
        self, handle: TableHandle, ids: Ids, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows with these ids, in the order of the ids; absent ones are left out."""
        ...

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
        ...

    def existing_ids(self, handle: TableHandle, ids: Ids) -> Ids:
        """Those of the ids that the table has."""
        ...

    def row_addresses(
        self, handle: TableHandle, predicate: Predicate | None = None
    ) -> pa.Array[pa.UInt64Scalar]:
        """Where the matching rows lie: fragment in the upper 32 bits, offset in the lower."""
        ...

    def changed_since(
        self,
        handle: TableHandle,
        old: TableHandle,
        columns: Sequence[str] = (),
        *,
        with_row_ids: bool = False,
    ) -> ChangedRows:
        """What changed on the way from an older version of the line, or of those it grew from.

        Both forms of the rows have their id and these columns, and their row ids if asked for.
        """
        ...

    def rows_between(self, handle: TableHandle, old: TableHandle) -> int:
        """How many rows `changed_since` would look at, at most; reads no file."""
        ...

    def common_pin(self, one: TableHandle, other: TableHandle) -> Pin:
        """The newest version from which the lines of both grew, or that one of them is.

        It may have been cleaned away.
        """
        ...

    def blob_lengths(self, handle: TableHandle, name: str) -> pa.Table:
        """`_rowid` and `length` of every row, without bytes; the length of a null blob is null."""
        ...

    def lost_blobs(self, handle: TableHandle, name: str) -> Iterator[str]:
        """For each file of blobs that is gone or cut short, the id of a row whose blob it holds."""
        ...

    def blob(self, handle: TableHandle, entity_id: str, name: str) -> Blob | None:
        """The blob of one row, or `None` if it is null.

        Raises:
            ObjectMissing: there is no row with this id.
        """
        ...

    def search_text(
        self,
        handle: TableHandle,
        name: str,
        query: str,
        *,
        is_phrase: bool = False,
        limit: int | None = None,
    ) -> pa.Table:
        """Id, score and row id of every row that the query matches, or of the best; in no order.

        Raises:
            InternalError: the property has no text index; `ephemeral_text` is for such.
        """
        ...

    def ephemeral_text(self, ids: Ids, texts: pa.Array[pa.StringScalar]) -> TextInMemory:
        """The texts, copied and indexed in memory."""
        ...

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
        ...

    def capabilities(self) -> Capabilities:
        """What predicates, indexes and writes are supported."""
        ...

    def fragments(self, handle: TableHandle) -> list[FragmentInfo]:
        """The fragments of a version, by number."""
        ...

    def lost_columns(self, handle: TableHandle) -> list[str]:
        """The properties of the layout, blobs too, that this version has no column for."""
        ...

    def files_after(self, staged: StagedWrite) -> int:
        """How many data files the table has once rows that were staged are committed."""
        ...

    def stats(self, handle: TableHandle) -> TableStats:
        """How large the table is at this version."""
        ...

    def index_coverage(self, handle: TableHandle) -> list[IndexCoverage]:
        """The indexes of the table and what they cover, by name."""
        ...

    def stage_append(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Adds rows whose ids are proven absent."""
        ...

    def stage_merge_insert(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Upserts whole rows by `id`; their ids are unique. No rows: nothing to do."""
        ...

    def stage_update(self, handle: TableHandle, rows: Rows, stamp: WriteStamp) -> StagedWrite:
        """Replaces rows that exist; a blob that `rows` leaves out is kept. No rows: nothing to do.

        Raises:
            InternalError: some id is not in the table.
        """
        ...

    def stage_delete(
        self, handle: TableHandle, target: Predicate | Ids, stamp: WriteStamp
    ) -> StagedWrite:
        """Removes the rows that match a predicate, or have one of these ids; perhaps none."""
        ...

    def stage_overwrite(
        self, handle: TableHandle, rows: Rows | None, stamp: WriteStamp
    ) -> StagedWrite:
        """Replaces every row, or empties the table; a second link registers its text indexes."""
        ...

    def stage_text_indexes(self, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
        """Registers, untrained, the text indexes of the layout that the table does not have."""
        ...

    def is_buildable(self, handle: TableHandle, spec: IndexSpec) -> bool:
        """Whether there is something to build an index of; reads up to the first usable vector."""
        ...

    def plan_indexes(self, handle: TableHandle, specs: Sequence[IndexSpec]) -> list[IndexWork]:
        """What each index needs at this version."""
        ...

    def stage_index(
        self,
        handle: TableHandle,
        specs: Sequence[IndexSpec],
        stamp: WriteStamp,
        *,
        unwanted: Collection[str] = (),
    ) -> StagedWrite:
        """Brings these indexes up to date, and removes those of these names, in one transaction."""
        ...

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
        ...

    def stage_compaction(
        self,
        handle: TableHandle,
        stamp: WriteStamp,
        choice: CompactionChoice | None = None,
    ) -> StagedWrite:
        """Fewer, larger fragments of the same rows, and indexes over them if they are named."""
        ...

    def compaction_steps(
        self,
        handle: TableHandle,
        stamp: WriteStamp,
        choice: CompactionChoice | None = None,
        spread: Spread | None = None,
    ) -> Steps[StagedWrite]:
        """`stage_compaction` in steps, each index spread over several tasks if it is said how."""
        ...

    def finish(self, steps: Steps[StagedWrite]) -> StagedWrite:
        """What the steps stage, every task done here."""
        ...

    def perform(self, asked: Asked) -> list[Outcome]:
        """Do the tasks that some steps ask for."""
        ...

    def outcome_files(self, handle: TableHandle, outcome: Outcome) -> tuple[str, ...]:
        """The files and folders, below the root, that a task of some steps wrote."""
        ...

    def stage_columns(
        self, handle: TableHandle, stamp: WriteStamp, *, dropped: Sequence[str] = ()
    ) -> StagedWrite:
        """Adds the columns that only the handle's layout has, and drops physical columns."""
        ...

    def stage_filled_columns(
        self,
        handle: TableHandle,
        values: Mapping[str, pa.Scalar[pa.DataType]],
        stamp: WriteStamp,
    ) -> StagedWrite:
        """Adds columns of the handle's layout in which every row has one value."""
        ...

    def deletes_old_versions(self, handle: TableHandle) -> bool:
        """Whether settings from outside make Lance delete versions; costs no request."""
        ...

    def stage_without_cleanup(self, handle: TableHandle, stamp: WriteStamp) -> StagedWrite:
        """Removes the settings by which Lance would delete old versions by itself."""
        ...

    def write_pieces(
        self, handle: TableHandle, rows: Rows, *, rows_per_file: int | None = None
    ) -> Pieces:
        """Data files of new rows, each with at most so many."""
        ...

    def write_changed(self, handle: TableHandle, rows: Rows, row_ids: Sequence[int]) -> Pieces:
        """Data files of new forms of the rows with these row ids, in ascending order.

        A blob that `rows` leaves out is kept.
        """
        ...

    def delete_addresses(self, handle: TableHandle, addresses: Sequence[int]) -> Pieces:
        """The fragments without the rows at these addresses."""
        ...

    def stage_pieces(
        self, handle: TableHandle, kind: PieceKind, parts: Pieces, stamp: WriteStamp
    ) -> StagedWrite:
        """One transaction of pieces that were written for this handle."""
        ...

    def open_staged(self, handle: TableHandle, parts: Pieces) -> TableHandle:
        """The table with the new rows of these pieces, before anything is committed."""
        ...

    def whole_rows(
        self, handle: TableHandle, row_ids: pa.Array[pa.UInt64Scalar] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows with their blobs, a few at a time: all of them, or those with these row ids.

        Raises:
            ObjectMissing: files of the version are gone.
        """
        ...

    def read_staged(self, view: TableHandle, fragments: Sequence[int]) -> pa.Table:
        """Whole rows of some fragments, blobs included; holds all of them."""
        ...

    def stage_merge_staged(
        self,
        handle: TableHandle,
        view: TableHandle,
        fragments: Sequence[int],
        stamp: WriteStamp,
        left_out: Mask | None = None,
    ) -> StagedWrite:
        """Upserts the rows of some fragments of a view but for some; their ids are unique."""
        ...

    def staged_bytes(self, view: TableHandle, fragments: Sequence[int]) -> int:
        """How large the rows of some fragments are as they are stored, blobs included."""
        ...

    def piece_files(self, handle: TableHandle, parts: Pieces) -> tuple[str, ...]:
        """The files that making these pieces wrote, below the root."""
        ...

    def view_files(self, view: TableHandle) -> tuple[str, ...]:
        """The objects below the root whose deletion ends what `open_staged` made readable.

        Nobody else removes them; the files of the pieces stay for the commit.
        """
        ...

    def chain(
        self, first: StagedWrite, *then: Then, counts: RowCounts | None = None
    ) -> StagedWrite:
        """Several writes of one table, one after the other; `counts` are those of all of them."""
        ...

    def sync_staged(self, staged: StagedWrite) -> None:
        """Make the files of a staged write durable."""
        ...

    def sync_links(
        self, layout: TableLayout, branch: str | None, base_version: int, uuids: Sequence[str]
    ) -> None:
        """Make the versions durable that these links made on top of a base, one after the other.

        For a recovery that publishes them: their maker may have died before it came to it.
        """
        ...

    def commit_staged(self, handle: TableHandle, link: Link) -> TableHandle:
        """The version that a link makes on top of the handle, durable.

        Raises:
            CommitRefused: another commit stands in the way; nothing landed.
            Interleaved: it landed, but not as the next version; the caller must not publish.
        """
        ...

    def restore(
        self, layout: TableLayout, branch: str | None, version: int, stamp: WriteStamp
    ) -> TableHandle:
        """Shows an older version again, on top of the newest head, durable.

        Never refused, so only the holder of the line calls it; what was staged before is refused.
        """
        ...

    def fork(self, handle: TableHandle, branch_id: BranchId) -> Pin:
        """A line for a graph branch that starts at this handle, durable; one that is there is used.

        Raises:
            AlreadyExists: the line is there and holds commits.
        """
        ...

    def fork_state(self, layout: TableLayout, branch_id: BranchId) -> ForkState | None:
        """The line of a graph branch as the store has it, if it does.

        Raises:
            ObjectMissing: there is no such table.
        """
        ...

    def remove_torn(self, layout: TableLayout, branch: str | None) -> None:
        """Set aside what a power cut left of versions of a line, or of a line, never synced."""
        ...

    def forget(self, layout: TableLayout, branch: str | None, versions: Collection[int]) -> None:
        """Forget versions that were removed."""
        ...

    def delete_line(self, layout: TableLayout, name: str) -> None:
        """Remove a line by its name on storage; one that is not there is fine.

        Raises:
            LineHasChildren: another line grew from it.
        """
        ...

    def delete_fork(self, layout: TableLayout, branch_id: BranchId) -> None:
        """Remove the line of a graph branch; one that is not there is fine.

        Raises:
            LineHasChildren: another line grew from it.
        """
        ...
