"""Compiled queries by source: what follows from a text and a schema is found out once.

Neither parameters nor rows are looked at here, so what is kept serves every call and snapshot.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.graph.query.needs import analyse_needs
from omnigraph.lang import CompiledQuery, QueryIR, compile_query
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.lang.ir_counts import bind_counts, has_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.query.needs import Needs
    from omnigraph.lang import Catalog

MOST_KEPT = 512

_Key: TypeAlias = tuple[str, str, str | None]
_Compiled = TypeVar("_Compiled")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuery:
    """A read query, and everything that depends on its text and the schema alone."""

    name: str
    ir: QueryIR
    needs: Needs
    schema: pa.Schema
    """What its result promises."""

    has_counts: bool
    """Whether parameters may give a limit, an offset or a bound of a walk."""

    @classmethod
    def of(cls, compiled: CompiledQuery) -> Self:
        """What is prepared of a compiled query.

        Raises:
            InternalError: it is no read.
        """
        query, name = compiled.ir, compiled.query.name
        if not isinstance(query, QueryIR):
            raise InternalError(f"`{name}` was compiled as a read and is none")
        return cls(
            name=name,
            ir=query,
            needs=analyse_needs(query),
            schema=pa.schema([arrow_field(item.name, item.type) for item in query.result_schema]),
            has_counts=has_counts(query),
        )

    def bound(self, values: Mapping[str, object]) -> QueryIR:
        """The query with the counts that parameters give.

        Raises:
            ParameterError: a value is no such count.
        """
        return bind_counts(self.ir, values) if self.has_counts else self.ir


class _Recent(Generic[_Compiled]):
    """The least recently used are dropped first; safe to share between threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Compiled] = OrderedDict()
        self._lock = threading.Lock()

    def obtain(self, key: _Key, compiled: Callable[[], _Compiled]) -> _Compiled:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        made = compiled()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made


class CompiledQueries:
    """Reads and mutations by schema, source and name; safe to share between threads."""

    def __init__(self) -> None:
        self._reads: _Recent[ReadQuery] = _Recent()
        self._mutations: _Recent[CompiledQuery] = _Recent()

    def read_query(
        self, catalog: Catalog, schema_hash: str, source: str, name: str | None
    ) -> ReadQuery:
        """A read query, checked against a schema.

        Raises:
            QueryInvalid, QuerySelectionError: it does not compile, or is no read.
        """

        def compiled() -> ReadQuery:
            return ReadQuery.of(compile_query(catalog, source, name, expect_mutation=False))

        return self._reads.obtain((schema_hash, source, name), compiled)

    def mutation(
        self, catalog: Catalog, schema_hash: str, source: str, name: str | None
    ) -> CompiledQuery:
        """A mutation, checked against a schema.

        Raises:
            QueryInvalid, QuerySelectionError: it does not compile, or is no mutation.
        """

        def compiled() -> CompiledQuery:
            return compile_query(catalog, source, name, expect_mutation=True)

        return self._mutations.obtain((schema_hash, source, name), compiled)
