"""Builds a topology in the background when probing has cost as much as building it would.

A query never waits for it: it probes until the topology is there. So a graph that is walked often
from single nodes gets the fast way, and one that is walked rarely never pays for it.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from omnigraph.engine.traversal import CSR_BUILD_FACTOR
from omnigraph.errors import Cancelled, OmnigraphError
from omnigraph.graph.query.budget import Budget, CancelToken
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.clock import Clock
    from omnigraph.engine.runtime_cache import TableVersion
    from omnigraph.engine.tables import QueryTable

log = logging.getLogger(__name__)

PROBE_COST = 10_000
"""What one probe costs at least, in edges that could have been read for a topology instead."""

MOST_COUNTED = 256


class TopologyWarmer:
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
            if self._token.is_cancelled or spent < CSR_BUILD_FACTOR * edges.rows:
                self._spent[edges.version] = spent
                return
            # Counted anew from here: what is built may be dropped again, or fail to be built.
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-topology")
            self._worker.submit(self._build, edges, tuple(ends))

    def _build(self, edges: QueryTable, ends: Sequence[QueryTable]) -> None:
        budget = Budget(
            clock=self._clock,
            timeout_ms=0,
            max_rows=edges.rows,
            memory_bytes=self._memory_bytes,
            token=self._token,
        )
        try:
            for table in ends:
                table.with_budget(budget).type_index()
            is_same_type = len({table.version for table in ends}) == 1
            edges.with_budget(budget).graph_index(is_same_type=is_same_type)
        except Cancelled:
            return
        except (OmnigraphError, StorageSignal) as error:
            # Nobody waits for it, and whoever needs it builds it and meets the error.
            log.info("topology not built", extra={"edge": edges.item.name, "cause": str(error)})
        except Exception:  # the end of this thread's work: nobody else would see it
            log.exception("topology not built", extra={"edge": edges.item.name})

    def close(self) -> None:
        """End what is being built."""
        self._token.cancel()
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=True, cancel_futures=True)
