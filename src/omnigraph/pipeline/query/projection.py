"""From the rows of a match to those of a result: order, offset, limit, columns, in that order.

The order is total: after the keys of the query come the ids of all variables, or the keys of the
groups. Nothing depends on how rows are spread over partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.graph.query.compare import Const
from omnigraph.lang import ir
from omnigraph.pipeline.query.groups import Grouper
from omnigraph.pipeline.query.ranking import fuse
from omnigraph.pipeline.query.values import Cell, cast_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from omnigraph.pipeline.query.expressions import Expressions
    from omnigraph.pipeline.query.keeper import Keeper
    from omnigraph.pipeline.query.match import Matcher
    from omnigraph.pipeline.query.match_frame import MatchFrame, Names

TOP_ROWS: Final = 1_000_000
"""Up to here Spark picks the first rows in memory, for which it takes room before it has any."""

_PART_BITS: Final = 33
"""Below the number of the partition, in the numbers that Spark gives to rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """Orders, cuts and projects the match of one query."""

    query: ir.QueryIR
    matcher: Matcher
    expressions: Expressions
    names: Names
    keeper: Keeper

    def result(self, rows: MatchFrame) -> DataFrame:
        """The rows of the result, in order, in columns of its names."""
        rows = self.matcher.counted(rows, self._asked)
        return self._groups(rows) if self.query.is_grouped else self._rows(rows)

    @property
    def _asked(self) -> list[ir.Expr]:
        """What columns and the order ask for."""
        returned = [item.expr for item in self.query.returns]
        return returned + [item.expr for item in self.query.order]

    def _rows(self, rows: MatchFrame) -> DataFrame:
        keys: list[Column] = []
        fused = {expr for asked in self._asked if isinstance(expr := self._resolved(asked), ir.Rrf)}
        ranks = {}
        for expr in sorted(fused, key=repr):
            ranks[expr] = fuse(expr, rows, self.expressions.params, self._most, self.names)
            rows = ranks[expr].rows
        for number, item in enumerate(self.query.order):
            expr = self._resolved(item.expr)
            if number == 0 and isinstance(expr, ir.Nearest | ir.Bm25):
                rows = rows.keep(rows.column(expr).isNotNull())
            if isinstance(expr, ir.Rrf):
                rank = ranks[expr]
                rows = rows.keep(rank.is_ranked) if number == 0 else rows
                keys += [
                    _key(rows.column(expr), is_descending=item.descending),
                    rank.first_place.asc_nulls_last(),
                    *(key.asc_nulls_first() for key in rows.entity_of(expr.first.var)),
                ]
                continue
            operand = self.expressions.operand(expr, rows)
            if not isinstance(operand, Const):
                keys.append(_key(operand.column, is_descending=item.descending))
        keys += _tie_keys(rows)
        frame = self._cut(rows.frame, keys)
        return frame.select(
            *(
                self._value(self._resolved(item.expr), column, rows).alias(column.name)
                for item, column in zip(self.query.returns, self.query.result_schema, strict=True)
            )
        )

    def _value(self, expr: ir.Expr, column: ir.Column, rows: MatchFrame) -> Column:
        return cast_value(self.expressions.operand(expr, rows), column.type, expr)

    @property
    def _most(self) -> int | None:
        """How many rows there may be, those that the offset skips included."""
        limit = self.query.limit
        return None if limit is None else limit + (self.query.offset or 0)

    def _groups(self, rows: MatchFrame) -> DataFrame:
        query = self.query
        grouper = Grouper(query=query, expressions=self.expressions, names=self.names)
        groups = grouper.group(rows)
        cells = {
            item.name: Cell(F.col(name), column.type)
            for item, column, name in zip(
                query.returns, query.result_schema, groups.columns, strict=True
            )
        }
        over_groups = replace(self.expressions, aliases=cells)
        frame = groups.frame
        for condition in query.having or ():
            frame = frame.filter(over_groups.truth(condition, rows))
        keys = [
            _key(cells[self._column_name(item.expr)].column, is_descending=item.descending)
            for item in query.order
        ]
        keys += [
            F.col(key).asc_nulls_first()
            for item, name in zip(query.returns, groups.columns, strict=True)
            if not isinstance(item.expr, ir.Agg | ir.Param | ir.Lit)
            for key in (name, *groups.kinds.get(name, ()))
        ]
        frame = self._cut(frame, keys)
        return frame.select(
            *(
                cast_value(cells[item.name], column.type, item.expr).alias(column.name)
                for item, column in zip(query.returns, query.result_schema, strict=True)
            )
        )

    def _column_name(self, expr: ir.Expr) -> str:
        if isinstance(expr, ir.Alias):
            return expr.name
        return next(item.name for item in self.query.returns if item.expr == expr)

    def _cut(self, frame: DataFrame, keys: Sequence[Column]) -> DataFrame:
        offset, limit = self.query.offset or 0, self.query.limit
        if not keys:
            # All rows are one row.
            return frame if not offset and limit != 0 else frame.limit(0)
        ordered = frame.orderBy(*keys)
        if limit is None and not offset:
            return ordered
        if limit is not None and limit + offset <= TOP_ROWS:
            return ordered.offset(offset).limit(limit) if offset else ordered.limit(limit)
        return self._slice(ordered, offset, limit)

    def _slice(self, ordered: DataFrame, offset: int, limit: int | None) -> DataFrame:
        """Rows by their places: Spark would sort very many in memory, or lose their order."""
        kept = self.keeper.keep(ordered)
        counts = self.keeper.counts(kept)
        place = self.names.fresh()
        numbered = kept.withColumn(place, F.monotonically_increasing_id())
        numbered = numbered.filter(F.col(place) >= F.lit(_place(counts, offset)))
        if limit is not None:
            numbered = numbered.filter(F.col(place) < F.lit(_place(counts, offset + limit)))
        return numbered

    def _resolved(self, expr: ir.Expr) -> ir.Expr:
        """What an alias stands for."""
        while isinstance(expr, ir.Alias):
            name = expr.name
            expr = next(item.expr for item in self.query.returns if item.name == name)
        return expr


def _place(counts: Mapping[int, int], rows: int) -> int:
    """The number that Spark gives to the row after so many; partitions are counted in the order."""
    for part in sorted(counts):
        if rows < counts[part]:
            return (part << _PART_BITS) + rows
        rows -= counts[part]
    return 2**63 - 1


def _key(column: Column, *, is_descending: bool) -> Column:
    return column.desc_nulls_last() if is_descending else column.asc_nulls_first()


def _tie_keys(rows: MatchFrame) -> Iterator[Column]:
    """The entities of all variables in name order, hidden ones last."""
    names = (name for name in rows.variables if not ir.is_walk_var(name))
    for name in sorted(names, key=lambda name: (name.startswith("#"), name)):
        yield from (key.asc_nulls_first() for key in rows.entity_of(name))
