"""A filter of Spark and the predicate it becomes keep the same rows: every operator, type, edge."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.pipeline.datasource.filters import table_predicate
from omnigraph.pipeline.datasource.source import OmnigraphDataSource, PushingReader
from omnigraph.storage.predicates import And

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from omnigraph.storage.predicates import Predicate

SCHEMA = """
node Thing {
  text: String?
  level: enum(high, low)?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  at: DateTime?
}
"""
F32_TENTH = 0.10000000149011612
SHARP = ("text", "u64", "at")
"""Prefixes and code points, numbers beyond those of Spark, and moments finer than the stored."""


def at(microsecond: int) -> datetime:
    return datetime(2024, 1, 1, 10, 0, 0, microsecond, tzinfo=UTC)


STORED: dict[str, tuple[pa.DataType, Sequence[object]]] = {
    "text": (pa.string(), ("", "a", "ab", "b", "é", "ab\U0010ffff", "\U0010ffff")),
    "level": (pa.string(), ("high", "low")),
    "flag": (pa.bool_(), (True, False)),
    "i32": (pa.int32(), (-(2**31), -1, 0, 7, 2**31 - 1)),
    "i64": (pa.int64(), (-(2**63), 0, 7, 2**63 - 1)),
    "u32": (pa.uint32(), (0, 7, 2**32 - 1)),
    "u64": (pa.uint64(), (0, 7, 2**64 - 1)),
    "f32": (pa.float32(), (-1.5, 0.0, F32_TENTH, 1.0)),
    "f64": (pa.float64(), (-1.5, 0.0, 0.1, 1e300)),
    "day": (pa.date32(), (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31))),
    "at": (pa.timestamp("ms", "UTC"), (at(0), at(1_000), at(2_000))),
}
LITERALS: dict[str, Sequence[Any]] = {
    "text": ("", "a", "ab", "aé", "\U0010ffff", chr(0xD7FF)),
    "level": ("high", "low", "other"),
    "flag": (True, False),
    "i32": (-(2**31), 0, 7, 8),
    "i64": (-(2**63), 7, 2**63 - 1),
    "u32": (-1, 0, 7, 2**32 - 1, 2**32),
    "u64": tuple(map(Decimal, (-1, 0, 7, 2**64 - 1, 2**64))),
    "f32": (-0.0, F32_TENTH, 1.0, 3.4028234663852886e38),
    "f64": (-0.0, 0.1, 1e301),
    "day": (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)),
    "at": (at(0), at(400), at(1_000), at(1_999)),
}
NAMES = [*SHARP, *(name for name in STORED if name not in SHARP)]
COMPARED: dict[type[spark.Filter], Callable[[Any, Any], bool]] = {
    spark.EqualTo: operator.eq,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
}


def truth(given: spark.Filter, value: Any) -> bool | None:  # noqa: ANN401 - a value of any column
    """What Spark says of one value: true, false or unknown."""
    match given:
        case spark.Not(child):
            inner = truth(child, value)
            return None if inner is None else not inner
        case spark.IsNull():
            return value is None
        case spark.IsNotNull():
            return value is not None
        case spark.EqualNullSafe(value=wanted):
            return bool(value == wanted)
        case spark.In(value=wanted):
            if value is None:
                return None
            return True if value in wanted else None if None in wanted else False
        case spark.StringStartsWith(value=prefix):
            return None if value is None else bool(value.startswith(prefix))
        case _:
            wanted = getattr(given, "value", None)
            if value is None or wanted is None:
                return None
            return COMPARED[type(given)](value, wanted)


def filters(name: str) -> Iterator[spark.Filter]:
    path = (name,)
    literals = LITERALS[name]
    yield from (spark.IsNull(path), spark.IsNotNull(path), spark.EqualNullSafe(path, None))
    for each in (*literals, None):
        yield from (kind(path, each) for kind in COMPARED)  # type: ignore[call-arg]
        yield spark.EqualNullSafe(path, each)
        yield spark.In(path, (each,))
        yield spark.In(path, (literals[0], each))
    yield spark.In(path, tuple(literals))
    if name in ("text", "level"):
        yield from (spark.StringStartsWith(path, each) for each in literals)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose rows lie in two fragments."""
    path = tmp_path_factory.mktemp("filters") / "graph"
    count = 1 + max(len(values) for _, values in STORED.values())
    columns = {
        name: pa.array([*values, *[None] * (count - len(values))], kind)
        for name, (kind, values) in STORED.items()
    }
    with Graph.init(path, schema=SCHEMA) as graph:
        rows = pa.table(columns)
        graph.load({"Thing": rows.slice(0, 2)}, mode="append")
        graph.load({"Thing": rows.slice(2)}, mode="append")
    return path


@pytest.fixture(scope="module")
def shipped(path: Path) -> Shipped:
    source = OmnigraphDataSource({"graph": str(path), "type": "Thing", "pushdown": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingReader)
    return Shipped(reader, reader.partitions())


@dataclass
class Shipped:
    """A reader and its partitions, as tasks get them."""

    reader: PushingReader
    partitions: list[spark.InputPartition]

    def kept(self, *given: spark.Filter) -> list[dict[str, Any]]:
        """The rows that leave the table when Spark offers these filters; none is left to Spark."""
        parts: list[Predicate] = []
        for each in given:
            predicate = table_predicate(self.partitions[0].value.item, each)
            assert predicate is not None, each
            parts.append(predicate)
        scans = [replace(each.value, predicate=And(tuple(parts))) for each in self.partitions]
        batches = [b for each in scans for b in self.reader.read(spark.InputPartition(each))]
        return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("name", thinned(NAMES, keep=len(SHARP)))
def test_a_filter_and_its_negation_keep_what_spark_would_keep(shipped: Shipped, name: str) -> None:
    everything = [row[name] for row in shipped.kept()]
    assert None in everything
    for plain in filters(name):
        for each in (plain, spark.Not(plain)):
            expected = [value for value in everything if truth(each, value)]
            found = [row[name] for row in shipped.kept(each)]
            assert _ordered(found) == _ordered(expected), each


def test_filters_together_keep_what_passes_all_of_them(shipped: Shipped) -> None:
    given = [spark.GreaterThan(("u64",), Decimal(0)), spark.LessThan(("i32",), 2**31 - 1)]
    found = shipped.kept(*given, spark.IsNotNull(("at",)))
    assert _ordered([row["i32"] for row in found]) == _ordered(
        [
            row["i32"]
            for row in shipped.kept()
            if truth(given[0], row["u64"]) and truth(given[1], row["i32"]) and row["at"]
        ]
    )
    assert found


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is not None, value))
