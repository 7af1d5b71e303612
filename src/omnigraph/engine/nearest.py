"""Which entities of a match are nearest to a query vector.

Exact, unless there are very many vectors and an index: then the index gives the nearest of the
whole table, more and more of them until enough belong to the match. Whoever is among the first gets
its exact distance, and equal distances are all among them, so the order does not depend on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.engine.entities import distinct
from omnigraph.engine.vector_matrix import vectors_in_memory
from omnigraph.graph.arrays import row_ids_of
from omnigraph.graph.query.topology import ABSENT
from omnigraph.graph.query.vectors import approximate_distances

if TYPE_CHECKING:
    from omnigraph.engine.bindings import Bound
    from omnigraph.engine.search import SearchCalls
    from omnigraph.engine.tables import QueryTable
    from omnigraph.graph.arrays import Floats, Numbers
    from omnigraph.lang import ir
    from omnigraph.settings.sections import QuerySettings

MANY_TIMES = 4
"""With fewer candidates than this many times the limit nothing is ruled out first."""

MOST_OF_TABLE = 16
"""When an index was asked for more than one row in this many, all distances are computed."""


@dataclass(frozen=True, slots=True)
class Near:
    """Entities of a match that may be among the nearest, and their distances."""

    used: Numbers
    distances: Floats


def is_exact(call: ir.Nearest, table: QueryTable, candidates: int, settings: QuerySettings) -> bool:
    """Whether the distance of every candidate is computed."""
    dimension = table.item.properties[call.property].type.vector_dim or 1
    if candidates * dimension <= settings.nearest_exact_values:
        return True
    return not table.coverage().get((call.property, "IVF_FLAT"))


def find_nearest(
    call: ir.Nearest, bound: Bound, limit: int, search: SearchCalls, settings: QuerySettings
) -> Near:
    """The entities of a match that are nearest: at least `limit`, and all equals of the last."""
    entities, table = bound.entities, bound.entities.table
    used, _ = distinct(bound.at, entities)
    query = search.vector(call, table)
    if query is None:
        return Near(used[:0], np.zeros(0))
    if not is_exact(call, table, len(used), settings):
        near = _by_index(call, bound, used, limit, query, search)
        if near is not None:
            return near
    used = _likely(call, bound, used, limit, query)
    distances = search.distances(call, entities, used)
    return _nearest(Near(used, distances), limit)


def _nearest(near: Near, limit: int) -> Near:
    has = ~np.isnan(near.distances)
    used, distances = near.used[has], near.distances[has]
    if len(used) > limit:
        last = np.partition(distances, limit - 1)[limit - 1]
        keep = distances <= last
        used, distances = used[keep], distances[keep]
    return Near(used, distances)


def _likely(call: ir.Nearest, bound: Bound, used: Numbers, limit: int, query: Floats) -> Numbers:
    """Of many candidates those that single precision does not rule out."""
    held = vectors_in_memory(bound.entities, used, call.property)
    if held is None or len(used) <= MANY_TIMES * limit:
        return used
    matrix, at = held
    is_all = len(at) == len(matrix.vectors)
    rough = approximate_distances(
        matrix.vectors if is_all else matrix.vectors[at],
        matrix.scales if is_all else matrix.scales[at],
        query,
    )
    dimension = len(query)
    has = ~np.isnan(matrix.scales if is_all else matrix.scales[at])
    if int(has.sum()) <= limit:
        return used[has]
    # A vector so short that single precision cannot tell its direction rules nothing out.
    is_sure = np.isfinite(rough)
    last = np.partition(np.where(has & is_sure, rough, np.inf), limit - 1)[limit - 1]
    # Twice what rounding may do to a product of so many parts: once to each side.
    slack = 2.0 * (dimension + 8) * np.finfo(np.float32).eps
    likely: Numbers = used[has & (~is_sure | (rough <= last + 2.0 * slack))]
    return likely


def _by_index(
    call: ir.Nearest,
    bound: Bound,
    used: Numbers,
    limit: int,
    query: Floats,
    search: SearchCalls,
) -> Near | None:
    """By the vector index; `None` when it had to be asked for too much of the table."""
    entities, table = bound.entities, bound.entities.table
    is_used = np.zeros(entities.size, bool)
    is_used[used] = True
    wanted = 2 * limit + 16
    while wanted * MOST_OF_TABLE <= table.rows:
        table.budget.check()
        hits = table.store.search_vector(
            table.handle, call.property, query.tolist(), wanted, is_exact=False
        )
        rough = hits["distance"].to_numpy()
        places = entities.find(row_ids_of(hits["row_id"]))
        here = places != ABSENT
        here[here] = is_used[places[here]]
        near = Near(places[here], search.distances(call, entities, places[here]))
        if len(rough) < wanted:
            return _nearest(near, limit)
        if here.sum() >= limit:
            last = np.sort(rough[here])[limit - 1]
            if rough[-1] > last:
                return _nearest(near, limit)
        wanted *= 4
    return None
