"""Aggregates of one group, read batch by batch: for groups with a sum of floats.

Spark adds floats as they come and rounds each time. Here what each addition loses is carried on, as
if the sum had twice the digits; what else is asked of the same groups is computed beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmnigraphError
from omnigraph.graph.arrays import one_array
from omnigraph.graph.query.overflow import sum_overflow, too_long_collect
from omnigraph.lang.ir import AggFunc
from omnigraph.limits import MAX_COLLECTED
from omnigraph.pipeline.spark.errors import describe_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SMALLER = 2.0**-64

KIND_END = ":"
"""Divides the name of a type, which has none, from an id."""


@dataclass(frozen=True, slots=True)
class GroupValue:
    """One aggregate: of which column, and whether each value counts once."""

    func: AggFunc
    column: str
    is_distinct: bool
    name: str
    """Its column in the result."""
    is_typed: bool = False
    """The values are ids behind the names of their types: equal ids of two types are two."""


@dataclass(frozen=True, kw_only=True)
class GroupReader:
    """The body of the tasks that read groups; runs on executors."""

    values: tuple[GroupValue, ...]
    schema: pa.Schema

    def read(
        self,
        key: tuple[Any, ...],  # Any: scalars of every type
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:
        """The row of one group."""
        try:
            yield self._row(key, batches)
        except OmnigraphError as error:
            raise describe_failure(error, partition=0, attempt=1).to_exception() from error

    def _row(
        self,
        key: tuple[Any, ...],  # Any: as above
        batches: Iterator[pa.RecordBatch],
    ) -> pa.RecordBatch:
        told = [_Value(asked=value) for value in self.values]
        for batch in batches:
            for value in told:
                value.add(batch.column(value.asked.column))
        cells = [*(each.as_py() for each in key), *(value.result() for value in told)]
        arrays = [
            pa.array([cell], each.type) for cell, each in zip(cells, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(slots=True)
class _Total:
    """A sum of floats in two parts, the second of which the first cannot hold."""

    high: float = 0.0
    low: float = 0.0
    is_scaled: bool = False

    def add(self, values: Sequence[float]) -> None:
        """Add some more."""
        if self.is_scaled:
            values = [value * _SMALLER for value in values]
        try:
            self._add(values)
        except OverflowError:
            if self.is_scaled:
                raise sum_overflow() from None
            self.high, self.low, self.is_scaled = self.high * _SMALLER, self.low * _SMALLER, True
            self._add([value * _SMALLER for value in values])

    def _add(self, values: Sequence[float]) -> None:
        parts = [self.high, self.low, *values]
        high = math.fsum(parts)
        if not math.isfinite(high):
            raise OverflowError
        self.low = math.fsum([*parts, -high])
        self.high = high

    def result(self) -> float:
        """The sum, rounded once."""
        total = math.fsum((self.high, self.low))
        if self.is_scaled:
            total /= _SMALLER
        if not math.isfinite(total):
            raise sum_overflow()
        return total


@dataclass(slots=True)
class _Value:
    """One aggregate of one group."""

    asked: GroupValue
    count: int = 0
    total: _Total = field(default_factory=_Total)
    whole: int = 0
    is_float: bool = False
    best: Any = None  # Any: a value of any type
    kept: list[Any] = field(default_factory=list)  # Any: arrays of one type

    def add(self, values: pa.Array[Any]) -> None:  # Any: of any type
        given: Any = values.drop_null()  # Any: kernels take arrays of every type
        if pa.types.is_floating(given.type):
            self.is_float = True
            given = pc.add(given, pa.scalar(0.0, given.type))
        if self.asked.is_distinct or self.asked.func is AggFunc.COLLECT:
            self._keep(given)
        else:
            self._take(given)

    def _keep(self, given: Any) -> None:  # noqa: ANN401 - as above
        if self.asked.is_distinct:
            known = one_array(pa.chunked_array([*self.kept, given]))
            self.kept = [pc.unique(known)]
        else:
            self.kept.append(given)
            longest = sum(len(each) for each in self.kept)
            if longest > _FAR_TOO_MANY:
                raise too_long_collect(longest, MAX_COLLECTED)

    def _take(self, given: Any) -> None:  # noqa: ANN401 - as above
        self.count += len(given)
        match self.asked.func:
            case AggFunc.SUM | AggFunc.AVG if self.is_float:
                self.total.add(given.cast(pa.float64()).to_pylist())
            case AggFunc.SUM | AggFunc.AVG:
                self.whole += sum(int(each) for each in given.to_pylist())
            case AggFunc.MIN | AggFunc.MAX if len(given):
                ends = pc.min_max(given)
                self._compare(ends["min" if self.asked.func is AggFunc.MIN else "max"].as_py())
            case _:
                pass

    def _compare(self, found: Any) -> None:  # noqa: ANN401 - as above
        if self.best is None:
            self.best = found
        elif self.asked.func is AggFunc.MIN:
            self.best = min(self.best, found)
        else:
            self.best = max(self.best, found)

    def result(self) -> object:
        """The value of the group; null where there is none."""
        if self.asked.func is AggFunc.COLLECT:
            return self._collected()
        for each in self.kept:
            self._take(each)
        match self.asked.func:
            case AggFunc.COUNT:
                return self.count
            case AggFunc.SUM | AggFunc.AVG:
                if not self.count:
                    return None
                total = self.total.result() if self.is_float else float(self.whole)
                return total if self.asked.func is AggFunc.SUM else total / self.count
            case _:
                return self.best

    def _collected(self) -> Sequence[object]:
        values: Any = one_array(pa.chunked_array(self.kept))  # Any: as above
        if len(values) > MAX_COLLECTED:
            raise too_long_collect(len(values), MAX_COLLECTED)
        if self.asked.is_typed:
            values = pc.replace_substring_regex(values, f"^[^{KIND_END}]*{KIND_END}", "")
        items: list[object] = values.take(pc.sort_indices(values)).to_pylist()
        return items


_FAR_TOO_MANY = 1 << 24
"""The error tells how long a list is, but memory is not spent on telling it."""
