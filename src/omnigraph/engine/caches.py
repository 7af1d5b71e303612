"""The caches that the queries of one open graph share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeAlias

from omnigraph.engine.hot_columns import HotColumns
from omnigraph.engine.runtime_cache import Kept, LruCache
from omnigraph.graph.query.topology import Alignments, GraphIndex, TypeIndex

if TYPE_CHECKING:
    from omnigraph.engine.runtime_cache import TableVersion
    from omnigraph.engine.vector_matrix import VectorMatrix
    from omnigraph.settings.sections import QuerySettings
    from omnigraph.storage.search import TextInMemory

CoverageKey: TypeAlias = "tuple[TableVersion, tuple[tuple[str, int], ...]]"
"""A version, and the names that its properties have."""

Coverage: TypeAlias = "dict[tuple[str, str], float]"

MOST_TOPOLOGIES = 8
MOST_TYPE_INDEXES = 16
MOST_TEXTS = 4
MOST_VECTORS = 4
MOST_COVERAGES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptText:
    """Texts that were copied and indexed in memory."""

    text: TextInMemory
    nbytes: int


@dataclass(kw_only=True)
class EngineCaches:
    """Topologies, numberings of types, columns, texts indexed in memory and vectors, by version."""

    topologies: LruCache[Kept[GraphIndex]]
    types: LruCache[Kept[TypeIndex]]
    texts: LruCache[KeptText]
    vectors: LruCache[VectorMatrix]
    columns: HotColumns
    alignments: Alignments = field(default_factory=Alignments)
    coverage: dict[CoverageKey, Coverage] = field(default_factory=dict)
    """By property and kind of index: the part of the rows that it covers."""

    @classmethod
    def of(cls, settings: QuerySettings) -> Self:
        """Empty caches within the budgets of the settings."""
        size_bytes = settings.topology_cache_bytes
        return cls(
            topologies=LruCache(most_entries=MOST_TOPOLOGIES, most_bytes=size_bytes),
            types=LruCache(most_entries=MOST_TYPE_INDEXES, most_bytes=size_bytes),
            texts=LruCache(most_entries=MOST_TEXTS, most_bytes=settings.memory_bytes),
            vectors=LruCache(most_entries=MOST_VECTORS, most_bytes=size_bytes // 2),
            columns=HotColumns(settings.column_cache_bytes),
        )

    def keep_coverage(self, key: CoverageKey, coverage: Coverage) -> None:
        """Remember what the indexes of a version cover: that never changes."""
        if len(self.coverage) >= MOST_COVERAGES:
            self.coverage.clear()
        self.coverage[key] = coverage

    def clear(self) -> None:
        """Drop everything."""
        self.coverage.clear()
        self.topologies.clear()
        self.types.clear()
        self.texts.clear()
        self.vectors.clear()
        self.columns.clear()
        self.alignments.clear()
