"""Builds topologies and loads columns before queries ask for them.

In the background, once doing without has cost a part of it: a query never waits, it probes until
the topology is there, and reads rows until the columns are. So a graph that is asked often gets the
fast way, and one that is asked rarely never pays. Or at once, for who knows what will be asked.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from omnigraph.engine.hot_columns import NUMBERING_COST
from omnigraph.engine.traversal import BYTES_PER_EDGE, CSR_BUILD_FACTOR
from omnigraph.errors import Cancelled, OmnigraphError
from omnigraph.graph.query.budget import Budget, CancelToken
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from omnigraph.clock import Clock
    from omnigraph.engine.runtime_cache import TableVersion
    from omnigraph.engine.tables import QueryTable, QueryTables
    from omnigraph.graph.arrays import Ids
    from omnigraph.graph.query.topology import GraphIndex

log = logging.getLogger(__name__)

PROBE_COST = 10_000
"""What one probe costs at least, in edges that could have been read for a topology instead."""

BYTES_PER_VALUE = 8
"""What a value takes in memory, about."""

BYTES_PER_NODE = 32
"""What numbering a node takes in memory, about; columns are of no use without it."""

PART_OF_BUILDING = 4
"""Building begins once probes have cost one part in so many of it."""

MOST_COUNTED = 256


class Warmer:
    """Counts what probes cost, by table version, and builds in a thread of its own."""

    def __init__(self, clock: Clock, memory_bytes: int) -> None:
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._spent: dict[TableVersion, float] = {}
        self._token = CancelToken()
        self._lock = threading.Lock()
        self._worker: ThreadPoolExecutor | None = None

    def probed(self, edges: QueryTable, ends: Sequence[QueryTable], hops: int, cost: float) -> None:
        """A walk of so many hops was done by probing; `ends` are the node types it joins."""
        with self._lock:
            spent = self._spent.pop(edges.version, 0.0) + max(cost, hops * PROBE_COST)
            while len(self._spent) >= MOST_COUNTED:
                self._spent.pop(next(iter(self._spent)))
            if self._token.is_cancelled or spent * PART_OF_BUILDING < CSR_BUILD_FACTOR * edges.rows:
                self._spent[edges.version] = spent
                return
            # Counted anew from here: what is built may be dropped again, or fail to be built.
            self._submit(self._build, edges, tuple(ends))

    def read(self, table: QueryTable, names: Iterable[str], rows: int) -> None:
        """Some properties of so many rows of a node type were read one by one, or all at once."""
        columns, types = table.caches.columns, table.caches.types
        if table.rows * BYTES_PER_NODE > types.most_bytes or types.is_too_large(table.version):
            return
        is_numbered = types.peek(table.version) is not None
        cost = table.rows * (1.0 if is_numbered else 1.0 + NUMBERING_COST)
        ids = table.handle.layout.property_ids
        due = [
            name
            for name in names
            if name in ids
            and name != table.identity
            and table.item.properties[name].type.is_plain
            and columns.is_due(table.property_key(ids[name]), rows, cost)
        ]
        with self._lock:
            if due and not self._token.is_cancelled:
                self._submit(self._load, table, due)

    def warm(self, tables: QueryTables, items: Sequence[NodeType | EdgeType]) -> None:
        """Number these types, load their columns and build their topologies, within the caches.

        Raises:
            Cancelled: the graph is closed.
        """
        for item in items:
            match item:
                case NodeType():
                    self._warm_nodes(tables.node(item.name))
                case EdgeType():
                    ends = dict.fromkeys((item.from_type, item.to_type))
                    self._warm_edges(tables.edge(item.name), [*map(tables.node, ends)])

    def _warm_nodes(self, table: QueryTable) -> None:
        columns = table.caches.columns
        self._load(table, ())
        for name in table.item.properties:
            # What was loaded first stays: no column is brought in for another that must go.
            if columns.nbytes + table.rows * BYTES_PER_VALUE <= columns.most_bytes:
                self._load(table, [name])

    def _warm_edges(self, edges: QueryTable, ends: Sequence[QueryTable]) -> None:
        caches = edges.caches
        if edges.rows * BYTES_PER_EDGE > caches.topologies.most_bytes:
            return
        self._build(edges, ends)
        index = edges.cached_graph_index()
        numberings = [table.cached_type_index() for table in ends]
        if index is None:
            return
        for numbering, ids in zip((numberings[0], numberings[-1]), _ends(index), strict=True):
            if numbering is not None:
                caches.alignments.between(numbering.ids, ids)
                caches.alignments.between(ids, numbering.ids)

    def _submit(self, work: Callable[..., None], table: QueryTable, *args: object) -> None:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-warming")
        self._worker.submit(self._attempt, work, table, *args)

    def _attempt(self, work: Callable[..., None], table: QueryTable, *args: object) -> None:
        try:
            work(table, *args)
        except Cancelled:
            return
        except (OmnigraphError, StorageSignal) as error:
            # Nobody waits for it, and whoever needs it builds it and meets the error.
            log.info("not warmed", extra={"table": table.item.name, "cause": str(error)})
        except Exception:  # the end of this thread's work: nobody else would see it
            log.exception("not warmed", extra={"table": table.item.name})

    def _build(self, edges: QueryTable, ends: Sequence[QueryTable]) -> None:
        budget = self._budget(edges)
        for table in ends:
            table.with_budget(budget).type_index()
        is_same_type = len({table.version for table in ends}) == 1
        edges.with_budget(budget).graph_index(is_same_type=is_same_type)

    def _load(self, table: QueryTable, names: Sequence[str]) -> None:
        table = table.with_budget(self._budget(table))
        table.type_index()
        for name in names:
            if name != table.identity:
                table.load_hot(name)

    def _budget(self, table: QueryTable) -> Budget:
        return Budget(
            clock=self._clock,
            timeout_ms=0,
            max_rows=table.rows,
            memory_bytes=self._memory_bytes,
            token=self._token,
        )

    def close(self) -> None:
        """End what is being built."""
        self._token.cancel()
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=True, cancel_futures=True)


def _ends(index: GraphIndex) -> tuple[Ids, Ids]:
    """The ids of both ends, once every direction has been made."""
    _ = index.into
    if index.from_ids is index.to_ids:
        _ = index.both
    return index.from_ids, index.to_ids
