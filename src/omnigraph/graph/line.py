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

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BranchNotFound, GraphNotFound, ManifestCorrupt
from omnigraph.graph.manifest_rows import OUTLINE, ManifestRows, tip_positions
from omnigraph.graph.rows import (
    HEAD_ID,
    SCHEMA_ID,
    BranchRow,
    BranchState,
    CommitRow,
    HeadRow,
    PinRow,
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
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from omnigraph.storage.manifest import LineHandle, ManifestStorage


IDEMPOTENCY_WINDOW = 10_000
READ_WHOLE_UP_TO_ROWS = 4_096
MOST_LINES_KEPT = 64


class ManifestLine:
    """One version of one line.

    What the head needs is read first, the whole history when it is asked for.
    """

    def __init__(
        self,
        handle: LineHandle,
        rows: pa.Table | None = None,
        *,
        tip: pa.Table | None = None,
        load: Callable[[], pa.Table] | None = None,
    ) -> None:
        self.handle = handle
        self._given = rows
        self._load = load
        self._tip = ManifestRows(tip) if tip is not None else self._all

    @property
    def branch_id(self) -> BranchId:
        """The branch whose line this is."""
        return self.handle.branch_id

    @cached_property
    def head(self) -> HeadRow:
        """Where the line stands."""
        return decode_head(self._tip.one(HEAD_ID))

    @cached_property
    def head_commit(self) -> CommitRow:
        """The commit at the head."""
        return decode_commit(self._tip.one(self.head.commit_id))

    @cached_property
    def schema(self) -> SchemaRow:
        """The accepted schema."""
        return decode_schema(self._tip.one(SCHEMA_ID))

    @cached_property
    def pins(self) -> dict[TableRef, PinRow]:
        """The pins of the head."""
        return _pins_at(self._tip, self.head.seq)

    def pins_at(self, seq: int) -> dict[TableRef, PinRow]:
        """Per living table the pin that was in force at `seq`, by table.

        Raises:
            ManifestCorrupt: two living tables have one name.
        """
        return _pins_at(self._all, seq)

    def has_table(self, ref: TableRef) -> bool:
        """Whether the table is registered, living or ended."""
        return self._all.find(f"table:{ref}") is not None

    def is_ended(self, ref: TableRef) -> bool:
        """Whether the table has a tombstone."""
        return ref in self._all.newest(RowKind.TABLE_TOMBSTONE, self.head.seq)

    def commit(self, commit_id: str) -> CommitRow | None:
        """The commit of that id, if the line has it."""
        raw = self._all.find(commit_id)
        if raw is None or raw["object_type"] != RowKind.GRAPH_COMMIT:
            return None
        return decode_commit(raw)

    def commit_at(self, seq: int) -> CommitRow | None:
        """The commit of this line with that sequence number."""
        if not 0 <= seq <= self.head.seq:
            return None
        matching = pc.and_(
            self._all.is_of(RowKind.GRAPH_COMMIT), pc.equal(self._rows["seq"], pa.scalar(seq))
        )
        for raw in self._rows.filter(matching).to_pylist():
            return decode_commit(raw)
        return None

    def commits(self) -> Iterator[CommitRow]:
        """Every commit of the line, copied ones included, in no order."""
        return map(decode_commit, self._all.of(RowKind.GRAPH_COMMIT))

    def commit_of_key(self, idempotency_key: str, branch: str) -> CommitRow | None:
        """The newest of the last 10,000 commits that was sent to the branch with this key.

        What the branch inherited was sent to another one.
        """
        after = self.head.seq - IDEMPOTENCY_WINDOW
        spelled = json.dumps({"idempotency_key": idempotency_key}, separators=(",", ":"))[1:-1]
        candidates = self._rows.filter(
            pc.and_(
                pc.and_(
                    self._all.is_of(RowKind.GRAPH_COMMIT),
                    pc.greater(self._rows["seq"], pa.scalar(after)),
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

    def branches(self) -> dict[str, BranchRow]:
        """Branch rows by name, deleted ones too; only the main line's count."""
        return self._branches

    @cached_property
    def _branches(self) -> dict[str, BranchRow]:
        found = map(decode_branch, self._tip.of(RowKind.BRANCH))
        return {each.name: each for each in found}

    def recovery(self, operation_id: str) -> RecoveryRow | None:
        """How an operation was recovered, if it was."""
        raw = self._all.find(recovery_object_id(operation_id))
        return None if raw is None else decode_recovery(raw)

    def recoveries(self) -> Iterator[RecoveryRow]:
        """Every recovery that the line records, in no order."""
        return map(decode_recovery, self._all.of(RowKind.RECOVERY))

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

    @property
    def _rows(self) -> pa.Table:
        return self._all.table

    @cached_property
    def _all(self) -> ManifestRows:
        if self._given is not None:
            return ManifestRows(self._given)
        if self._load is None:
            raise ValueError("a line has its rows, or a way to load them")
        return ManifestRows(self._load())


def _pins_at(rows: ManifestRows, seq: int) -> dict[TableRef, PinRow]:
    newest = rows.newest(RowKind.TABLE_VERSION, seq)
    ended = rows.newest(RowKind.TABLE_TOMBSTONE, seq)
    pins: dict[TableRef, PinRow] = {}
    names: dict[str, TableRef] = {}
    for ref, (pinned_at, position) in sorted(newest.items()):
        if ref in ended and ended[ref][0] > pinned_at:
            continue
        pin = decode_pin(rows.at(position))
        if pin.table_key in names:
            raise ManifestCorrupt(
                f"two tables are called {pin.table_key}: {names[pin.table_key]} and {ref};"
                " restore __manifest from a copy",
                table_key=pin.table_key,
            )
        names[pin.table_key] = ref
        pins[ref] = pin
    return pins


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
        line = self._line(handle)
        self.remember(line)
        return line

    def _line(self, handle: LineHandle) -> ManifestLine:
        """The line: all rows of a short one, of a long one those that its head needs."""
        storage = self._storage
        if handle.rows <= READ_WHOLE_UP_TO_ROWS:
            return ManifestLine(handle, storage.rows(handle))
        positions = tip_positions(storage.rows(handle, columns=OUTLINE))
        tip = storage.take(handle, positions)
        return ManifestLine(handle, tip=tip, load=lambda: storage.rows(handle))

    def remember(self, line: ManifestLine) -> None:
        """Keep a line that is known to be newer than what is cached."""
        with self._lock:
            cached = self._lines.get(line.branch_id)
            if cached is None or cached.handle.version < line.handle.version:
                self._lines.pop(line.branch_id, None)
                self._lines[line.branch_id] = line
            while len(self._lines) > MOST_LINES_KEPT:
                oldest = next(each for each in self._lines if each != MAIN_BRANCH_ID)
                del self._lines[oldest]

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
