"""Graphs on local folders, and short ways to fill and ask them."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from omnigraph import Graph
from omnigraph.embedding import Embedder
from omnigraph.engine.engine import Engine
from omnigraph.engine.tables import QueryTable, QueryTables
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.lang import EdgeType, NodeType
from omnigraph.settings import Settings, load_settings

Row = Mapping[str, Any]  # Any: a property of any type


class Opened:
    """Opens graphs and closes all of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._opened: list[Graph] = []

    def init(self, schema: str, *, embedder: Embedder | None = None, **env: str) -> Graph:
        """A new graph."""
        path = self._root / f"g{len(self._opened)}"
        graph = Graph.init(path, schema=schema, embedder=embedder, settings=quick(**env))
        self._opened.append(graph)
        return graph

    def copy_of(self, made: Path) -> Graph:
        """A copy of a graph that lies in this folder, is not open and has no branches."""
        path = self._root / f"g{len(self._opened)}"
        graph = Graph.open(shutil.copytree(made, path), settings=quick())
        self._opened.append(graph)
        return graph

    def again(self, graph: Graph, *, embedder: Embedder | None = None, **env: str) -> Graph:
        """One more handle on a graph, with settings of its own."""
        path = self._root / f"g{self._opened.index(graph)}"
        other = Graph.open(path, embedder=embedder, settings=quick(**env))
        self._opened.append(other)
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._opened:
            each.close()


class SteppedClock:
    """A clock that stands still, and jumps by an hour when it is asked for the n-th time."""

    def __init__(self, jumps_at: int | None = None) -> None:
        self.calls = 0
        self._jumps_at = jumps_at

    def now_ms(self) -> int:
        return 0

    def now_us(self) -> int:
        return 0

    def monotonic_us(self) -> int:
        self.calls += 1
        has_jumped = self._jumps_at is not None and self.calls >= self._jumps_at
        return 3_600_000_000 if has_jumped else 0


def engine_at(graph: Graph, clock: SteppedClock) -> Engine:
    """The engine of an open graph, with a clock of its own."""
    return Engine(graph._graph.tables, quick().queries, clock, graph._engine._embedder)


def heat(graph: Graph, *, branch: str = MAIN_BRANCH) -> None:
    """Have every column in memory that may be there."""
    for table, names in node_tables(graph, branch=branch):
        for name in names:
            table.load_hot(name)


def node_tables(
    graph: Graph, *, branch: str = MAIN_BRANCH
) -> Iterator[tuple[QueryTable, list[str]]]:
    """The tables of node types as queries read them, and the names of their properties."""
    snapshot, engine = graph.snapshot(branch=branch), graph._engine
    tables = QueryTables(
        snapshot=snapshot,
        store=graph._graph.tables,
        budget=engine._budget(None, None),
        caches=engine.caches,
    )
    for name, item in snapshot.catalog.node_types.items():
        yield tables.node(name), list(item.properties)


def quick(**env: str) -> Settings:
    """Settings without syncs; variables by their names without the prefix."""
    given = {f"OMNIGRAPH_{name}": value for name, value in env.items()}
    return load_settings({"OMNIGRAPH_DURABILITY": "process"} | given)


def fill(graph: Graph, *, branch: str = MAIN_BRANCH, **rows: Iterable[Row]) -> str:
    """Append rows of some types in one commit; its id."""
    return _write(graph, "append", branch, rows)


def put(graph: Graph, *, branch: str = MAIN_BRANCH, **rows: Iterable[Row]) -> str:
    """Replace or add rows of some types in one commit; its id."""
    return _write(graph, "upsert", branch, rows)


def remove(graph: Graph, *, branch: str = MAIN_BRANCH, **ids: Iterable[str]) -> str:
    """Delete entities of some types in one commit; its id."""
    with graph.write(branch) as writer:
        for name, each in ids.items():
            writer.delete(name, each)
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def _write(graph: Graph, how: str, branch: str, rows: Mapping[str, Iterable[Row]]) -> str:
    with graph.write(branch) as writer:
        for name, each in rows.items():
            getattr(writer, how)(name, arrow(graph, name, each, branch))
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def arrow(graph: Graph, name: str, rows: Iterable[Row], branch: str = MAIN_BRANCH) -> pa.Table:
    """Rows of a type; a keyed node needs no id, an edge gets one from its ends."""
    item = graph.snapshot(branch=branch).type(name)
    fields = [each for each in item.arrow_schema if each.name != "id" or _gives_id(item)]
    listed = [
        {"id": f"{row['src']}-{row['dst']}-{at}", **row}
        if isinstance(item, EdgeType)
        else dict(row)
        for at, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(listed, pa.schema(fields))


def _gives_id(item: NodeType | EdgeType) -> bool:
    return isinstance(item, EdgeType) or item.key is None


def index(graph: Graph, branch: str = MAIN_BRANCH) -> None:
    """Every declared index covers every row."""
    graph.maintenance.ensure_indices(branch=branch)


def compact(graph: Graph, name: str, branch: str = MAIN_BRANCH) -> None:
    """The fragments of a table joined, through the commit protocol."""
    coordinator = graph._graph
    item = graph.snapshot(branch=branch).type(name)
    request = WriteRequest(
        kind=SidecarKind.OPTIMIZE,
        branch=BranchName(branch),
        branch_id=coordinator.branch_id(branch),
    )

    def prepare(txn: WriteTxn) -> PreparedWrite:
        base = txn.writable(ref_of(item))
        staged = txn.store.stage_compaction(base, txn.stamp)
        return PreparedWrite(staged=() if staged.is_noop else (staged,))

    coordinator.protocol.run(request, prepare)


def ask(
    graph: Graph,
    match: str,
    returns: str,
    *,
    params: Mapping[str, object] | None = None,
    declared: str = "",
    tail: str = "",
    branch: str | None = None,
    snapshot: str | None = None,
) -> list[tuple[Any, ...]]:
    """The rows of a query that is put together of its parts."""
    source = f"query q({declared}) {{ match {{ {match} }} return {{ {returns} }} {tail} }}"
    return rows_of(graph.query(source, params=params, branch=branch, snapshot=snapshot).to_arrow())


def first_of(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The first column."""
    return [row[0] for row in rows]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """A table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
