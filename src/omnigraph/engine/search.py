"""Search calls of one query: which entities a text matches, and how far a vector is.

A text query runs over its whole table, asking for rows and scores only, and is joined with the
match; so neither its members nor its scores depend on the other filters. Each call is run once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.engine.caches import KeptText
from omnigraph.engine.union_entities import types_of
from omnigraph.engine.vector_matrix import vectors_in_memory
from omnigraph.graph.arrays import row_ids_of, text_array
from omnigraph.graph.query.fuzzy import fuzzy_matches
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.graph.query.search_values import asked_edits, asked_vector, texts_to_index
from omnigraph.graph.query.topology import ABSENT
from omnigraph.graph.query.vectors import cosine_distances, matrix_distances
from omnigraph.lang import ir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.engine.entities import Entities
    from omnigraph.engine.tables import QueryTable
    from omnigraph.graph.arrays import Floats, Ids, Mask, Numbers, RowIds
    from omnigraph.graph.query.search_values import EmbedQuery


@dataclass(frozen=True, slots=True)
class TextHits:
    """The rows that a text query matches, with their scores."""

    row_ids: RowIds
    scores: Floats
    ids: Ids | None = None
    """The ids of the rows, if the search told them."""


@dataclass(kw_only=True)
class SearchCalls:
    """Runs the search calls of one query, each once."""

    params: Mapping[str, object]
    embed: EmbedQuery
    _hits: dict[tuple[str, str, str, bool], TextHits] = field(default_factory=dict)
    _vectors: dict[tuple[str, str, ir.Param | ir.Lit], Floats | None] = field(default_factory=dict)

    def text_truth(self, call: ir.TextCall, entities: Entities, at: Numbers) -> Mask:
        """For each bound number whether the call is true."""
        types = types_of(entities)
        if types is not None:
            is_true = np.zeros(len(at), bool)
            for part in types.split(at):
                is_true[part.rows] = self.text_truth(call, part.entities, part.at)
            return is_true
        match call:
            case ir.Search() | ir.MatchText():
                return ~np.isnan(self.text_scores(call, entities, at))
            case ir.Fuzzy():
                return self._fuzzy(call, entities, at)
            case _:
                assert_never(call)

    def text_scores(
        self, call: ir.Search | ir.MatchText | ir.Bm25, entities: Entities, at: Numbers
    ) -> Floats:
        """For each bound number the score of its text; NaN where nothing matches."""
        types = types_of(entities)
        if types is not None:
            found = np.full(len(at), np.nan)
            for part in types.split(at):
                found[part.rows] = self.text_scores(call, part.entities, part.at)
            return found
        hits = self.hits(call, entities.table)
        scores = np.full(entities.size, np.nan)
        places = entities.find(hits.row_ids)
        is_here = places != ABSENT
        scores[places[is_here]] = hits.scores[is_here]
        return scores[at]

    def hits(self, call: ir.Search | ir.MatchText | ir.Bm25, table: QueryTable) -> TextHits:
        """Every row of the table that the call matches."""
        text = constant_value(call.query, self.params)
        if text is None:
            return _NO_HITS
        key = _key(table, call, str(text))
        if key not in self._hits:
            is_phrase = isinstance(call, ir.MatchText)
            self._hits[key] = _search(table, call.property, str(text), is_phrase=is_phrase)
        return self._hits[key]

    def remember(
        self, call: ir.Search | ir.MatchText | ir.Bm25, table: QueryTable, hits: TextHits
    ) -> None:
        """Take these for all that the call matches: nobody will ask about other rows."""
        text = str(constant_value(call.query, self.params))
        self._hits[_key(table, call, text)] = hits

    def distances(self, call: ir.Nearest, entities: Entities, at: Numbers) -> Floats:
        """For each bound number the distance of its vector; NaN where it has none."""
        types = types_of(entities)
        if types is not None:
            found = np.full(len(at), np.nan)
            for part in types.split(at):
                found[part.rows] = self.distances(call, part.entities, part.at)
            return found
        query = self.vector(call, entities.table)
        if query is None:
            return np.full(len(at), np.nan)
        held = vectors_in_memory(entities, at, call.property)
        if held is not None:
            matrix, places = held
            return matrix_distances(matrix.vectors[places], query)
        vectors = entities.read([call.property], at)[call.property]
        entities.table.budget.require_bytes(vectors.nbytes, f"the vectors of {call.property}")
        return cosine_distances(vectors, query)

    def vector(self, call: ir.Nearest, table: QueryTable) -> Floats | None:
        """The query vector; a text is embedded, once per request. `None`: the query is null."""
        # Not by the variable: two may ask for one property, and one name may mean two types.
        key = str(table.handle.layout.table_key), call.property, call.query
        if key not in self._vectors:
            self._vectors[key] = asked_vector(call, table.item, self.params, self.embed)
        return self._vectors[key]

    def _fuzzy(self, call: ir.Fuzzy, entities: Entities, at: Numbers) -> Mask:
        text = constant_value(call.query, self.params)
        if text is None:
            return np.zeros(len(at), bool)
        edits = asked_edits(call, self.params)
        texts = text_array(entities.read([call.property], at)[call.property])
        return fuzzy_matches(texts, str(text), edits, entities.table.budget)


def _key(
    table: QueryTable, call: ir.Search | ir.MatchText | ir.Bm25, text: str
) -> tuple[str, str, str, bool]:
    """What two calls must share to match the same rows with the same scores."""
    is_phrase = isinstance(call, ir.MatchText)
    return str(table.handle.layout.table_key), call.property, text, is_phrase


_NO_HITS = TextHits(np.array([], np.uint64), np.array([], np.float64))


def _search(table: QueryTable, name: str, text: str, *, is_phrase: bool) -> TextHits:
    table.budget.check()
    if name in table.handle.layout.text_indexes:
        hits = table.store.search_text(table.handle, name, text, is_phrase=is_phrase)
        row_ids = row_ids_of(hits["row_id"])
    else:
        kept = table.caches.texts.obtain(table.column_key(name), lambda: _copy(table, name))
        hits = kept.text.search(text, is_phrase=is_phrase)
        row_ids = row_ids_of(hits["id"].cast(pa.uint64()))
    return TextHits(row_ids, np.asarray(hits["score"].to_numpy(), np.float64))


def _copy(table: QueryTable, name: str) -> KeptText:
    """The texts of a property without an index, copied and indexed; row ids stand for ids."""
    rows = table.scan([name], with_row_ids=True)
    row_ids, texts = texts_to_index(rows, name)
    # The copy, and an index that is about as large.
    size_bytes = 3 * texts.nbytes
    table.budget.require_bytes(size_bytes, f"a text index of {table.item.name}.{name} in memory")
    return KeptText(text=table.store.ephemeral_text(row_ids, texts), nbytes=size_bytes)
