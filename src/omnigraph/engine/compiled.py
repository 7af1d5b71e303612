"""Compiled queries by source, so that a query that is sent again is not compiled again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError
from omnigraph.lang import CompiledQuery, QueryIR, compile_query

if TYPE_CHECKING:
    from omnigraph.graph.snapshot import Snapshot

MOST_KEPT = 512


class CompiledQueries:
    """The least recently used are dropped first; safe to share between threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str | None], CompiledQuery] = OrderedDict()
        self._lock = threading.Lock()

    def read_query(
        self, snapshot: Snapshot, source: str, name: str | None
    ) -> tuple[CompiledQuery, QueryIR]:
        """A read query, checked against the schema of the snapshot.

        Raises:
            QueryInvalid, QuerySelectionError: it does not compile, or is no read.
        """
        key = snapshot.schema_hash, source, name
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None:
            found = compile_query(snapshot.catalog, source, name, expect_mutation=False)
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        if not isinstance(found.ir, QueryIR):
            raise InternalError(f"`{found.query.name}` was compiled as a read and is none")
        return found, found.ir
