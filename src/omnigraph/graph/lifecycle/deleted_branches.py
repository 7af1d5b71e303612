"""Removes what Lance keeps for deleted branches, after they are gone for everybody.

Lance reads all branches of a table before it removes one, which takes the longer the more there
are: nobody waits for it but whoever closes the graph. What cannot be removed, or was not when the
process ended, is invisible, and cleanup's.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.ids import BranchId
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import TableLayout

log = logging.getLogger(__name__)


class Reclaimer:
    """Does so for one open graph, one branch after the other, in the order of their deletion."""

    def __init__(self, storage: GraphStorage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._worker: ThreadPoolExecutor | None = None
        self._closed = False

    def reclaim(self, branch_id: BranchId, owned: Sequence[TableLayout]) -> None:
        """Remove the line of a deleted branch and its own lines of tables, soon."""
        with self._lock:
            if self._closed:
                return
            if self._worker is None:
                # One thread: Lance removes no branch that another one was forked from.
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-reclaim")
            self._worker.submit(self._remove, branch_id, owned)

    def close(self) -> None:
        """Begin nothing any more and wait for what was begun; safe twice."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown(wait=True)

    def _remove(self, branch_id: BranchId, owned: Sequence[TableLayout]) -> None:
        try:
            for layout in owned:
                self._remove_fork(layout, branch_id)
            self._storage.manifest.delete_line(branch_id)
        except (OmnigraphError, StorageSignal) as error:
            log.info("line left", extra={"branch_id": branch_id, "cause": str(error)})
        except Exception:  # the end of this thread's work: nobody else would see it
            log.exception("line left", extra={"branch_id": branch_id})

    def _remove_fork(self, layout: TableLayout, branch_id: BranchId) -> None:
        try:
            self._storage.tables.delete_fork(layout, branch_id)
        except (OmnigraphError, StorageSignal) as error:
            log.info("fork left", extra={"table_key": layout.table_key, "cause": str(error)})
