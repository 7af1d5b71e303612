"""One version of a line of the manifest: its tip in memory, its history read when it is asked for.

A `ManifestLine` is immutable and shared by every reader of that version. `ManifestCoordinator`
keeps the newest one per branch and asks storage, at each read, whether it still is the newest: no
process serves a head older than the start of the request. A newer version is reached from the one
that is kept by the rows that were added since.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ManifestCorrupt, SnapshotReclaimed
from omnigraph.graph.manifest.line_memory import KEY_MARK, LineMemory
from omnigraph.graph.manifest.line_tip import NAMED, LineTip, first_tip, living_pins
from omnigraph.graph.manifest.row_lookup import OUTLINE, newest_of_each, tip_positions
from omnigraph.graph.manifest.rows import (
    BranchRow,
    CommitRow,
    HeadRow,
    PinRow,
    RecoveryRow,
    RowKind,
    SchemaRow,
    TableRef,
    TableRow,
    TagRow,
    decode_commit,
    decode_pin,
    decode_recovery,
    decode_table,
    job_of,
    recovery_object_id,
)
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.manifest import addresses
from omnigraph.storage.predicates import And, Compare, CompareOp, In, IsNull, Or
from omnigraph.storage.reading import ROW_ID
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from omnigraph.graph.manifest.rows import RawRow
    from omnigraph.storage.manifest import LineHandle, ManifestStorage
    from omnigraph.storage.predicates import Predicate


IDEMPOTENCY_WINDOW = 10_000
READ_WHOLE_UP_TO_ROWS = 4_096
COMMITS_PER_READ = 1_024
MERGE_MARK = '"merged_parent":'
"""What the stored facts of a merge have, and others hardly ever."""


class ManifestLine:
    """One version of one line."""

    def __init__(
        self, handle: LineHandle, tip: LineTip, storage: ManifestStorage, memory: LineMemory
    ) -> None:
        self.handle = handle
        self.tip = tip
        self.memory = memory
        self._storage = storage

    @property
    def branch_id(self) -> BranchId:
        """The branch whose line this is."""
        return self.handle.branch_id

    @property
    def head(self) -> HeadRow:
        """Where the line stands."""
        return self.tip.head

    @property
    def head_commit(self) -> CommitRow:
        """The commit at the head."""
        return self.tip.head_commit

    @property
    def schema(self) -> SchemaRow:
        """The accepted schema."""
        return self.tip.schema

    @cached_property
    def pins(self) -> dict[TableRef, PinRow]:
        """The pins of the head.

        Raises:
            ManifestCorrupt: two living tables have one name.
        """
        return self.tip.pins()

    def pins_at(self, seq: int) -> dict[TableRef, PinRow]:
        """Per living table the pin that was in force at `seq`, by table.

        Raises:
            ManifestCorrupt: two living tables have one name.
        """
        if seq >= self.head.seq:
            return self.pins
        kinds = (RowKind.TABLE_VERSION, RowKind.TABLE_TOMBSTONE)
        upto = Compare("seq", CompareOp.LE, pa.scalar(seq, pa.int64()))
        outline = self._read(And((_of(*kinds), upto)), columns=OUTLINE, with_row_ids=True)
        newest = newest_of_each(outline, RowKind.TABLE_VERSION)
        ended = newest_of_each(outline, RowKind.TABLE_TOMBSTONE)
        positions = [position for _, position in newest.values()]
        with self._telling_what_is_gone():
            rows = self._storage.take(self.handle, _row_ids(outline, positions)).to_pylist()
        pins = dict(zip(newest, map(decode_pin, rows), strict=True))
        return living_pins(pins, {ref: seq for ref, (seq, _) in ended.items()})

    def pins_between(self, after: int, upto: int) -> list[PinRow]:
        """The pins that commits with these numbers published, in no order; one read."""
        rows = self._read(_numbered(RowKind.TABLE_VERSION, after, upto)).to_pylist()
        return list(map(decode_pin, rows))

    def registrations(self) -> list[TableRow]:
        """Every table that the line registers, living or ended."""
        return list(map(decode_table, self._read(_of(RowKind.TABLE)).to_pylist()))

    def has_table(self, ref: TableRef) -> bool:
        """Whether the table is registered, living or ended."""
        return self._find(f"table:{ref}") is not None

    def is_ended(self, ref: TableRef) -> bool:
        """Whether the table has a tombstone."""
        return ref in self.tip.ended

    def commit(self, commit_id: str, *, absent_at: int | None = None) -> CommitRow | None:
        """The commit of that id, if the line has it.

        Args:
            commit_id: The id.
            absent_at: A version that is known not to have it, if there is one: then what has
                arrived since answers, and no history is read.
        """
        if commit_id == self.head.commit_id:
            return self.head_commit
        raw = self._arrived(commit_id, absent_at)
        if raw is None or raw["object_type"] != RowKind.GRAPH_COMMIT:
            return None
        return decode_commit(raw)

    def commit_at(self, seq: int) -> CommitRow | None:
        """The commit of this line with that sequence number."""
        if not 0 <= seq <= self.head.seq:
            return None
        if seq == self.head.seq:
            return self.head_commit
        return next(iter(self.commits_numbered([seq])), None)

    def commits_numbered(self, numbers: Sequence[int]) -> list[CommitRow]:
        """The commits of this line with these numbers, the oldest first; one read."""
        wanted = And((_of(RowKind.GRAPH_COMMIT), In("seq", pa.array(numbers, pa.int64()))))
        rows = map(decode_commit, self._read(wanted).to_pylist())
        return sorted(rows, key=lambda commit: commit.seq)

    def commits(self) -> Iterator[CommitRow]:
        """Every commit of the line, copied ones included, in no order."""
        return map(decode_commit, self._read(_of(RowKind.GRAPH_COMMIT)).to_pylist())

    def commits_between(self, after: int, upto: int) -> list[CommitRow]:
        """The commits of this line with these numbers, the newest first."""
        rows = self._read(_numbered(RowKind.GRAPH_COMMIT, after, upto)).to_pylist()
        return sorted(map(decode_commit, rows), key=lambda commit: commit.seq, reverse=True)

    def copied_commits(self) -> list[CommitRow]:
        """The commits of other lines that merges have made part of this one's history."""
        copied = And((_of(RowKind.GRAPH_COMMIT), IsNull("seq")))
        return list(map(decode_commit, self._read(copied).to_pylist()))

    def own_commits(self, commit_ids: Collection[str]) -> list[CommitRow]:
        """Those of the commits that this line holds itself, in no order."""
        if not commit_ids:
            return []
        rows = self._read(In("object_id", pa.array(sorted(commit_ids), pa.string()))).to_pylist()
        return [decode_commit(raw) for raw in rows if raw["seq"] is not None]

    def commits_with(self, text: str) -> list[CommitRow]:
        """The commits in whose stored facts a text occurs, copied ones too, the newest first."""
        rows = self._read(_of(RowKind.GRAPH_COMMIT), columns=("object_id", "seq", "metadata"))
        rows = rows.filter(pc.match_substring(rows["metadata"], text))
        commits = map(decode_commit, rows.to_pylist())
        return sorted(commits, key=lambda commit: commit.seq, reverse=True)

    def merges(self) -> list[CommitRow]:
        """The merges that this line made, the newest first."""
        return [row for row in self.commits_with(MERGE_MARK) if row.copied_from is None]

    def commit_of_key(self, idempotency_key: str, branch: str) -> CommitRow | None:
        """The newest of the last 10,000 commits that was sent to the branch with this key.

        What the branch inherited was sent to another one.
        """
        after = self.head.seq - IDEMPOTENCY_WINDOW
        if not self.memory.knows_keys:
            rows = self._read(
                _numbered(RowKind.GRAPH_COMMIT, after, self.head.seq),
                columns=("object_id", "seq", "metadata"),
            )
            keyed = rows.filter(pc.match_substring(rows["metadata"], KEY_MARK))
            self.memory.learn_keys(keyed.to_pylist())
        seq = self.memory.number_of_key(idempotency_key, branch, after, self.head.seq)
        return None if seq is None else self.commit_at(seq)

    def commit_of_job(self, job: str, *, absent_at: int | None = None) -> CommitRow | None:
        """The commit that a job made, on this branch or on one that this one has the rows of.

        `absent_at` as for `commit`.
        """
        if absent_at is not None and self.memory.has_all_since(absent_at):
            arrived = self.memory.commits_with(job, self.handle.version)
            rows = [decode_commit(raw) for raw in arrived]
        else:
            rows = self.commits_with(job)
        return next((row for row in rows if job_of(row.stats) == job), None)

    def branches(self) -> dict[str, BranchRow]:
        """Branch rows by name, deleted ones too; only the main line's count."""
        return dict(self.tip.branches)

    def tags(self) -> dict[str, TagRow]:
        """Tag rows by name, deleted ones too; only the main line's count."""
        return dict(self.tip.tags)

    def recovery(self, operation_id: str, *, absent_at: int | None = None) -> RecoveryRow | None:
        """How an operation was recovered, if it was; `absent_at` as for `commit`."""
        raw = self._arrived(recovery_object_id(operation_id), absent_at)
        return None if raw is None else decode_recovery(raw)

    def recoveries(self) -> Iterator[RecoveryRow]:
        """Every recovery that the line records, in no order."""
        return map(decode_recovery, self._read(_of(RowKind.RECOVERY)).to_pylist())

    def settled(self, operations: Collection[str]) -> set[str]:
        """Those of the operations that a commit or a recovery of this line settles."""
        wanted = set(operations)
        if not wanted:
            return set()
        names = pa.array(sorted(map(recovery_object_id, wanted)), pa.string())
        rows = self._read(In("object_id", names)).to_pylist()
        done = {recovery.operation_id for recovery in map(decode_recovery, rows)}
        upto = self.head.seq
        while upto >= 0 and not wanted <= done:
            # The newest first: what is asked for has hardly ever been settled long ago.
            commits = self.commits_between(upto - COMMITS_PER_READ, upto)
            done |= {commit.operation_id for commit in commits} & wanted
            upto -= COMMITS_PER_READ
        return wanted & done

    @property
    def rows(self) -> pa.Table:
        """All rows as stored."""
        return self._storage.rows(self.handle)

    def after_merge(self, handle: LineHandle, merged: pa.Table) -> ManifestLine:
        """The line after a merge on exactly this version, without reading it again."""
        places = self._storage.added_places(self.handle, handle, merged)
        return self._after(handle, merged.to_pylist(), places)

    def forward(self, handle: LineHandle) -> ManifestLine:
        """The line at a newer version, from the rows that were added since.

        Fragments that others have joined meanwhile count as new, and hold old rows too.
        """
        since = Or(
            (
                Compare("seq", CompareOp.GE, pa.scalar(self.head.seq, pa.int64())),
                IsNull("seq"),
            )
        )
        new = [number for number in handle.pieces if number not in self.handle.pieces]
        rows = self._storage.rows(handle, predicate=since, pieces=new, with_addresses=True)
        return self._after(handle, rows.to_pylist(), addresses(rows))

    def _after(
        self, handle: LineHandle, added: Sequence[RawRow], places: dict[str, int]
    ) -> ManifestLine:
        is_main = handle.branch_id == MAIN_BRANCH_ID
        counting = (row for row in added if is_main or row["object_type"] not in NAMED)
        tip = self.tip.after(counting, places)
        self.memory.note(handle.version, added)
        return ManifestLine(handle, tip, self._storage, self.memory)

    def _arrived(self, object_id: str, absent_at: int | None) -> RawRow | None:
        raw = self.memory.find(object_id, self.handle.version)
        if raw is not None:
            return raw
        if absent_at is not None and self.memory.has_all_since(absent_at):
            return None
        return self._find(object_id)

    def _find(self, object_id: str) -> RawRow | None:
        """The row of that id.

        Raises:
            ManifestCorrupt: there are two.
        """
        wanted = Compare("object_id", CompareOp.EQ, pa.scalar(object_id, pa.string()))
        rows = self._read(wanted).to_pylist()
        if len(rows) > 1:
            raise ManifestCorrupt(
                f"the manifest has {len(rows)} rows {object_id!r}; restore __manifest from a copy",
                object_id=object_id,
            )
        return rows[0] if rows else None

    def _read(
        self,
        predicate: Predicate,
        *,
        columns: Sequence[str] | None = None,
        with_row_ids: bool = False,
    ) -> pa.Table:
        with self._telling_what_is_gone():
            return self._storage.rows(
                self.handle, predicate=predicate, columns=columns, with_row_ids=with_row_ids
            )

    @contextmanager
    def _telling_what_is_gone(self) -> Iterator[None]:
        """Say of a line whose files went while somebody held it what became of it.

        Raises:
            SnapshotReclaimed: the branch was deleted, or the version is too old.
        """
        try:
            yield
        except ObjectMissing as error:
            raise SnapshotReclaimed(
                f"the history of branch {self.branch_id} at commit {self.head.commit_id} is gone:"
                " the branch was deleted meanwhile, or cleanup removed it; ask again",
                graph_commit_id=self.head.commit_id,
            ) from error


def read_line(storage: ManifestStorage, handle: LineHandle) -> ManifestLine:
    """A line of which nothing is known yet: a short one is read whole, of a long one its tip."""
    is_main = handle.branch_id == MAIN_BRANCH_ID
    if handle.rows <= READ_WHOLE_UP_TO_ROWS:
        rows = storage.rows(handle, with_addresses=True)
        rows = rows.take(pa.array(tip_positions(rows, is_main=is_main), pa.int64()))
        places = addresses(rows)
    else:
        outline = storage.rows(handle, columns=OUTLINE, with_row_ids=True, with_addresses=True)
        chosen = outline.take(pa.array(tip_positions(outline, is_main=is_main), pa.int64()))
        rows = storage.take(handle, chosen[ROW_ID].combine_chunks())
        places = addresses(chosen.append_column("object_id", rows["object_id"]))
    tip = first_tip(rows.to_pylist(), places)
    return ManifestLine(handle, tip, storage, LineMemory(handle.version))


def _of(*kinds: RowKind) -> Predicate:
    return In("object_type", pa.array([kind.value for kind in kinds], pa.string()))


def _numbered(kind: RowKind, after: int, upto: int) -> Predicate:
    return And(
        (
            _of(kind),
            Compare("seq", CompareOp.GT, pa.scalar(after, pa.int64())),
            Compare("seq", CompareOp.LE, pa.scalar(upto, pa.int64())),
        )
    )


def _row_ids(outline: pa.Table, positions: Sequence[int]) -> pa.Array[pa.UInt64Scalar]:
    return outline[ROW_ID].take(pa.array(positions, pa.int64())).combine_chunks()
