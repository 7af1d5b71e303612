"""Who executes a script: the seam behind which further executors are put without touching a file.

An executor opens a graph; the open graph takes the steps. It raises `OmnigraphError` for what the
graph refuses, with code, message and details as every front end gives them. What it answers is
plain: names and types of columns, and rows of Python values.
"""

import atexit
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol
from unittest.mock import patch

import pyarrow as pa
from tests.serving import serving
from tests.unit.engine.graphs import heat

from omnigraph import Graph, connect
from omnigraph.client import RemoteGraph
from omnigraph.engine import streamed_groups
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.ids import BranchName
from omnigraph.pipeline.spark.session import PipelineSession, open_session
from omnigraph.settings import load_settings

Lane = Literal["auto", "local", "spark"]
LoadMode = Literal["append", "merge", "overwrite"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer; the type as a schema spells it, `I32?` or `Vector(3)`."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a mutation did."""

    nodes: int
    edges: int
    has_commit: bool
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge did."""

    outcome: str
    has_commit: bool


class OpenGraph(Protocol):
    """One graph that the steps of a script read and write."""

    def query(
        self, source: str, params: Mapping[str, object], *, branch: str, commit: str | None
    ) -> Answer:
        """The rows at the head of the branch, or at a commit."""

    def mutate(self, source: str, params: Mapping[str, object], *, branch: str) -> Receipt:
        """Run a mutation."""

    def load(self, lines: bytes, *, mode: LoadMode, branch: str) -> None:
        """Load lines of the graph format."""

    def head(self, branch: str) -> str:
        """The commit at which a branch stands."""

    def create_branch(self, name: str, origin: str) -> None:
        """Fork a branch."""

    def delete_branch(self, name: str) -> None:
        """Delete a branch."""

    def merge(self, source: str, target: str, *, strategy: str) -> Merged:
        """Merge a branch into another."""

    def build_indexes(self, branch: str) -> None:
        """Make every declared index cover every row."""

    def compact(self, type_name: str, branch: str) -> None:
        """Join the fragments of a table."""


class Executor(Protocol):
    """Opens graphs."""

    @property
    def name(self) -> str:
        """What the tests of this executor are called by."""

    def plays(self, path: Path) -> bool:
        """Whether a script has anything to tell about this executor."""

    def is_extended(self, path: Path) -> bool:
        """Whether a script takes longer here than the default suite has time for."""

    def open(
        self, folder: Path, schema: str, settings: Mapping[str, str]
    ) -> AbstractContextManager[OpenGraph]:
        """A new graph in an empty folder, closed at the end; settings are environment variables."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """The engine of this process, with one way to walk edges.

    With `is_streaming` it groups every scan as it does those of large tables, and plays the scripts
    about groups alone. With `column_bytes` columns are loaded before every query: all of them, or
    those that there is room for.
    """

    name: str
    traversal_mode: str
    is_streaming: bool = False
    column_bytes: int = 0

    def plays(self, path: Path) -> bool:
        """As the protocol has it."""
        return not self.is_streaming or path.name.startswith("aggregates")

    def is_extended(self, path: Path) -> bool:  # noqa: ARG002 - scripts say it themselves
        """As the protocol has it."""
        return self.name == "evicting"

    @contextmanager
    def open(
        self, folder: Path, schema: str, settings: Mapping[str, str]
    ) -> Iterator["PlayedGraph"]:
        """As the protocol has it."""
        environ = {
            "OMNIGRAPH_DURABILITY": "process",
            "OMNIGRAPH_TRAVERSAL_MODE": self.traversal_mode,
            "OMNIGRAPH_COLUMN_CACHE_BYTES": str(self.column_bytes),
            **settings,
        }
        large = 0 if self.is_streaming else streamed_groups.LARGE_SCAN
        with (
            patch.object(streamed_groups, "LARGE_SCAN", large),
            Graph.init(folder, schema=schema, settings=load_settings(environ)) as graph,
        ):
            yield PlayedGraph(graph, graph, executor="local", heats=self.column_bytes > 0)


@dataclass(frozen=True, slots=True)
class Served:
    """A server on a socket, asked through the client; maintenance is done beside it."""

    name: str = "http"

    def plays(self, path: Path) -> bool:  # noqa: ARG002 - all of them
        """As the protocol has it."""
        return True

    def is_extended(self, path: Path) -> bool:
        """As the protocol has it."""
        return path.name not in _QUICK_OVER_HTTP

    @contextmanager
    def open(
        self, folder: Path, schema: str, settings: Mapping[str, str]
    ) -> Iterator["PlayedGraph"]:
        """As the protocol has it."""
        known = load_settings({"OMNIGRAPH_DURABILITY": "process", **settings})
        with (
            Graph.init(folder, schema=schema, settings=known) as beside,
            serving({"script": folder}, settings=known) as live,
            connect(live.url, graph="script") as graph,
        ):
            yield PlayedGraph(graph, beside)


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Reads on one session of Spark, which every script shares; all else in this process."""

    name: str = "spark"

    def plays(self, path: Path) -> bool:
        """All but those about products that it would build row by row."""
        return path.name not in _NOT_ON_SPARK

    def is_extended(self, path: Path) -> bool:
        """As the protocol has it."""
        return path.name not in _QUICK_ON_SPARK

    def is_slow(self, path: Path) -> bool:
        """Whether a script asks so many queries that only the full products have time for it."""
        return self.is_extended(path) and path.name not in _SOME_ON_SPARK

    @contextmanager
    def open(
        self, folder: Path, schema: str, settings: Mapping[str, str]
    ) -> Iterator["PlayedGraph"]:
        """As the protocol has it."""
        environ = {"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_QUERY_TIMEOUT_MS": "0", **settings}
        with Graph.init(folder, schema=schema, settings=load_settings(environ)) as graph:
            yield PlayedGraph(graph, graph, executor="spark")


@cache
def _shared_session() -> PipelineSession:
    """The session of every script, stopped when the process ends."""
    from tests.spark.conftest import ENVIRON

    session = open_session(load_settings(ENVIRON), command="scripts")
    atexit.register(session.close)
    return session


_NOT_ON_SPARK = ("aggregates_of_products.test",)
_QUICK_ON_SPARK = ("result_types.test", "zeros.test")
_SOME_ON_SPARK = ("conditions.test", "distinct.test", "optional.test", "corner_cases.test")
_QUICK_OVER_HTTP = ("mutations.test", "result_types.test")

EXECUTORS: tuple[Executor, ...] = (
    InProcess("csr", "csr", column_bytes=1_000_000),
    InProcess("indexed", "indexed"),
    InProcess("streamed", "csr", is_streaming=True),
    InProcess("evicting", "csr", column_bytes=200),
    Served(),
    OnSpark(),
)


class PlayedGraph:
    """A graph, open here or behind a server, and a handle on its storage for maintenance."""

    def __init__(
        self,
        graph: Graph | RemoteGraph,
        beside: Graph,
        executor: Lane = "auto",
        *,
        heats: bool = False,
    ) -> None:
        self._heats = heats
        self._graph = graph
        self._beside = beside
        self._executor: Lane = executor

    def query(
        self, source: str, params: Mapping[str, object], *, branch: str, commit: str | None
    ) -> Answer:
        """As the protocol has it."""
        if self._executor == "spark":
            _shared_session()  # The first query starts it, and every later one finds it.
        if self._heats:
            heat(self._beside, branch=branch)
        where = {"branch": branch} if commit is None else {"snapshot": commit}
        table = self._graph.query(
            source,
            params=params,
            executor=self._executor,
            **where,  # type: ignore[arg-type]  # one of two texts
        ).to_arrow()
        columns = [Column(each.name, type_text(each)) for each in table.schema]
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return Answer(columns, list(rows))

    def mutate(self, source: str, params: Mapping[str, object], *, branch: str) -> Receipt:
        """As the protocol has it."""
        result = self._graph.mutate(source, params=params, branch=branch)
        return Receipt(
            nodes=result.affected_nodes,
            edges=result.affected_edges,
            has_commit=result.commit is not None,
            warnings=result.warnings,
        )

    def load(self, lines: bytes, *, mode: LoadMode, branch: str) -> None:
        """As the protocol has it."""
        self._graph.load(lines, mode=mode, branch=branch, engine="local")

    def head(self, branch: str) -> str:
        """As the protocol has it."""
        return self._graph.snapshot(branch=branch).graph_commit_id

    def create_branch(self, name: str, origin: str) -> None:
        """As the protocol has it."""
        self._graph.branches.create(name, from_=origin)

    def delete_branch(self, name: str) -> None:
        """As the protocol has it."""
        self._graph.branches.delete(name)

    def merge(self, source: str, target: str, *, strategy: str) -> Merged:
        """As the protocol has it."""
        result = self._graph.branches.merge(source, into=target, strategy=strategy)
        return Merged(outcome=result.outcome.value, has_commit=result.commit is not None)

    def build_indexes(self, branch: str) -> None:
        """As the protocol has it."""
        self._beside.maintenance.ensure_indices(branch=branch)

    def compact(self, type_name: str, branch: str) -> None:
        """Through the commit protocol: the public interface has no compaction yet."""
        coordinator = self._beside._graph
        item = self._beside.snapshot(branch=branch).type(type_name)

        def prepare(txn: WriteTxn) -> PreparedWrite:
            staged = txn.store.stage_compaction(txn.writable(ref_of(item)), txn.stamp)
            return PreparedWrite(staged=() if staged.is_noop else (staged,))

        request = WriteRequest(
            kind=SidecarKind.OPTIMIZE,
            branch=BranchName(branch),
            branch_id=coordinator.branch_id(branch),
        )
        coordinator.protocol.run(request, prepare)


_TYPES: dict[pa.DataType, str] = {
    pa.string(): "String",
    pa.bool_(): "Bool",
    pa.int32(): "I32",
    pa.int64(): "I64",
    pa.uint32(): "U32",
    pa.uint64(): "U64",
    pa.float32(): "F32",
    pa.float64(): "F64",
    pa.date32(): "Date",
    pa.timestamp("ms", tz="UTC"): "DateTime",
}


def type_text(field: "pa.Field[pa.DataType]") -> str:
    """The type of a field as a schema spells it."""
    return _type_name(field.type) + ("?" if field.nullable else "")


def _type_name(kind: pa.DataType) -> str:
    if isinstance(kind, pa.FixedSizeListType):
        return f"Vector({kind.list_size})"
    if isinstance(kind, pa.ListType):
        return f"[{_type_name(kind.value_type)}]"
    return _TYPES[kind]
