"""One state of the graph: the catalog and the table versions of one commit, for good.

Tables are opened when they are first read, at exactly their pins; the newest version of a table is
never read. A version that cleanup has removed is an error, never the nearest other one.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import CommitNotFound, InvalidArgument, ManifestCorrupt, SnapshotReclaimed
from omnigraph.graph.history.commit_graph import commit_on
from omnigraph.graph.manifest.table_refs import pin_of, ref_of
from omnigraph.graph.query.predicate_text import compile_predicate
from omnigraph.graph.type_names import find_type
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID, BranchId
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow, PinRow, TableRef
    from omnigraph.graph.manifest.schemas import Schemas
    from omnigraph.lang import Catalog, EdgeType, NodeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTable:
    """A table of a snapshot, as callers see it."""

    table_key: str
    dataset_path: str
    native_dataset_branch: str | None
    published_dataset_version: int
    entity_count: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {name: getattr(self, name) for name in self.__slots__}


class Snapshot:
    """The graph at one commit."""

    def __init__(
        self,
        line: ManifestLine,
        commit: CommitRow,
        *,
        store: TableStorage,
        schemas: Schemas,
        format_version: int,
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._format_version = format_version
        self._commit = commit
        self._branch_id = line.branch_id
        self._pins = line.pins if commit.seq == line.head.seq else line.pins_at(commit.seq)

    @property
    def graph_commit_id(self) -> str:
        """The commit."""
        return self._commit.commit_id

    @property
    def seq(self) -> int:
        """Its sequence number on its line."""
        return self._commit.seq

    @property
    def branch_id(self) -> BranchId:
        """The line on which it was resolved."""
        return self._branch_id

    @property
    def resolved_snapshot(self) -> str:
        """A text that names exactly this snapshot."""
        return f"{self._branch_id}@{self._commit.commit_id}"

    @property
    def internal_schema_version(self) -> int:
        """The storage format of the graph."""
        return self._format_version

    @property
    def schema_hash(self) -> str:
        """The accepted schema in force."""
        return self._commit.schema_hash

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog in force."""
        return self._schemas.load(self._commit.schema_hash).catalog

    @cached_property
    def tables(self) -> tuple[SnapshotTable, ...]:
        """The tables, nodes before edges, by type name of that moment."""
        types = self._schemas.tables(self._commit.schema_hash)
        tables = [
            SnapshotTable(
                table_key=types.layouts[ref].table_key,
                dataset_path=pin.location,
                native_dataset_branch=pin.branch,
                published_dataset_version=pin.version,
                entity_count=pin.row_count,
            )
            for ref, pin in self._pins.items()
        ]
        return tuple(sorted(tables, key=_nodes_first))

    def scan(
        self,
        type: str,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows of a type as Arrow batches; `columns` and their order as asked.

        Args:
            type: the type, as `Person`, `node:Link` or `edge:Link`.
            columns: which columns; all but blobs without it.
            filter: one predicate of the query language, as `age > 30`.
            limit: at most this many rows.

        Raises:
            InvalidArgument: unknown type or column, or a negative limit.
            QueryInvalid: the filter does not parse or check.
            SnapshotReclaimed: cleanup removed the version.
        """
        item = self.type(type)
        predicate = None if filter is None else compile_predicate(self.catalog, item, filter)
        self._require_columns(item, columns)
        if limit is not None and limit < 0:
            raise InvalidArgument(f"limit must not be negative, it is {limit}", argument="limit")
        with self._reclaimed(item):
            reader = self._store.scan(
                self.handle(item), columns=columns, predicate=predicate, limit=limit
            )
        return pa.RecordBatchReader.from_batches(reader.schema, self._pulled(item, reader))

    def entity(self, type: str, id: str) -> dict[str, Any] | None:
        """One entity as a dict of its columns, or `None`; opens its table only."""
        item = self.type(type)
        wanted = _id_array(id)
        with self._reclaimed(item):
            rows = self._store.take_ids(self.handle(item), wanted).to_pylist()
        return rows[0] if rows else None

    def count(self, type: str) -> int:
        """How many entities of a type there are; reads no table."""
        return self.pin(self.type(type)).row_count

    def handle(self, item: NodeType | EdgeType) -> TableHandle:
        """The table of a type at its pin, for the layers that read it."""
        layouts = self._schemas.tables(self._commit.schema_hash).layouts
        with self._reclaimed(item):
            return self._store.open(layouts[ref_of(item)], pin_of(self.pin(item)))

    def _pulled(
        self, item: NodeType | EdgeType, source: pa.RecordBatchReader
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with self._reclaimed(item):
                batch = next(source, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _reclaimed(self, item: NodeType | EdgeType) -> Iterator[None]:
        """Say of files that are gone what became of them."""
        try:
            yield
        except ObjectMissing as error:
            raise reclaimed(self, item.name) from error

    def pin(self, item: NodeType | EdgeType) -> PinRow:
        """Which version of a type's table the snapshot shows.

        Raises:
            ManifestCorrupt: the manifest names none.
        """
        ref: TableRef = ref_of(item)
        pin = self._pins.get(ref)
        if pin is None:
            raise ManifestCorrupt(
                f"the type {item.name} has no table at commit {self.graph_commit_id}; restore"
                " __manifest from a copy",
                table=str(ref),
            )
        return pin

    def type(self, name: str) -> NodeType | EdgeType:
        """The type that a name means: `Person`, or `node:Link` and `edge:Link` when both exist.

        Raises:
            InvalidArgument: there is none, or there are two.
        """
        return find_type(self.catalog, name)

    def _require_columns(self, item: NodeType | EdgeType, columns: Sequence[str] | None) -> None:
        known = item.arrow_schema.names
        unknown = [column for column in columns or () if column not in known]
        if unknown:
            raise InvalidArgument(
                f"{item.name} has no column {unknown[0]!r}; it has {', '.join(known)}",
                type=item.name,
                column=unknown[0],
            )


def reclaimed(snapshot: Snapshot, type_name: str | None = None) -> SnapshotReclaimed:
    """The error of a read that met files which are gone."""
    what = "data" if type_name is None else f"the version of {type_name}"
    return SnapshotReclaimed(
        f"{what} at commit {snapshot.graph_commit_id} is gone: cleanup removed it, or its branch"
        " was deleted; read a newer commit of a live branch",
        graph_commit_id=snapshot.graph_commit_id,
        type=type_name,
    )


def _id_array(id: str) -> pa.Array[pa.StringScalar]:
    try:
        return pa.array([id], pa.string())
    except (pa.ArrowException, TypeError, UnicodeEncodeError) as error:
        raise InvalidArgument(f"an id is a text, not {id!r}", argument="id") from error


def open_snapshot(graph: GraphCoordinator, at: str | int | None, branch: str) -> Snapshot:
    """The snapshot of a branch's head, of a commit, of a `resolved_snapshot`, or of a number.

    Raises:
        BranchNotFound, CommitNotFound: there is no such branch or commit.
        SnapshotReclaimed: the line that holds the commit's data is gone.
    """
    if isinstance(at, bool) or not isinstance(at, str | int | None):
        raise InvalidArgument(
            f"a snapshot is named by a commit id or a number, not by {at!r}", argument="at"
        )
    if isinstance(at, str) and "@" in at:
        return _resolved(graph, at)
    line = graph.lines.read(graph.lines.branch_id(branch))
    if at is None:
        return snapshot_at(graph, line, line.head_commit)
    if isinstance(at, int):
        return snapshot_at(graph, line, _at_number(line, at, branch))
    return _of_commit(graph, line, at)


def open_target(graph: GraphCoordinator, target: str) -> Snapshot:
    """The snapshot that a text names: a branch, which stands for its head, or a commit.

    Raises:
        CommitNotFound: it is neither.
        SnapshotReclaimed: the line that holds the commit's data is gone.
    """
    if not isinstance(target, str):
        raise InvalidArgument(
            f"a state is named by a branch or a commit id, not by {target!r}", argument="target"
        )
    if target in graph.lines.live_branch_ids().values():
        return open_snapshot(graph, None, target)
    try:
        return open_snapshot(graph, target, MAIN_BRANCH)
    except CommitNotFound as error:
        raise CommitNotFound(
            f"there is no branch and no commit {target!r}; list branches or commits to find one",
            graph_commit_id=target,
        ) from error


def snapshot_at(graph: GraphCoordinator, line: ManifestLine, commit: CommitRow) -> Snapshot:
    """The snapshot of a commit that a line holds."""
    return Snapshot(
        line,
        commit,
        store=graph.tables,
        schemas=graph.schemas,
        format_version=graph.stamp.version,
    )


def find_commit(lines: ManifestCoordinator, commit_id: str) -> Commit:
    """A commit of any live line, as callers see it.

    Raises:
        CommitNotFound: no live line has it.
    """
    return commit_on(*_locate(lines, commit_id, lines.read(MAIN_BRANCH_ID)))


def _locate(
    lines: ManifestCoordinator, commit_id: str, first: ManifestLine
) -> tuple[ManifestLine, CommitRow]:
    commit = first.commit(commit_id)
    if commit is not None and commit.copied_from is None:
        return first, commit
    for line in lines.live_lines():
        elsewhere = line.commit(commit_id)
        if elsewhere is not None and elsewhere.copied_from is None:
            return line, elsewhere
        commit = commit or elsewhere
    if commit is None:
        raise CommitNotFound(
            f"there is no commit {commit_id!r} on a live branch; list commits to find one",
            graph_commit_id=commit_id,
        )
    return first, commit


def _of_commit(graph: GraphCoordinator, line: ManifestLine, commit_id: str) -> Snapshot:
    held_by, commit = _locate(graph.lines, commit_id, line)
    if commit.copied_from is not None:
        raise SnapshotReclaimed(
            f"commit {commit_id} came from a branch that was deleted after its merge; its data is"
            " gone, its history stays",
            graph_commit_id=commit_id,
        )
    return snapshot_at(graph, held_by, commit)


def _at_number(line: ManifestLine, seq: int, branch: str) -> CommitRow:
    commit = line.commit_at(seq)
    if commit is None:
        raise CommitNotFound(
            f"the branch {branch!r} has no commit with number {seq}; it goes from 0 to"
            f" {line.head.seq}",
            branch=branch,
            seq=seq,
        )
    return commit


def _resolved(graph: GraphCoordinator, text: str) -> Snapshot:
    branch_id, _, commit_id = text.partition("@")
    graph.lines.branch_name(BranchId(branch_id))
    line = graph.lines.read(BranchId(branch_id))
    commit = line.commit(commit_id)
    if commit is None or commit.copied_from is not None:
        raise CommitNotFound(
            f"there is no commit {commit_id!r} on branch {branch_id}", graph_commit_id=commit_id
        )
    return snapshot_at(graph, line, commit)


def _nodes_first(table: SnapshotTable) -> tuple[bool, str]:
    return table.table_key.startswith("edge:"), table.table_key
