"""Rank orders: the match is evaluated first, then its rows are scored; nothing starves a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.engine.bindings import Bindings, Bound
from omnigraph.engine.entities import distinct
from omnigraph.engine.nearest import find_nearest
from omnigraph.engine.order import SortKey
from omnigraph.engine.union_entities import types_of
from omnigraph.graph.query.search_values import asked_k
from omnigraph.lang import ir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.engine.evaluate import Evaluator
    from omnigraph.graph.arrays import Floats, Mask, Numbers


@dataclass(frozen=True, slots=True)
class Ranked:
    """The rows of a match that have a score, and the keys that order them best first."""

    is_scored: Mask
    keys: tuple[SortKey, ...]
    """For the rows that are scored."""


def rank_rows(
    expr: ir.Nearest | ir.Bm25 | ir.Rrf,
    bindings: Bindings,
    evaluator: Evaluator,
    *,
    is_descending: bool,
    limit: int | None,
) -> Ranked:
    """How a rank call orders the rows of a match; rows without a score are not among them."""
    if isinstance(expr, ir.Rrf):
        fused = fuse(expr, bindings, evaluator, limit)
        is_scored = fused.is_ranked[fused.inverse]
        kept = fused.inverse[is_scored]
        entities = bindings.columns[expr.first.var].entities
        return Ranked(
            is_scored,
            (
                SortKey(fused.scores[kept], is_descending),
                SortKey(fused.first_positions[kept]),
                SortKey(entities.rank(fused.used)[kept]),
            ),
        )
    if isinstance(expr, ir.Nearest) and limit is not None:
        return _rank_nearest(expr, bindings.columns[expr.var], evaluator, limit)
    scores = evaluator.scores(expr, bindings)
    is_scored = ~np.isnan(scores)
    return Ranked(is_scored, (SortKey(scores[is_scored], is_descending),))


def _rank_nearest(expr: ir.Nearest, bound: Bound, evaluator: Evaluator, limit: int) -> Ranked:
    """Each entity has a row at least, so the nearest entities hold the first rows."""
    distances = np.full(bound.entities.size, np.nan)
    for part, first in _by_type(bound):
        near = find_nearest(expr, part, limit, evaluator.search, evaluator.settings)
        distances[first + near.used] = near.distances
    of_rows = distances[bound.at]
    is_scored = ~np.isnan(of_rows)
    return Ranked(is_scored, (SortKey(of_rows[is_scored]),))


def _by_type(bound: Bound) -> Iterator[tuple[Bound, int]]:
    """What is bound of each type, and the number of the first entity of it."""
    types = types_of(bound.entities)
    if types is None:
        yield bound, 0
        return
    for part in types.split(bound.at):
        yield Bound(part.entities, part.at), part.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Scores of the distinct entities of a match, and the way from its rows to them."""

    used: Numbers
    inverse: Numbers
    scores: Floats
    first_positions: Numbers
    is_ranked: Mask


def fuse(expr: ir.Rrf, bindings: Bindings, evaluator: Evaluator, limit: int | None) -> Fused:
    """Reciprocal rank fusion of two rankings of one variable."""
    k = asked_k(expr, evaluator.params)
    bound = bindings.columns[expr.first.var]
    used, inverse = distinct(bound.at, bound.entities)
    narrow = Bindings(rows=len(used), columns={expr.first.var: Bound(bound.entities, used)})
    ids = bound.entities.rank(used)
    arms = [_positions(arm, narrow, ids, evaluator, limit) for arm in (expr.first, expr.second)]
    scores = np.zeros(len(used))
    for places in arms:
        scores += np.where(places == _UNRANKED, 0.0, 1.0 / (k + places.astype(np.float64)))
    return Fused(
        used=used,
        inverse=inverse,
        scores=scores,
        first_positions=arms[0],
        is_ranked=np.logical_or(*(places != _UNRANKED for places in arms)),
    )


_UNRANKED = np.iinfo(np.int64).max


def _positions(
    arm: ir.Nearest | ir.Bm25,
    entities: Bindings,
    ids: Numbers,
    evaluator: Evaluator,
    limit: int | None,
) -> Numbers:
    """The place of each entity in an arm, from 1 on."""
    scores = evaluator.scores(arm, entities)
    order = np.lexsort((ids, scores if isinstance(arm, ir.Nearest) else -scores))
    order = order[~np.isnan(scores[order])]
    if isinstance(arm, ir.Nearest):
        order = order[:limit]
    places = np.full(len(scores), _UNRANKED)
    places[order] = np.arange(1, len(order) + 1)
    return places
