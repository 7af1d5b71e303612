"""`Engine`: runs the queries of one open graph, each on one snapshot, from many threads.

What writes is imported by the first write.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.engine.caches import EngineCaches
from omnigraph.engine.counts import LARGEST_COUNT
from omnigraph.engine.evaluate import Evaluator
from omnigraph.engine.expand import Expander
from omnigraph.engine.first_rows import first_rows, in_order_of_ids
from omnigraph.engine.match import Matcher
from omnigraph.engine.nearest import is_exact
from omnigraph.engine.projection import Projector
from omnigraph.engine.scan import Scanner
from omnigraph.engine.search import SearchCalls
from omnigraph.engine.streamed_groups import grouped_scan
from omnigraph.engine.tables import QueryTables
from omnigraph.engine.top_texts import best_texts
from omnigraph.engine.warming import Warmer
from omnigraph.errors import InvalidArgument
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.query.budget import Budget
from omnigraph.graph.query.call_scope import call_token
from omnigraph.graph.query.compiled import CompiledQueries
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang import bind_params, ir
from omnigraph.lang.query_ast import NOW_PARAM
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from omnigraph.clock import Clock
    from omnigraph.engine.bindings import Bindings
    from omnigraph.engine.match import Observer
    from omnigraph.engine.tables import QueryTable
    from omnigraph.engine.writes.loads import LoadInput
    from omnigraph.engine.writes.mutations import MutationRequest
    from omnigraph.graph.arrays import Numbers
    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.protocol import CommitProtocol
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.query.budget import CancelToken
    from omnigraph.graph.query.compiled import ReadQuery
    from omnigraph.graph.query.needs import Needs
    from omnigraph.graph.query.query_vectors import QueryEmbedder
    from omnigraph.graph.query.target import QueryTarget
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.ids import IdSource
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.settings.sections import QuerySettings
    from omnigraph.storage.table_storage import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """One read query: what is asked, of which state of the graph, and within which time."""

    source: str
    name: str | None = None
    params: Mapping[str, object] | None = None
    snapshot: Snapshot
    target: QueryTarget
    timeout_s: float | None = None
    """`None`: as the settings say; 0: no limit."""
    token: CancelToken | None = None


class Engine:
    """Runs queries; owns what they keep between them."""

    def __init__(
        self,
        store: TableStorage,
        settings: QuerySettings,
        clock: Clock,
        embedder: QueryEmbedder,
        *,
        external_blobs: ExternalBlobs = DENY_ALL,
    ) -> None:
        self._store = store
        self.settings = settings
        self.external_blobs = external_blobs
        self._clock = clock
        self._embedder = embedder
        self.given_embedder = embedder.given
        """What was handed in instead of the settings' own."""
        self.caches = EngineCaches.of(settings)
        self._warmer = Warmer(clock, settings.topology_cache_bytes)
        self._compiled = CompiledQueries()
        self._is_closed = False

    def query(self, request: QueryRequest) -> QueryResult:
        """The result of a read query."""
        query = self.compile(request)
        return QueryResult(
            self.prepare(request, query).result(),
            query.ir.result_schema,
            query_name=query.name,
            target=request.target,
            graph_commit_id=request.snapshot.graph_commit_id,
        )

    def compile(self, request: QueryRequest) -> ReadQuery:
        """The query of a request, compiled against the schema of its snapshot."""
        self._require_open()
        snapshot = request.snapshot
        return self._compiled.read_query(
            snapshot.catalog, snapshot.schema_hash, request.source, request.name
        )

    def prepare(
        self, request: QueryRequest, query: ReadQuery, observer: Observer | None = None
    ) -> QueryRun:
        """A run that has read nothing yet; parameters are bound."""
        return self._run(request, query, bind_params(request.params, query.ir.params), observer)

    def plan_only(self, request: QueryRequest, query: ReadQuery) -> QueryRun:
        """A run that is only looked at: parameters that were given are checked, others may miss."""
        names = {str(name).removeprefix("$") for name in request.params or ()}
        params = query.ir.params
        declared = [param for param in params if param.name in names]
        unknown = names - {param.name for param in params}
        values = bind_params(request.params, params if unknown else declared)
        return self._run(request, query, values, None)

    def _run(
        self,
        request: QueryRequest,
        query: ReadQuery,
        values: Mapping[str, object],
        observer: Observer | None,
    ) -> QueryRun:
        bound = query.bound(values)
        params = {**values, NOW_PARAM: self._clock.now_ms()}
        budget = self._budget(request.timeout_s, request.token)
        tables = QueryTables(
            snapshot=request.snapshot,
            store=self._store,
            budget=budget,
            caches=self.caches,
            warmer=self._warmer,
        )
        return QueryRun(
            query=bound,
            schema=query.schema,
            params=params,
            tables=tables,
            needs=query.needs,
            leading=in_order_of_ids(bound),
            settings=self.settings,
            embedder=self._embedder,
            warmer=self._warmer,
            observer=observer,
        )

    def warm(self, snapshot: Snapshot, types: Iterable[str] | None) -> None:
        """Have in memory what queries of these types read: all of them without names.

        Raises:
            InvalidArgument: there is no such type.
            SnapshotReclaimed: cleanup removed files while they were read.
        """
        self._require_open()
        items: list[NodeType | EdgeType]
        if types is None:
            catalog = snapshot.catalog
            items = [*catalog.node_types.values(), *catalog.edge_types.values()]
        else:
            items = [snapshot.type(name) for name in types]
        tables = QueryTables(
            snapshot=snapshot, store=self._store, budget=self._budget(0, None), caches=self.caches
        )
        try:
            self._warmer.warm(tables, items)
        except ObjectMissing as error:
            raise reclaimed(snapshot) from error

    def mutate(
        self,
        protocol: CommitProtocol,
        ids: IdSource,
        request: MutationRequest,
        timeout_s: float | None,
    ) -> MutationResult:
        """Run a mutation as one commit; a time limit ends it only before its first effect."""
        from omnigraph.engine.writes.mutations import MutationRun
        from omnigraph.graph.blobs.blob_values import BlobBudget
        from omnigraph.graph.load.vector_filling import VectorFiller

        self._require_open()
        return MutationRun(
            protocol=protocol,
            ids=ids,
            compiled=self._compiled,
            filler=VectorFiller(open_embedder=self._embedder.open),
            request=request,
            budget=self._budget(timeout_s, None),
            now_ms=self._clock.now_ms(),
            blobs=BlobBudget(self.external_blobs),
        ).result()

    def load(
        self,
        graph: GraphCoordinator,
        given: LoadInput,
        request: LoadRequest,
        *,
        progress: Progress | None = None,
    ) -> JobReport:
        """Load an input as one commit, or only check it."""
        from omnigraph.engine.writes.loads import LocalLoad
        from omnigraph.graph.blobs.blob_values import BlobBudget
        from omnigraph.graph.jobs.stages import JobStages
        from omnigraph.graph.load.flow import LoadFlow
        from omnigraph.graph.load.vector_filling import VectorFiller

        self._require_open()
        stages = JobStages(graph.clock, progress)
        steps = LocalLoad(
            input=given,
            request=request,
            stages=stages,
            ids=graph.ids,
            blobs=BlobBudget(self.external_blobs),
            filler=VectorFiller(open_embedder=self._embedder.open, fills_nullable=request.embed),
        )
        most = given.max_violations
        return LoadFlow(graph, request, steps, stages, max_violations=most).run()

    def _require_open(self) -> None:
        if self._is_closed:
            raise InvalidArgument("this graph is closed; open it again")

    def now_ms(self) -> int:
        """The moment that `now()` means."""
        return self._clock.now_ms()

    def timeout_ms(self, timeout_s: float | None) -> int:
        """How long a request may take that names this time; 0 is no limit."""
        self._require_open()
        return self.settings.timeout_ms if timeout_s is None else _timeout_ms(timeout_s)

    def _budget(self, timeout_s: float | None, token: CancelToken | None) -> Budget:
        return Budget(
            clock=self._clock,
            timeout_ms=self.timeout_ms(timeout_s),
            max_rows=self.settings.max_binding_rows,
            memory_bytes=self.settings.memory_bytes,
            token=token or call_token(),
        )

    def close(self) -> None:
        """Drop what was kept, and end what is being built; nothing runs after it."""
        self._is_closed = True
        self._warmer.close()
        self.caches.clear()
        self._embedder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRun:
    """One run of one query."""

    query: ir.QueryIR
    schema: pa.Schema
    params: Mapping[str, object]
    tables: QueryTables
    needs: Needs
    leading: tuple[ir.Op, ...] | None
    """The operators by which the first rows are matched before others, if that pays."""
    settings: QuerySettings
    embedder: QueryEmbedder
    warmer: Warmer
    observer: Observer | None = None

    @property
    def read(self) -> frozenset[str] | None:
        """The variables whose rows matter by more than their number; `None` if every row does."""
        return self.needs.returned if self.needs.is_aggregate else None

    def result(self) -> pa.Table:
        """The rows of the result.

        Raises:
            SnapshotReclaimed: cleanup removed files while they were read.
        """
        try:
            rows = self._result(self._cut())
            return rows.slice(self.query.offset) if self.query.offset else rows
        except ObjectMissing as error:
            raise reclaimed(self.tables.snapshot) from error

    def _cut(self) -> ir.QueryIR:
        """The query that gives the rows up to the limit, those that are skipped included."""
        limit, offset = self.query.limit, self.query.offset
        if not limit or not offset:
            return self.query
        return replace(self.query, limit=min(limit + offset, LARGEST_COUNT))

    def _result(self, query: ir.QueryIR) -> pa.Table:
        budget = self.tables.budget
        search = SearchCalls(params=self.params, embed=self.embedder.embed)

        def count(block: ir.CountOf, rows: Bindings) -> Numbers:
            return matcher.count(block, rows)

        evaluator = Evaluator(
            params=self.params, search=search, settings=self.settings, budget=budget, count=count
        )
        matcher = Matcher(
            scanner=Scanner(
                tables=self.tables,
                evaluator=evaluator,
                params=self.params,
                needs=self.needs,
                reads_at_once=self._read_at_once(),
            ),
            expander=Expander(
                tables=self.tables,
                evaluator=evaluator,
                settings=self.settings,
                budget=budget,
                needs=self.needs,
                warmer=self.warmer,
            ),
            evaluator=evaluator,
            budget=budget,
            observer=self.observer,
        )
        projector = Projector(query=query, schema=self.schema, evaluator=evaluator, budget=budget)
        if query.limit == 0:
            return projector.schema.empty_table()
        if self.needs.is_aggregate:
            streamed = grouped_scan(query, self.params, self.tables)
            if streamed is not None:
                return projector.streamed(streamed.columns())
        bindings = best_texts(query, self.params, self.tables, search)
        if bindings is None:
            if self.leading is None or query.limit is None:
                bindings = matcher.run(query.ops, read=self.read)
            else:
                bindings = first_rows(self.leading, query.limit, matcher)
        if self.needs.is_aggregate:
            return projector.groups(bindings)
        return projector.rows(bindings)

    def is_exact(self, call: ir.Nearest, table: QueryTable) -> bool:
        """Whether distances of a call are computed for every candidate."""
        return is_exact(call, table, table.rows, self.settings)

    def _read_at_once(self) -> frozenset[str]:
        match self.query.ops:
            case (ir.NodeScan(var),) if self.needs.is_aggregate or self.query.limit is None:
                return frozenset((var,))
            case _:
                return frozenset()


def _timeout_ms(timeout_s: float) -> int:
    """A time in whole milliseconds, upwards: only zero means that there is no limit."""
    if not isinstance(timeout_s, int | float) or not 0 <= timeout_s < math.inf:
        raise InvalidArgument(
            f"timeout_s is a number of seconds, 0 for no limit, not {timeout_s!r}",
            argument="timeout_s",
        )
    return math.ceil(timeout_s * 1_000)
