"""What conditions say of rows: true, false or unknown, from the values of their sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import numpy as np

from omnigraph.graph.query.compare import is_known, is_null, is_true
from omnigraph.lang import ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.arrays import Mask
    from omnigraph.graph.query.compare import Operand


def truths(
    item: ir.Condition, operand: Callable[[ir.Expr], Operand], rows: int
) -> tuple[Mask, Mask]:
    """For each row whether the condition is true, and whether it is false."""
    match item:
        case ir.NullTest(expr):
            without = is_null(operand(expr), rows)
            return without, ~without
        case ir.Negated(part):
            holds, fails = truths(part, operand, rows)
            return fails, holds
        case ir.AllOf(parts) | ir.AnyOf(parts):
            of_parts = [truths(part, operand, rows) for part in parts]
            holding, failing = [each[0] for each in of_parts], [each[1] for each in of_parts]
            if isinstance(item, ir.AllOf):
                return np.logical_and.reduce(holding), np.logical_or.reduce(failing)
            return np.logical_or.reduce(holding), np.logical_and.reduce(failing)
        case ir.Filter(left, op, right):
            sides = operand(left), operand(right)
            holds = is_true(sides[0], op, sides[1], rows)
            return holds, ~holds & is_known(sides[0], op, sides[1], rows)
        case _:
            assert_never(item)
