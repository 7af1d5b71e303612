"""One version of a line of the manifest, read once: head, pins, commits, branches, recoveries.

A `ManifestLine` is immutable and shared by every reader of that version. `ManifestCoordinator`
keeps the newest one per branch and asks storage, at each read, whether it still is the newest: no
process serves a head older than the start of the request.
"""

from __future__ import annotations

import json
import threading
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BranchNotFound, GraphNotFound, ManifestCorrupt
from omnigraph.graph.rows import (
    HEAD_ID,
    SCHEMA_ID,
    BranchRow,
    BranchState,
    CommitRow,
    HeadRow,
    PinRow,
    RawRow,
    RecoveryRow,
    RowKind,
    SchemaRow,
    TableRef,
    decode_branch,
    decode_commit,
    decode_head,
    decode_pin,
    decode_recovery,
    decode_schema,
    recovery_object_id,
)
from omnigraph.ids import MAIN_BRANCH_ID, BranchId, Incarnation, TableId
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.storage.manifest import LineHandle, ManifestStorage


IDEMPOTENCY_WINDOW = 10_000


class ManifestLine:
    """The rows of one version of one line."""

    def __init__(self, handle: LineHandle, rows: pa.Table) -> None:
        self.handle = handle
        self._rows = rows

    @property
    def branch_id(self) -> BranchId:
        """The branch whose line this is."""
        return self.handle.branch_id

    @cached_property
    def head(self) -> HeadRow:
        """Where the line stands."""
        return decode_head(self._one(HEAD_ID))

    @cached_property
    def head_commit(self) -> CommitRow:
        """The commit at the head."""
        return decode_commit(self._one(self.head.commit_id))

    @cached_property
    def schema(self) -> SchemaRow:
        """The accepted schema."""
        return decode_schema(self._one(SCHEMA_ID))

    @cached_property
    def pins(self) -> dict[TableRef, PinRow]:
        """The pins of the head."""
        return self.pins_at(self.head.seq)

    def pins_at(self, seq: int) -> dict[TableRef, PinRow]:
        """Per living table the pin that was in force at `seq`, by table.

        Raises:
            ManifestCorrupt: two living tables have one name.
        """
        newest = self._newest(RowKind.TABLE_VERSION, seq)
        ended = self._newest(RowKind.TABLE_TOMBSTONE, seq)
        pins: dict[TableRef, PinRow] = {}
        names: dict[str, TableRef] = {}
        for ref, (pinned_at, position) in sorted(newest.items()):
            if ref in ended and ended[ref][0] > pinned_at:
                continue
            pin = decode_pin(self._raw(position))
            if pin.table_key in names:
                raise ManifestCorrupt(
                    f"two tables are called {pin.table_key}: {names[pin.table_key]} and {ref};"
                    " restore __manifest from a copy",
                    table_key=pin.table_key,
                )
            names[pin.table_key] = ref
            pins[ref] = pin
        return pins

    def has_table(self, ref: TableRef) -> bool:
        """Whether the table is registered, living or ended."""
        return f"table:{ref}" in self._positions

    def is_ended(self, ref: TableRef) -> bool:
        """Whether the table has a tombstone."""
        return ref in self._newest(RowKind.TABLE_TOMBSTONE, self.head.seq)

    def commit(self, commit_id: str) -> CommitRow | None:
        """The commit of that id, if the line has it."""
        position = self._positions.get(commit_id)
        if position is None:
            return None
        raw = self._raw(position)
        return decode_commit(raw) if raw["object_type"] == RowKind.GRAPH_COMMIT else None

    def commit_at(self, seq: int) -> CommitRow | None:
        """The commit of this line with that sequence number."""
        if not 0 <= seq <= self.head.seq:
            return None
        matching = pc.and_(
            self._is(RowKind.GRAPH_COMMIT), pc.equal(self._rows["seq"], pa.scalar(seq))
        )
        for raw in self._rows.filter(matching).to_pylist():
            return decode_commit(raw)
        return None

    def commits(self) -> Iterator[CommitRow]:
        """Every commit of the line, copied ones included, in no order."""
        return map(decode_commit, self._of(RowKind.GRAPH_COMMIT))

    def commit_of_key(self, idempotency_key: str, branch: str) -> CommitRow | None:
        """The newest of the last 10,000 commits that was sent to the branch with this key.

        What the branch inherited was sent to another one.
        """
        after = self.head.seq - IDEMPOTENCY_WINDOW
        spelled = json.dumps({"idempotency_key": idempotency_key}, separators=(",", ":"))[1:-1]
        candidates = self._rows.filter(
            pc.and_(
                pc.and_(
                    self._is(RowKind.GRAPH_COMMIT), pc.greater(self._rows["seq"], pa.scalar(after))
                ),
                pc.match_substring(self._rows["metadata"], spelled),
            )
        )
        found = [decode_commit(raw) for raw in candidates.to_pylist()]
        matching = [
            each
            for each in found
            if (each.idempotency_key, each.authored_branch) == (idempotency_key, branch)
        ]
        return max(matching, key=lambda each: each.seq, default=None)

    def commit_table(self) -> pa.Table:
        """The raw rows of all commits."""
        return self._rows.filter(self._is(RowKind.GRAPH_COMMIT))

    def branches(self) -> dict[str, BranchRow]:
        """Branch rows by name, deleted ones too; only the main line's count."""
        found = map(decode_branch, self._of(RowKind.BRANCH))
        return {each.name: each for each in found}

    def recovery(self, operation_id: str) -> RecoveryRow | None:
        """How an operation was recovered, if it was."""
        position = self._positions.get(recovery_object_id(operation_id))
        return None if position is None else decode_recovery(self._raw(position))

    def recoveries(self) -> Iterator[RecoveryRow]:
        """Every recovery that the line records, in no order."""
        return map(decode_recovery, self._of(RowKind.RECOVERY))

    @cached_property
    def operations(self) -> frozenset[str]:
        """The operations that a commit or a recovery of this line settles."""
        done = {each.operation_id for each in self.commits()}
        return frozenset(done | {each.operation_id for each in self.recoveries()})

    @property
    def rows(self) -> pa.Table:
        """All rows as stored."""
        return self._rows

    def after_merge(self, handle: LineHandle, merged: pa.Table) -> ManifestLine:
        """The line after a merge on exactly this version, without reading it again."""
        gone = pc.is_in(self._rows["object_id"], value_set=merged["object_id"].combine_chunks())
        kept = self._rows.filter(pc.invert(gone))
        return ManifestLine(handle, pa.concat_tables([kept, merged]).combine_chunks())

    @cached_property
    def _positions(self) -> dict[str, int]:
        names = self._rows["object_id"].to_pylist()
        positions = {str(name): position for position, name in enumerate(names)}
        if len(positions) != len(names):
            raise ManifestCorrupt(
                "the manifest has two rows of one object_id; restore __manifest from a copy",
                rows=len(names),
                distinct=len(positions),
            )
        return positions

    @cached_property
    def _kinds(self) -> pa.ChunkedArray[pa.StringScalar]:
        return self._rows["object_type"]

    def _is(self, kind: RowKind) -> pa.BooleanArray:
        return pc.equal(self._kinds, pa.scalar(kind.value))

    def _of(self, kind: RowKind) -> list[RawRow]:
        return self._rows.filter(self._is(kind)).to_pylist()

    def _one(self, object_id: str) -> RawRow:
        position = self._positions.get(object_id)
        if position is None:
            raise ManifestCorrupt(
                f"the manifest has no row {object_id!r}; restore __manifest from a copy",
                object_id=object_id,
            )
        return self._raw(position)

    def _raw(self, position: int) -> RawRow:
        return self._rows.slice(position, 1).to_pylist()[0]

    def _newest(self, kind: RowKind, seq: int) -> dict[TableRef, tuple[int, int]]:
        """Per table the greatest `seq` not above the given one, and the position of its row."""
        matching = pc.and_(self._is(kind), pc.less_equal(self._rows["seq"], pa.scalar(seq)))
        positions = np.flatnonzero(matching.to_numpy(zero_copy_only=False) == True)  # noqa: E712
        if not len(positions):
            return {}
        chosen = self._rows.select(["table_id", "incarnation", "seq"]).take(positions)
        if any(column.null_count for column in chosen.columns):
            raise ManifestCorrupt(
                f"a {kind.value} row of the manifest names no table; restore __manifest from a copy"
            )
        tables, lives, numbers = (column.to_numpy() for column in chosen.columns)
        order = np.lexsort((numbers, lives, tables))
        # Ascending by seq within a table: the last one written to the mapping is the newest.
        return {
            TableRef(TableId(int(tables[at])), Incarnation(int(lives[at]))): (
                int(numbers[at]),
                int(positions[at]),
            )
            for at in _last_of_each(tables[order], lives[order], order)
        }


def _last_of_each(tables: np.ndarray, lives: np.ndarray, order: np.ndarray) -> np.ndarray:
    ends = np.ones(len(order), dtype=bool)
    ends[:-1] = (tables[1:] != tables[:-1]) | (lives[1:] != lives[:-1])
    return order[ends]


class ManifestCoordinator:
    """The newest line of each branch, checked against storage at every read."""

    def __init__(
        self, storage: ManifestStorage, check_stamp: Callable[[LineHandle], object]
    ) -> None:
        self._storage = storage
        self._check_stamp = check_stamp
        self._lines: dict[BranchId, ManifestLine] = {}
        self._lock = threading.Lock()

    def read(self, branch_id: BranchId) -> ManifestLine:
        """The newest version of a branch's line.

        Raises:
            GraphNotFound: there is no manifest.
            BranchNotFound: there is no such line.
        """
        cached = self._lines.get(branch_id)
        if cached is not None and self._is_newest(cached):
            return cached
        return self.read_again(branch_id)

    def read_again(self, branch_id: BranchId) -> ManifestLine:
        """The newest version, read from storage whatever is cached."""
        try:
            handle = self._storage.open_line(branch_id)
        except ObjectMissing as error:
            raise _no_line(branch_id) from error
        self._check_stamp(handle)
        line = ManifestLine(handle, self._storage.rows(handle))
        self.remember(line)
        return line

    def remember(self, line: ManifestLine) -> None:
        """Keep a line that is known to be newer than what is cached."""
        with self._lock:
            cached = self._lines.get(line.branch_id)
            if cached is None or cached.handle.version < line.handle.version:
                self._lines[line.branch_id] = line

    def forget(self, branch_id: BranchId) -> None:
        """Drop what is cached of a branch that is gone."""
        with self._lock:
            self._lines.pop(branch_id, None)

    def branch(self, name: str) -> BranchRow:
        """The live branch of that name.

        Raises:
            BranchNotFound: there is none.
        """
        rows = self.read(MAIN_BRANCH_ID).branches()
        found = rows.get(name)
        if found is None or found.state is not BranchState.LIVE:
            live = [each.name for each in rows.values() if each.state is BranchState.LIVE]
            raise BranchNotFound(
                f"there is no branch {name!r}; live branches: {', '.join(['main', *sorted(live)])}",
                branch=name,
            )
        return found

    def _is_newest(self, line: ManifestLine) -> bool:
        try:
            return self._storage.latest_version(line.handle) == line.handle.version
        except ObjectMissing:
            return False


def _no_line(branch_id: BranchId) -> GraphNotFound | BranchNotFound:
    if branch_id == MAIN_BRANCH_ID:
        return GraphNotFound(
            "there is no graph here; create one with Graph.init or `omnigraph init`"
        )
    return BranchNotFound(
        f"the branch {branch_id} is gone; list the branches that exist", branch=branch_id
    )
