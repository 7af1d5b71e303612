"""Values given to many rows: what they will take is known, and held against the budget, before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Numbers, Values
    from omnigraph.graph.query.budget import Budget

_OFFSET_BYTES = 4


def gather(
    values: Values, at: Numbers, budget: Budget, what: str, *, held_bytes: int = 0
) -> Values:
    """The value of each row, by the place of it among the values.

    Raises:
        ResourceLimit: with what is held beside it is more than the query may hold.
    """
    taken_bytes = len(at) * values.nbytes
    if held_bytes + taken_bytes > budget.left_bytes:
        # All of the values for each row would be too much, so they are measured.
        taken_bytes = _taken_bytes(values, at, budget.left_bytes)
    budget.require_bytes(held_bytes + taken_bytes, what)
    if len(values) == len(at) == 1:
        return values
    return values.take(pa.array(at, pa.int64()))


def repeat(value: object, kind: pa.DataType, rows: int, budget: Budget, what: str) -> Values:
    """One value for each row.

    Raises:
        ResourceLimit: as above.
    """
    one: Values = pa.array([value], kind)
    return gather(one, np.zeros(rows, np.int64), budget, what)


def _taken_bytes(values: Values, at: Numbers, enough: int) -> int:
    """What the values take once each row has its own; no more than a bound if that is enough."""
    if not len(values):
        return 0
    widths = _widths(values)
    if widths is None:
        return len(at) * -(-values.nbytes // len(values))
    most = len(at) * int(widths.max())
    return most if most <= enough else int(widths[at].sum())


def _widths(values: Any) -> Numbers | None:  # noqa: ANN401 - an array of any type
    """What each value takes, about; None if all take the same."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        lengths, item_bytes = pc.binary_length(values), 1
    elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        lengths = pc.list_value_length(values)
        item_bytes = -(-values.values.nbytes // max(1, len(values.values)))
    else:
        return None
    counts: Numbers = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return counts * item_bytes + _OFFSET_BYTES
