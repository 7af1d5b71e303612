"""The rows that a `where` selects: what the table finds of them, and what is tested here.

The table evaluates every part that its predicates can say. What is left, such as two properties
that are compared with each other, is tested on the rows that it gives. The question for the read
set never covers less than the rows on which the outcome depends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.engine.truth import truths
from omnigraph.engine.writes.row_values import RowValues
from omnigraph.graph.commit.read_set import AllRows, RowsById, RowsMatching
from omnigraph.graph.query.pushdown import ALWAYS, NEVER, constant_value, push_filters
from omnigraph.lang import ir
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.conditions import conjuncts
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.ir_parts import operands_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.commit.read_set import Question
    from omnigraph.lang import EdgeType
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.table_store import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A condition on the rows of one type, with the values of its parameters."""

    predicate: Predicate
    """True for every row that is selected."""
    rest: tuple[ir.Condition, ...] = ()
    """What must hold besides."""
    values: RowValues = field(default_factory=lambda: RowValues({}))
    ids: pa.Array[pa.StringScalar] | None = None
    """The only rows that can be selected, where the condition names them."""

    @property
    def columns(self) -> list[str]:
        """What the rest looks at."""
        operands = (expr for part in self.rest for expr in operands_of(part))
        return sorted({expr.property for expr in operands if isinstance(expr, ir.Prop)})

    def question(self, store: TableStorage) -> Question:
        """What the outcome depends on."""
        if self.ids is not None:
            return RowsById(self.ids)
        return AllRows() if self.predicate == ALWAYS else RowsMatching(self.predicate, store)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those of the rows that the table has found for which the rest holds."""
        if not self.rest or not batch.num_rows:
            return batch
        whole = ir.AllOf(self.rest)
        holds, _ = truths(whole, lambda expr: self.values.operand(expr, batch), batch.num_rows)
        return batch.filter(pa.array(holds))


def select(
    item: NodeType | EdgeType, condition: ir.Condition, params: Mapping[str, object]
) -> Selection:
    """The selection that a condition makes among the rows of a type."""
    parts = tuple(conjuncts(condition))
    pushed = push_filters(parts, params)
    predicate = NEVER if pushed.is_never else pushed.predicate or ALWAYS
    named = (ids for part in parts if (ids := _named(item, part, params)) is not None)
    return Selection(
        predicate=predicate, rest=pushed.rest, values=RowValues(params), ids=next(named, None)
    )


def _named(
    item: NodeType | EdgeType, part: ir.Condition, params: Mapping[str, object]
) -> pa.Array[pa.StringScalar] | None:
    """The ids that a row must have one of: those of a test of `id`, or of a key that is a text."""
    match part:
        case ir.Filter(
            ir.Prop(property=name, type=kind),
            (FilterOp.EQ | FilterOp.IN) as op,
            (ir.Param() | ir.Lit()) as constant,
        ) if kind.is_text:
            is_key = isinstance(item, NodeType) and item.key == (name,)
            value = constant_value(constant, params)
            values = value if op is FilterOp.IN else [value]
            if (is_key or name == "id") and isinstance(values, list | tuple):
                texts = [str(each) for each in values if each is not None]
                return pa.array(texts, pa.string())
    return None
