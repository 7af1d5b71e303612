"""Structured predicates: what DataFusion pushes into Lance, and what Arrow expressions cannot."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from datafusion import Expr, SessionContext, col, functions, lit
from lance import LanceDataset
from tests.guards.lance_tables import (
    PRIMARY_KEY,
    btree,
    commit,
    create_table,
    open_pin,
    rows,
    stage_append,
    stage_index,
    where,
)

INSTANT = pa.timestamp("us", "UTC")
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
    pa.field("unsigned", pa.uint64()),
    pa.field("integer", pa.int64()),
    pa.field("real", pa.float64()),
    pa.field("instant", INSTANT),
    pa.field("camelCase", pa.string()),
    pa.field("tags", pa.list_(pa.string())),
]
TYPED = pa.schema(_FIELDS)


def _day(number: int) -> datetime:
    return datetime(2020, 1, 1 + number, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """Rows `r0` to `r4`, a BTREE on every scalar column."""
    values = [
        {
            "id": f"r{number}",
            "unsigned": 2**63 + number,
            "integer": number,
            "real": float(number),
            "instant": _day(number),
            "camelCase": f"v{number}",
            "tags": ["all", f"t{number}"],
        }
        for number in range(5)
    ]
    found = create_table(tmp_path / "t", pa.Table.from_pylist(values, schema=TYPED), schema=TYPED)
    scalars = [field.name for field in TYPED if not pa.types.is_list(field.type)]
    return commit(found, stage_index(found, [btree(name, f"ix_{name}") for name in scalars]))


def _frame(table: LanceDataset, predicate: Expr) -> tuple[list[str], str]:
    """The ids that the provider returns, and the physical plan that found them."""
    context = SessionContext()
    context.register_table("t", lance.FFILanceTableProvider(table))
    frame = context.table("t").filter(predicate).select(col('"id"'))
    found = cast("list[str]", frame.to_arrow_table()["id"].to_pylist())
    return sorted(found), frame.execution_plan().display_indent()


def _scalar(value: object, kind: pa.DataType) -> Expr:
    return lit(pa.scalar(value, kind))


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (col('"unsigned"') > _scalar(2**63 + 2, pa.uint64()), ["r3", "r4"]),
        (col('"instant"') > _scalar(_day(2), INSTANT), ["r3", "r4"]),
        (col('"real"') == lit(2.0), ["r2"]),
        (col('"camelCase"') == lit("v1"), ["r1"]),
        (functions.in_list(col('"id"'), [lit("r1"), lit("r2")]), ["r1", "r2"]),
    ],
    ids=["unsigned", "instant", "real", "camel-case", "in"],
)
def test_lance_guard_a_literal_of_the_columns_type_uses_the_btree(
    table: LanceDataset, predicate: Expr, found: list[str]
) -> None:
    """Why: predicates are fitted to the column's type and given to the table provider."""
    ids, plan = _frame(table, predicate)
    assert ids == found
    assert "ScalarIndexExec" in plan


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (col('"integer"') < lit(1.5), ["r0", "r1"]),
        (functions.array_has(col('"tags"'), lit("t3")), ["r3"]),
        (col('"camelCase"').is_null(), []),
    ],
    ids=["integer-against-real", "list-membership", "is-null"],
)
def test_lance_guard_other_predicates_are_right_too(
    table: LanceDataset, predicate: Expr, found: list[str]
) -> None:
    """Why: what the index cannot answer, the provider's scan does."""
    assert _frame(table, predicate)[0] == found


def test_lance_guard_an_integer_against_a_real_does_not_use_the_btree(table: LanceDataset) -> None:
    """Why: literals are fitted before they are pushed down."""
    assert "ScalarIndexExec" not in _frame(table, col('"integer"') < lit(1.5))[1]


def test_lance_guard_an_unquoted_column_name_is_lowered(table: LanceDataset) -> None:
    """Why: names are quoted, or camelCase properties do not exist."""
    with pytest.raises(Exception, match="No field named camelcase"):
        _frame(table, col("camelCase") == lit("v1"))


def test_lance_guard_the_provider_shows_the_pinned_version(tmp_path: Path) -> None:
    """Why: the engine joins snapshots, never heads."""
    table = create_table(tmp_path / "t", rows("a"))
    commit(table, stage_append(table, rows("b")))
    pinned = open_pin(tmp_path / "t", None, 1)
    assert _frame(pinned, col('"rank"') == lit(0))[0] == ["a"]


def test_lance_guard_an_arrow_expression_over_an_unsigned_column_is_rejected(
    table: LanceDataset,
) -> None:
    """Why: such predicates take the provider's route."""
    with pytest.raises(ValueError, match="not yet supported by Substrait"):
        where(table, pc.field("unsigned") == pa.scalar(2**63, pa.uint64()))


def test_lance_guard_an_arrow_expression_of_an_integer_against_a_real_is_rejected(
    table: LanceDataset,
) -> None:
    """Why: such predicates take the provider's route."""
    with pytest.raises(pa.ArrowInvalid, match="unsafe casts"):
        where(table, pc.field("integer") < 1.5)


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (pc.field("id").isin(["r1", "r2"]), ["r1", "r2"]),
        (pc.field("camelCase") == "v1", ["r1"]),
        (pc.field("instant") > pa.scalar(_day(2), INSTANT), ["r3", "r4"]),
        (pc.field("real") == 2, ["r2"]),
    ],
    ids=["in", "camel-case", "instant", "real-against-integer"],
)
def test_lance_guard_other_arrow_expressions_use_the_btree(
    table: LanceDataset, predicate: pc.Expression, found: list[str]
) -> None:
    """Why: lookups by id go the short way, without an engine."""
    assert where(table, predicate) == found
    plan = table.scanner(columns=["id"], filter=predicate).explain_plan()
    assert "ScalarIndexQuery" in plan


@pytest.mark.parametrize("item", [pa.uint32(), pa.uint64()], ids=str)
def test_lance_guard_a_list_of_unsigned_numbers_takes_the_scanner_every_filter(
    tmp_path: Path, item: pa.DataType
) -> None:
    """Why: on such a table every predicate goes through the provider, whatever it looks at."""
    rows = pa.table({"id": ["a", "b"], "list": pa.array([[1], None], pa.list_(item))})
    table = lance.write_dataset(rows, tmp_path / "t", data_storage_version="2.2")
    with pytest.raises(ValueError, match="Substrait"):
        table.to_table(filter=pc.field("id") == "a")
    provider = lance.FFILanceTableProvider(table)
    session = SessionContext()
    frame = session.read_table(provider).filter(col("id") == lit("a"))
    assert frame.to_arrow_table()["id"].to_pylist() == ["a"]
