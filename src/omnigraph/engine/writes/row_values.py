"""Values of expressions over the rows of one type, as a mutation finds them.

A bare name in a condition or an assignment is a property of the row: of the variable `OWN_ROW`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.engine.computed import Computer
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.graph.query.compare import Column, Const, repeated
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from omnigraph.graph.arrays import Numbers, Values
    from omnigraph.graph.query.budget import Budget
    from omnigraph.graph.query.compare import Operand


@dataclass(frozen=True, slots=True)
class RowValues:
    """Reads properties and parameters for rows."""

    params: Mapping[str, object]
    _constants: dict[str, Const] = field(default_factory=dict, compare=False, repr=False)

    def operand(self, expr: ir.Expr, rows: pa.Table | pa.RecordBatch) -> Operand:
        """What is not computed from others."""
        match expr:
            case ir.Param(name, kind):
                # One object for every batch: a long list is prepared once.
                if name not in self._constants:
                    self._constants[name] = Const(constant_value(expr, self.params), kind)
                return self._constants[name]
            case ir.Lit(value, kind):
                return Const(value, kind)
            case ir.Prop(_, name, kind):
                return Column(one_array(rows.column(name)), kind)
            case _:
                raise InternalError(f"{type(expr).__name__} has no value in a mutation")

    def computed(self, expr: ir.Expr, rows: pa.Table, budget: Budget) -> Values:
        """The value of an expression for each row.

        Raises:
            NumericOverflow: a number leaves the range of its type.
        """
        computer = Computer(leaf=self.operand, size=_size, keep=_keep, budget=budget)
        operand = computer.operand(expr, rows)
        if isinstance(operand, Const):
            return repeated(operand.value, arrow_type(operand.type), rows.num_rows)
        return operand.values


def _size(rows: pa.Table) -> int:
    return rows.num_rows


def _keep(rows: pa.Table, at: Numbers) -> pa.Table:
    return rows.take(at)
