"""The total order of results: user keys, then ids; null is smaller than any value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.engine.relational import SortColumn, sort_rows
from omnigraph.graph.arrays import ascending, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.graph.arrays import Numbers, Values
    from omnigraph.graph.query.budget import Budget

TOP_OF = 8
"""With a limit below one row in this many, the rows that can be among them are picked first."""

SORT_IN_DATAFUSION = 1_000_000
"""From this many rows on texts are sorted by DataFusion, which spills."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key: values of any type, or numbers that compare as what they stand for."""

    values: Values | NDArray[Any]
    is_descending: bool = False


def order_rows(keys: Sequence[SortKey], rows: int, limit: int | None, budget: Budget) -> Numbers:
    """The positions of the rows in order, cut to the limit."""
    budget.check()
    if limit == 0 or not rows:
        return np.zeros(0, np.int64)
    if not keys:
        return np.arange(rows)[:limit]
    best = None if limit is None else candidates(keys[0], rows, limit)
    if best is not None:
        kept = [_take(key, best) for key in keys]
        return best[_sorted(kept, len(best), budget)[:limit]]
    return _sorted(keys, rows, budget)[:limit]


def candidates(key: SortKey, rows: int, limit: int) -> Numbers | None:
    """The rows that the first key lets be among the first; `None` if it cannot tell cheaply."""
    if not limit or limit * TOP_OF >= rows:
        return None
    values = key.values
    if not isinstance(values, np.ndarray):
        if values.null_count or not _is_number(values.type):
            return None
        values = values.to_numpy()
    numbers = _reversed(values) if key.is_descending else values
    last = np.partition(numbers, limit - 1)[limit - 1]
    places = np.flatnonzero(numbers <= last)
    return places if len(places) < rows else None


def _take(key: SortKey, at: Numbers) -> SortKey:
    if isinstance(key.values, np.ndarray):
        return SortKey(key.values[at], key.is_descending)
    return SortKey(key.values.take(at), key.is_descending)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _reversed(numbers: NDArray[Any]) -> NDArray[Any]:
    # Of whole numbers the complement: the negative of the smallest does not exist.
    return -numbers if numbers.dtype.kind == "f" else ~numbers


def _sorted(keys: Sequence[SortKey], rows: int, budget: Budget) -> Numbers:
    if rows >= SORT_IN_DATAFUSION and any(_is_text(key.values) for key in keys):
        columns = [
            SortColumn(
                pa.array(key.values) if isinstance(key.values, np.ndarray) else key.values,
                key.is_descending,
            )
            for key in keys
        ]
        return sort_rows(columns, budget)
    codes = [_codes(key) for key in keys]
    return np.lexsort(codes[::-1]) if len(codes) > 1 else np.argsort(codes[0], kind="stable")


def _is_text(values: Values | NDArray[Any]) -> bool:
    return not isinstance(values, np.ndarray) and pa.types.is_string(values.type)


def _codes(key: SortKey) -> NDArray[Any]:
    """Numbers that ascend as the key does in its direction."""
    if isinstance(key.values, np.ndarray):
        return _reversed(key.values) if key.is_descending else key.values
    codes = value_codes(key.values)
    return ~codes if key.is_descending else codes


def value_codes(values: Values) -> Numbers:
    """For each value its place among the distinct ones, from 1 on; null is 0."""
    distinct, codes = encode(values)
    order = ascending(distinct)
    places = np.empty(len(order) + 1, np.int64)
    places[order] = np.arange(1, len(order) + 1)
    places[-1] = 0
    return places[codes]
