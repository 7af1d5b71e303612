"""A predicate means the same through both renderings, with and without an index."""

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa
import pytest
from datafusion import DataFrame, SessionContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.storage.workbench import STAMP, Workbench, layout, rows_of

from omnigraph.storage.handles import TableHandle
from omnigraph.storage.predicates import (
    And,
    Compare,
    CompareOp,
    In,
    IsNotTrue,
    IsNull,
    Not,
    Or,
    Predicate,
    to_arrow,
    to_datafusion,
)

SCHEMA = """
node T {
  text: String?
  flag: Bool?
  i32: I32?
  i64: I64?
  u32: U32?
  u64: U64?
  f32: F32?
  f64: F64?
  day: Date?
  camelCase: DateTime?
}
"""
TABLE = layout("T", SCHEMA)
START = datetime(2020, 1, 1, tzinfo=UTC)
VALUES: Mapping[str, list[Any]] = {
    "text": ["", "a", "b'", "ü"],
    "flag": [True, False],
    "i32": [-(2**31), -1, 0, 2**31 - 1],
    "i64": [-(2**63), -1, 0, 2**63 - 1],
    "u32": [0, 1, 2**32 - 1],
    "u64": [0, 1, 2**63, 2**64 - 1],
    "f32": [-1.5, 0.0, 0.25],
    "f64": [-1.5, 0.0, 0.1],
    "day": [date(1969, 12, 31), date(2020, 1, 1)],
    "camelCase": [START, START + timedelta(milliseconds=1)],
}
ROWS = [
    {"id": f"r{number}"}
    | {name: ([*values, None])[number % (len(values) + 1)] for name, values in VALUES.items()}
    for number in range(30)
]


@st.composite
def comparisons(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(sorted(VALUES)))
    kind = TABLE.schema.field(name).type
    form = draw(st.sampled_from(["compare", "in", "null"]))
    if form == "null":
        return IsNull(name)
    if form == "in":
        chosen = draw(st.lists(st.sampled_from(VALUES[name]), max_size=3))
        return In(name, pa.array(chosen, kind))
    value = draw(st.sampled_from([*VALUES[name], None]))
    return Compare(name, draw(st.sampled_from(CompareOp)), pa.scalar(value, kind))


def _grown(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    parts = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(parts.map(And), parts.map(Or), inner.map(Not), inner.map(IsNotTrue))


PREDICATES = st.recursive(comparisons(), _grown, max_leaves=6)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workbench, TableHandle]:
    bench = Workbench(tmp_path_factory.mktemp("graph"))
    return bench, bench.filled(TABLE, *ROWS)


@pytest.fixture(scope="module")
def frame() -> DataFrame:
    return SessionContext().from_arrow(rows_of(TABLE, ROWS))


OPERATORS: Mapping[CompareOp, Callable[[Any, Any], bool]] = {
    op: getattr(operator, op.value) for op in CompareOp
}


def truth(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Three-valued truth, computed plainly."""
    match predicate:
        case Compare(column, op, value):
            left, right = row[column], value.as_py()
            return None if left is None or right is None else OPERATORS[op](left, right)
        case In(column, values):
            return None if row[column] is None else row[column] in values.to_pylist()
        case IsNull(column):
            return row[column] is None
        case And(parts):
            found = [truth(part, row) for part in parts]
            return False if False in found else None if None in found else True
        case Or(parts):
            found = [truth(part, row) for part in parts]
            return True if True in found else None if None in found else False
        case Not(part):
            inner = truth(part, row)
            return None if inner is None else not inner
        case IsNotTrue(part):
            return truth(part, row) is not True
        case _:
            assert_never(predicate)


def _agree(tables: tuple[Workbench, TableHandle], frame: DataFrame, predicate: Predicate) -> None:
    bench, handle = tables
    expected = sorted(row["id"] for row in ROWS if truth(predicate, row))
    assert bench.ids(handle, predicate) == expected
    assert bench.store.count(handle, predicate) == len(expected)
    assert len(bench.store.row_addresses(handle, predicate)) == len(expected)

    found = frame.filter(to_datafusion(predicate, {})).to_arrow_table()["id"].to_pylist()
    assert sorted(map(str, found)) == expected


@settings(
    max_examples=40, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(predicate=PREDICATES)
def test_both_renderings_agree_with_a_plain_evaluation(
    tables: tuple[Workbench, TableHandle], frame: DataFrame, predicate: Predicate
) -> None:
    _agree(tables, frame, predicate)


@pytest.mark.extended
@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(predicate=PREDICATES)
def test_both_renderings_agree_with_a_plain_evaluation_of_many(
    tables: tuple[Workbench, TableHandle], frame: DataFrame, predicate: Predicate
) -> None:
    _agree(tables, frame, predicate)


@pytest.mark.parametrize("name", ["u32", "u64"])
def test_types_that_the_scanner_cannot_take_go_through_datafusion(name: str) -> None:
    kind = TABLE.schema.field(name).type
    assert to_arrow(Compare(name, CompareOp.EQ, pa.scalar(None, kind)), TABLE.schema, {}) is None
    value = pa.scalar(VALUES[name][0], kind)
    assert to_arrow(Compare(name, CompareOp.EQ, value), TABLE.schema, {}) is None
    assert to_arrow(And((IsNull("id"), In(name, pa.array([], kind)))), TABLE.schema, {}) is None


def test_a_real_literal_of_double_width_is_compared_exactly(
    tables: tuple[Workbench, TableHandle],
) -> None:
    bench, handle = tables
    between = Compare("f32", CompareOp.GT, pa.scalar(0.25 - 1e-12, pa.float64()))
    assert bench.store.count(handle, between) == sum(row["f32"] == 0.25 for row in ROWS)


def test_a_renamed_property_is_filtered_by_its_column(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "graph")
    handle = bench.filled(TABLE, *ROWS)
    renamed = layout("T", SCHEMA.replace("u64: U64?", "size: U64?").replace("text:", "words:"))
    moved = type(TABLE)(
        **{
            **{name: getattr(TABLE, name) for name in TABLE.__dataclass_fields__},
            "schema": renamed.schema,
            "columns": {"size": "u64", "words": "text"},
        }
    )
    handle = bench.store.open(moved, handle.pin)
    for predicate, old in (
        (Compare("size", CompareOp.GE, pa.scalar(2**63, pa.uint64())), "u64"),
        (Compare("words", CompareOp.EQ, pa.scalar("a")), "text"),
    ):
        threshold = predicate.value.as_py()
        expected = [
            row["id"]
            for row in ROWS
            if row[old] is not None and truth_of(row[old], predicate.op, threshold)
        ]
        assert bench.ids(handle, predicate) == sorted(expected)
    assert bench.store.stage_delete(handle, IsNull("size"), STAMP).rows_removed == sum(
        row["u64"] is None for row in ROWS
    )


def truth_of(left: object, op: CompareOp, right: object) -> bool:
    """One comparison."""
    return OPERATORS[op](left, right)


@pytest.mark.parametrize("join", [And, Or])
def test_what_arrow_would_hand_on_slowly_takes_the_other_way(join: type[And] | type[Or]) -> None:
    test = IsNull("id")
    assert to_arrow(join((test,) * 8), TABLE.schema, {}) is not None
    assert to_arrow(join((test,) * 9), TABLE.schema, {}) is None
    nested: Predicate = test
    for _ in range(7):
        nested = Not(nested)
    assert to_arrow(nested, TABLE.schema, {}) is None
