"""Compiled queries by source, so that a query that is sent again is not compiled again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import InternalError
from omnigraph.lang import CompiledQuery, QueryIR, compile_query

if TYPE_CHECKING:
    from omnigraph.lang import Catalog

MOST_KEPT = 512

_Key: TypeAlias = tuple[str, str, str | None, bool]


class CompiledQueries:
    """The least recently used are dropped first; safe to share between threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, CompiledQuery] = OrderedDict()
        self._lock = threading.Lock()

    def read_query(
        self, catalog: Catalog, schema_hash: str, source: str, name: str | None
    ) -> tuple[CompiledQuery, QueryIR]:
        """A read query, checked against a schema.

        Raises:
            QueryInvalid, QuerySelectionError: it does not compile, or is no read.
        """
        compiled = self._compiled(catalog, schema_hash, source, name, is_mutation=False)
        if not isinstance(compiled.ir, QueryIR):
            raise InternalError(f"`{compiled.query.name}` was compiled as a read and is none")
        return compiled, compiled.ir

    def mutation(
        self, catalog: Catalog, schema_hash: str, source: str, name: str | None
    ) -> CompiledQuery:
        """A mutation, checked against a schema.

        Raises:
            QueryInvalid, QuerySelectionError: it does not compile, or is no mutation.
        """
        return self._compiled(catalog, schema_hash, source, name, is_mutation=True)

    def _compiled(
        self,
        catalog: Catalog,
        schema_hash: str,
        source: str,
        name: str | None,
        *,
        is_mutation: bool,
    ) -> CompiledQuery:
        key = schema_hash, source, name, is_mutation
        with self._lock:
            compiled = self._kept.get(key)
            if compiled is not None:
                self._kept.move_to_end(key)
        if compiled is None:
            compiled = compile_query(catalog, source, name, expect_mutation=is_mutation)
            with self._lock:
                self._kept[key] = compiled
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return compiled
