"""The best rows of a text, when scores alone can tell which they are.

A query that orders one scanned type by `bm25`, best first, with a limit, and filters by nothing but
the same text, needs no more rows than the limit and the equals of its last one. The index finds
them while it covers every row; otherwise a limit changes scores, so all hits are asked for and the
best of them are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.entities import Entities
from omnigraph.engine.search import TextHits
from omnigraph.graph.arrays import row_ids_of, text_array
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.lang import ir
from omnigraph.lang.ir import FilterOp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.engine.search import SearchCalls
    from omnigraph.engine.tables import QueryTable, QueryTables


def best_texts(
    query: ir.QueryIR,
    params: Mapping[str, object],
    tables: QueryTables,
    search: SearchCalls,
) -> Bindings | None:
    """The rows that can be in the result; `None` if the whole match is needed."""
    match query.ops, query.order, query.limit:
        case (ir.NodeScan(types=None) as scan,), (ir.Ordering(), *_), int() as limit if limit > 0:
            call = _rank_call(query)
        case _:
            return None
    # A fused rank compares an entity with all others of the match.
    is_fused = any(isinstance(projection.expr, ir.Rrf) for projection in query.returns)
    if call is None or is_fused or not query.order[0].descending:
        return None
    if not all(_is_implied(item, call) for item in scan.filters):
        return None
    table = tables.node(scan.type)
    text = constant_value(call.query, params)
    is_covered = table.coverage().get((call.property, "Inverted"), 0.0) >= 1.0
    has_index = call.property in table.handle.layout.text_indexes
    if not isinstance(text, str) or not has_index or not table.rows:
        return None
    find = _best if is_covered else _best_of_all
    hits = find(table, call.property, text, limit)
    search.remember(call, table, hits)
    entities = Entities(table, len(hits.row_ids), ids=hits.ids, row_ids=hits.row_ids)
    return Bindings(rows=entities.size, columns={scan.var: Bound(entities, entities.everything)})


def _rank_call(query: ir.QueryIR) -> ir.Bm25 | None:
    """The call that the first key ranks by, if it is `bm25`."""
    expr = query.order[0].expr
    if isinstance(expr, ir.Alias):
        name = expr.name
        expr = next(projection.expr for projection in query.returns if projection.name == name)
    return expr if isinstance(expr, ir.Bm25) else None


def _is_implied(item: ir.Condition, call: ir.Bm25) -> bool:
    """Whether every row that has a score passes the filter."""
    match item:
        case ir.Filter(ir.Search(_, name, query), FilterOp.EQ, ir.Lit(value=True)):
            return name == call.property and query == call.query
        case _:
            return False


def _best_of_all(table: QueryTable, name: str, text: str, limit: int) -> TextHits:
    table.budget.check()
    hits = table.store.search_text(table.handle, name, text)
    scores = np.asarray(hits["score"].to_numpy(), np.float64)
    if len(scores) > limit:
        best = scores >= np.partition(scores, -limit)[-limit]
        hits, scores = hits.filter(pa.array(best)), scores[best]
    return TextHits(row_ids_of(hits["row_id"]), scores, text_array(hits["id"]))


def _best(table: QueryTable, name: str, text: str, limit: int) -> TextHits:
    limit = min(limit, table.rows)
    wanted = limit + 8
    while True:
        table.budget.check()
        hits = table.store.search_text(table.handle, name, text, limit=wanted)
        scores = np.asarray(hits["score"].to_numpy(), np.float64)
        best = np.sort(scores)[::-1]
        if len(scores) < wanted or best[-1] < best[limit - 1]:
            ids = text_array(hits["id"])
            return TextHits(row_ids_of(hits["row_id"]), scores, ids)
        wanted = min(4 * wanted, table.rows + 1)
