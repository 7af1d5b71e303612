"""Aggregates of a group that Python reads: exact, whatever the batches are."""

import math
from collections.abc import Sequence

import pyarrow as pa
import pytest

from omnigraph.lang.ir import AggFunc
from omnigraph.pipeline.query import group_values
from omnigraph.pipeline.query.group_values import GroupReader, GroupValue
from omnigraph.pipeline.spark.errors import TaskFailed


def aggregate(
    func: AggFunc,
    batches: Sequence[Sequence[object]],
    kind: pa.DataType,
    result: pa.DataType,
    *,
    is_distinct: bool = False,
) -> object:
    value = GroupValue(func=func, column="x", is_distinct=is_distinct, name="y")
    schema = pa.schema([pa.field("k", pa.string()), pa.field("y", result)])
    reader = GroupReader(values=(value,), schema=schema)
    given = [pa.RecordBatch.from_pydict({"x": pa.array(list(each), kind)}) for each in batches]
    (row,) = reader.read((pa.scalar("g"),), iter(given))
    assert row.column("k").to_pylist() == ["g"]
    return row.column("y")[0].as_py()


def test_what_a_sum_loses_is_carried_from_batch_to_batch() -> None:
    batches: list[list[float | None]] = [[1e100, 1.0, None], [-1e100], [2.0**-60]]
    added = aggregate(AggFunc.SUM, batches, pa.float64(), pa.float64())
    assert added == math.fsum([1e100, 1.0, -1e100, 2.0**-60])


def test_a_sum_is_finite_where_a_part_of_it_is_not() -> None:
    batches = [[1.7e308, 1.7e308], [-1.7e308, -1.6e308]]
    added = aggregate(AggFunc.SUM, batches, pa.float64(), pa.float64())
    assert added == pytest.approx(1e307)


def test_a_sum_beyond_the_largest_float_is_refused() -> None:
    with pytest.raises(TaskFailed, match="NumericOverflow"):
        aggregate(AggFunc.SUM, [[1.7e308], [1.7e308]], pa.float64(), pa.float64())


@pytest.mark.parametrize("func", [AggFunc.SUM, AggFunc.AVG, AggFunc.MIN, AggFunc.MAX])
def test_of_nothing_there_is_no_value(func: AggFunc) -> None:
    assert aggregate(func, [[None]], pa.float64(), pa.float64()) is None


def test_the_others_are_those_of_the_language() -> None:
    numbers: list[list[int | None]] = [[3, None, 1], [2, 3]]
    whole = pa.int64()
    assert aggregate(AggFunc.COUNT, numbers, whole, whole) == 4
    assert aggregate(AggFunc.COUNT, numbers, whole, whole, is_distinct=True) == 3
    assert aggregate(AggFunc.AVG, numbers, whole, pa.float64()) == 9 / 4
    assert aggregate(AggFunc.SUM, [[2**63 - 1], [2**63 - 1]], whole, pa.float64()) == float(2**64)
    texts = [["b", "a"], ["é", "b"]]
    assert aggregate(AggFunc.MAX, texts, pa.string(), pa.string()) == "é"
    assert aggregate(AggFunc.COLLECT, texts, pa.string(), pa.list_(pa.string())) == [
        "a",
        "b",
        "b",
        "é",
    ]
    zeros = aggregate(
        AggFunc.COLLECT, [[0.0, -0.0]], pa.float64(), pa.list_(pa.float64()), is_distinct=True
    )
    assert zeros == [0.0]


def test_a_list_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_values, "MAX_COLLECTED", 2)
    with pytest.raises(TaskFailed, match="a list of 3 values"):
        aggregate(AggFunc.COLLECT, [[1, 2], [3]], pa.int64(), pa.list_(pa.int64()))
