"""Expressions of the IR over the rows of a match, as Spark columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import InternalError
from omnigraph.graph.query.compare import Const
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.lang import ir
from omnigraph.lang.types import BOOL, F64, I64, STRING
from omnigraph.pipeline.query.conditions import truth
from omnigraph.pipeline.query.match_frame import KIND
from omnigraph.pipeline.query.values import Cell, cast_value, computed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from omnigraph.pipeline.query.match_frame import MatchFrame
    from omnigraph.pipeline.query.values import Operand

_SCORE = F64.as_nullable(nullable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressions:
    """Evaluates the expressions of one query; columns of counts must be there already."""

    params: Mapping[str, object]
    aliases: Mapping[str, Operand] = field(default_factory=dict)
    """Columns of groups, where conditions look at them."""

    def truth(self, condition: ir.Condition, rows: MatchFrame) -> Column:
        """What a condition says of each row."""
        return truth(condition, lambda expr: self.operand(expr, rows))

    def operand(self, expr: ir.Expr, rows: MatchFrame) -> Operand:
        """The value of an expression for each row, or for all."""
        match expr:
            case ir.Param(_, kind) | ir.Lit(_, kind):
                return Const(constant_value(expr, self.params), kind)
            case ir.Prop(var, name, kind):
                return Cell(rows.column((var, name)), kind)
            case ir.NodeId(var):
                return Cell(rows.id_of(var), STRING)
            case ir.TypeOf(var, None):
                return Cell(rows.column((var, KIND)), STRING)
            case ir.TypeOf(var, name):
                return Cell(F.when(rows.id_of(var).isNotNull(), F.lit(name)), STRING)
            case ir.Alias(name):
                return self.aliases[name]
            case ir.Computed(_, args, kind):
                return Cell(computed(expr, [self.operand(arg, rows) for arg in args]), kind)
            case ir.If():
                return self._chosen(expr, rows)
            case _:
                return self._called(expr, rows)

    def _called(self, expr: ir.Expr, rows: MatchFrame) -> Cell:
        """What a search call, a fusion or a count told of each row."""
        match expr:
            case ir.Search() | ir.MatchText():
                return Cell(rows.column(expr).isNotNull(), BOOL)
            case ir.Fuzzy():
                found = F.coalesce(rows.column(expr), F.lit(False))  # noqa: FBT003 - a literal
                return Cell(found, BOOL)
            case ir.Bm25() | ir.Nearest() | ir.Rrf():
                return Cell(rows.column(expr), _SCORE)
            case ir.CountOf():
                return Cell(rows.column(expr), I64)
            case _:
                raise InternalError(
                    f"{type(expr).__name__} has no value for a single row; please report this"
                )

    def _chosen(self, expr: ir.If, rows: MatchFrame) -> Cell:
        holds = self.truth(expr.condition, rows)
        then, otherwise = (
            cast_value(self.operand(part, rows), expr.type, expr)
            for part in (expr.then, expr.otherwise)
        )
        return Cell(F.when(holds, then).otherwise(otherwise), expr.type)
