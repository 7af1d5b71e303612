"""The error of a computed value that its type does not hold, the same on both executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import NumericOverflow, ResourceLimit
from omnigraph.graph.query.ir_text import expr_text

if TYPE_CHECKING:
    from omnigraph.lang import ir


def value_overflow(expr: ir.Expr) -> NumericOverflow:
    """A value leaves the range of its type."""
    return NumericOverflow(
        f"`{expr_text(expr)}` leaves the range of its type; keep such rows away with a filter, or "
        "compute with floats (`* 1.0`)",
        expression=expr_text(expr),
    )


def sum_overflow() -> NumericOverflow:
    """A sum of floats leaves their range."""
    return NumericOverflow(
        "a sum of floats is larger than the largest one; divide the values, or group finer"
    )


def too_long_collect(longest: int, most: int) -> ResourceLimit:
    """A list that `collect` makes is too long."""
    return ResourceLimit(
        f"collect makes a list of {longest} values, more than {most}; filter more, or group finer",
        resource="collected values",
        limit=most,
        actual=longest,
    )
