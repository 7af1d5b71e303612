"""One state of the graph: the catalog and the table versions of one commit, for good.

Tables are opened when they are first read, at exactly their pins; the newest version of a table is
never read. A version that cleanup has removed is an error, never the nearest other one.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import CommitNotFound, InvalidArgument, ManifestCorrupt, SnapshotReclaimed
from omnigraph.graph.history.commit_graph import commit_on
from omnigraph.graph.history.snapshot_table import SnapshotTable
from omnigraph.graph.history.target_texts import TargetKind, kind_of
from omnigraph.graph.history.targets import locate, require_data, require_target
from omnigraph.graph.manifest.table_refs import pin_of, ref_of
from omnigraph.graph.query.predicate_text import compile_predicate
from omnigraph.graph.type_names import find_type
from omnigraph.ids import MAIN_BRANCH
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow, PinRow, TableRef
    from omnigraph.graph.manifest.schemas import Schemas
    from omnigraph.ids import BranchId
    from omnigraph.lang import Catalog, EdgeType, NodeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage


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
    def graph_branch(self) -> str:
        """The branch that the commit was made on."""
        return self._commit.authored_branch

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
            filter: a condition of the query language on properties and values, as `age > 30` or
                `age is null or name in ["Ada", "Alan"]`.
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


def open_snapshot(
    graph: GraphCoordinator, at: ReadTarget | None, branch: str = MAIN_BRANCH
) -> Snapshot:
    """The snapshot of a read target, or of a branch's head without one.

    Raises:
        BranchNotFound, CommitNotFound: there is no such branch or commit.
        SnapshotReclaimed: the line that holds the commit's data is gone.
    """
    line, commit = locate(graph.lines, at, branch)
    require_data(commit)
    return snapshot_at(graph, line, commit)


def open_target(graph: GraphCoordinator, target: ReadTarget) -> Snapshot:
    """The snapshot that a target names: a branch, which stands for its head, or a commit.

    Raises:
        CommitNotFound: it is neither.
        SnapshotReclaimed: the line that holds the commit's data is gone.
    """
    require_target(target)
    if target in graph.lines.live_branch_ids().values():
        return open_snapshot(graph, None, str(target))
    if not isinstance(target, str) or kind_of(target) in (TargetKind.NUMBER, TargetKind.TIME):
        return open_snapshot(graph, target)
    try:
        return open_snapshot(graph, target)
    except CommitNotFound as error:
        raise CommitNotFound(
            f"there is no branch, no commit and no tag {target!r}; list them to find one",
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


def find_commit(
    lines: ManifestCoordinator, target: ReadTarget, branch: str = MAIN_BRANCH
) -> Commit:
    """The commit that a target names, as callers see it; its data may be gone.

    Raises:
        CommitNotFound: no live line has it.
    """
    require_target(target)
    return commit_on(*locate(lines, target, branch))


def _nodes_first(table: SnapshotTable) -> tuple[bool, str]:
    return table.table_key.startswith("edge:"), table.table_key
