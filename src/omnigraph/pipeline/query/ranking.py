"""Reciprocal rank fusion over the rows of a match, and which rank orders a query has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.graph.query.search_values import asked_k
from omnigraph.lang import ir
from omnigraph.pipeline.query.match_frame import all_true

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from omnigraph.pipeline.query.match_frame import MatchFrame, Names


_TOP = 1_000_000
"""Beyond, Spark would take too much room for the first rows before it has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Rows with the fused score of the entity of each."""

    rows: MatchFrame
    is_ranked: Column
    first_place: Column


def fuse(
    expr: ir.Rrf,
    rows: MatchFrame,
    params: Mapping[str, object],
    limit: int | None,
    names: Names,
) -> Fused:
    """Fuse the rankings of both arms over the distinct entities of the rows."""
    k = F.lit(float(asked_k(expr, params)))
    told = rows.entity_of(expr.first.var)
    entity = [names.fresh() for _ in told]
    score = names.fresh()
    arms = (expr.first, expr.second)
    values = [names.fresh() for _ in arms]
    entities = rows.frame.select(
        *(column.alias(name) for column, name in zip(told, entity, strict=True)),
        *(rows.column(arm).alias(value) for arm, value in zip(arms, values, strict=True)),
    ).distinct()
    fused, places = entities.select(*entity), []
    for arm, value in zip(arms, values, strict=True):
        ranked, keys, place = _places(
            arm, entities.select(*entity, value), entity, value, limit, names
        )
        is_same = all_true([F.col(a) == F.col(b) for a, b in zip(entity, keys, strict=True)])
        fused = fused.join(ranked, is_same, "left").drop(*keys)
        places.append(place)
    parts = [F.coalesce(F.lit(1.0) / (k + F.col(place)), F.lit(0.0)) for place in places]
    fused = fused.withColumn(score, F.lit(0.0) + parts[0] + parts[1])
    is_ours = all_true([one == F.col(name) for one, name in zip(told, entity, strict=True)])
    joined = rows.frame.join(fused, is_ours, "left")
    shown = names.fresh()
    joined = joined.withColumn(shown, F.coalesce(F.col(score), F.lit(0.0)))
    return Fused(
        rows=replace(rows, frame=joined, columns={**rows.columns, expr: shown}),
        is_ranked=F.col(places[0]).isNotNull() | F.col(places[1]).isNotNull(),
        first_place=F.col(places[0]),
    )


def _places(
    arm: ir.Nearest | ir.Bm25,
    entities: DataFrame,
    entity: Sequence[str],
    value: str,
    limit: int | None,
    names: Names,
) -> tuple[DataFrame, list[str], str]:
    """The place of each entity in an arm, from 1 on."""
    keys, place = [names.fresh() for _ in entity], names.fresh()
    best = F.col(value).asc() if isinstance(arm, ir.Nearest) else F.col(value).desc()
    scored = entities.filter(F.col(value).isNotNull())
    if isinstance(arm, ir.Nearest) and limit is not None and limit <= _TOP:
        scored = scored.orderBy(best, *entity).limit(limit)
    number = F.row_number().over(Window.orderBy(best, *entity))
    ranked = scored.select(
        *(F.col(name).alias(key) for name, key in zip(entity, keys, strict=True)),
        number.alias(place),
    )
    if isinstance(arm, ir.Nearest) and limit is not None:
        ranked = ranked.filter(F.col(place) <= F.lit(limit))
    return ranked, keys, place
