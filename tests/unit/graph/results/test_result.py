"""A result has the promised columns and gives its rows in Arrow, Python, pandas and files."""

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from tests.property.profiles import quick
from tests.unit.graph.results.results import (
    COMMIT,
    MAIN,
    NUMBER,
    PLAIN,
    TEXT,
    column_of,
    optional,
    result_of,
    results,
    schema_of,
    to_f32,
    vector,
)

from omnigraph.errors import InternalError
from omnigraph.graph.query.target import QueryTarget
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang.ir import Column
from omnigraph.lang.types import STRING, PropType, Scalar

PEOPLE = result_of({"p.name": (TEXT, ["Ada", "Bob"]), "p.age": (NUMBER, [36, None])})
EVERY_TYPE = [
    *(Column(f"one {scalar}", optional(scalar)) for scalar in PLAIN),
    *(Column(f"many {scalar}", optional(scalar, is_list=True)) for scalar in PLAIN),
    Column("vector", vector(3)),
    Column("key", STRING),
]


def _result(table: pa.Table, *columns: Column) -> QueryResult:
    return QueryResult(table, columns, query_name="find", target=MAIN, graph_commit_id=COMMIT)


def _empty() -> QueryResult:
    return _result(pa.Table.from_batches([], schema_of(EVERY_TYPE)), *EVERY_TYPE)


def test_a_result_says_where_its_rows_come_from() -> None:
    assert PEOPLE.columns == ["p.name", "p.age"]
    assert PEOPLE.query_name == "find"
    assert PEOPLE.target == MAIN
    assert PEOPLE.graph_commit_id == COMMIT
    assert PEOPLE.policy_filtered is False
    assert result_of({"v": (TEXT, [])}, policy_filtered=True).policy_filtered is True
    assert len(PEOPLE) == 2
    assert repr(PEOPLE) == "<QueryResult: 2 rows from branch main via find>"


def test_a_target_names_a_branch_or_a_snapshot() -> None:
    snapshot = QueryTarget(branch=None, snapshot="main@01K")
    assert MAIN.to_dict() == {"branch": "main", "snapshot": None}
    assert snapshot.to_dict() == {"branch": None, "snapshot": "main@01K"}
    assert (str(MAIN), str(snapshot)) == ("branch main", "snapshot main@01K")


def test_the_schema_is_the_declared_one_also_when_empty() -> None:
    empty = _empty()
    assert empty.schema.equals(schema_of(EVERY_TYPE), check_metadata=True)
    assert empty.schema.field("key").nullable is False
    assert empty.schema.field("one I64").nullable is True
    assert len(empty) == 0


def test_every_form_of_an_empty_result_has_no_rows_and_all_columns(tmp_path: Path) -> None:
    empty = _empty()
    names = [column.name for column in EVERY_TYPE]
    assert empty.to_dicts() == list(empty) == []
    assert not empty.to_batches()
    assert empty.to_json() == "[]"
    assert empty.to_dict()["columns"] == names
    assert empty.to_csv() == ",".join(names) + "\n"
    assert empty.to_jsonl().count("\n") == 1
    assert empty.to_table() == empty.to_kv() == "0 rows from branch main via find\n(no rows)"
    assert list(empty.to_pandas().columns) == names
    empty.to_parquet(tmp_path / "empty.parquet")
    assert pq.read_schema(tmp_path / "empty.parquet").equals(empty.schema)


def test_what_an_engine_noted_in_the_schema_does_not_reach_the_caller() -> None:
    field = pa.field("v", pa.utf8(), metadata={"engine": "note"})
    noted = pa.table([["a"]], schema=pa.schema([field], metadata={"engine": "note"}))
    found = _result(noted, Column("v", TEXT))
    assert found.schema.equals(schema_of([Column("v", TEXT)]), check_metadata=True)


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        (pa.field("w", pa.utf8()), TEXT),
        (pa.field("v", pa.large_utf8()), TEXT),
        (pa.field("v", pa.utf8(), nullable=False), TEXT),
        (pa.field("v", pa.utf8()), STRING),
        (pa.field("v", pa.int32()), NUMBER),
        (pa.field("v", pa.timestamp("us", tz="UTC")), optional(Scalar.DATETIME)),
        (pa.field("v", pa.list_(pa.float32(), 3)), vector(2)),
    ],
)
def test_a_table_that_differs_from_the_promise_is_a_defect(
    field: "pa.Field[pa.DataType]", kind: PropType
) -> None:
    with pytest.raises(InternalError, match=r"promises .*<v: .*report it"):
        _result(pa.schema([field]).empty_table(), Column("v", kind))


def test_a_column_too_many_is_a_defect() -> None:
    with pytest.raises(InternalError, match="promises"):
        _result(pa.table({"v": ["a"], "w": ["b"]}), Column("v", TEXT))


def test_a_null_in_a_required_column_is_a_defect() -> None:
    table = pa.table([pa.array([None], pa.utf8())], schema=schema_of([Column("v", STRING)]))
    with pytest.raises(InternalError, match="the column v of the result of find holds null"):
        _result(table, Column("v", STRING))


def test_python_values_are_dates_aware_datetimes_and_lists() -> None:
    moment = datetime(2026, 1, 31, 12, 30, 0, 5000, tzinfo=UTC)
    found = result_of(
        {
            "day": (optional(Scalar.DATE), [date(2026, 1, 31), None]),
            "moment": (optional(Scalar.DATETIME), [moment, None]),
            "moments": (optional(Scalar.DATETIME, is_list=True), [[moment, None], []]),
            "vector": (vector(2), [[0.5, 0.1], None]),
            "big": (optional(Scalar.U64), [2**64 - 1, None]),
        }
    )
    assert found.to_dicts() == [
        {
            "day": date(2026, 1, 31),
            "moment": moment,
            "moments": [moment, None],
            "vector": [0.5, to_f32(0.1)],
            "big": 2**64 - 1,
        },
        {"day": None, "moment": None, "moments": [], "vector": None, "big": None},
    ]
    assert found.to_dicts()[0]["moment"].tzinfo is UTC  # type: ignore[attr-defined]  # a datetime


@pytest.mark.parametrize("day", [date.min, date(1969, 12, 31), date.max])
def test_every_day_of_the_calendar_is_a_python_date(day: date) -> None:
    assert column_of(optional(Scalar.DATE), day).to_dicts() == [{"v": day}]


@given(results())
@quick(40)
def test_python_values_are_those_of_arrow(found: QueryResult) -> None:
    assert found.to_dicts() == found.to_arrow().to_pylist()


@pytest.mark.extended
@given(results())
@quick(120)
def test_python_values_of_many_are_those_of_arrow(found: QueryResult) -> None:
    assert found.to_dicts() == found.to_arrow().to_pylist()


def test_iteration_gives_the_rows_once_each_and_in_order() -> None:
    found = column_of(NUMBER, *range(3000))
    assert [row["v"] for row in found] == list(range(3000))
    assert list(found) == found.to_dicts()


def test_any_reader_of_arrow_streams_takes_a_result() -> None:
    assert pa.table(PEOPLE) == PEOPLE.to_arrow()
    assert pa.table(_empty()).schema == _empty().schema
    assert pa.Table.from_batches(PEOPLE.to_batches()) == PEOPLE.to_arrow()


def test_pandas_keeps_integers_exact_beside_nulls() -> None:
    odd = 2**53 + 1
    found = result_of(
        {
            "n": (NUMBER, [odd, None]),
            "many": (optional(Scalar.I64, is_list=True), [[odd, None], []]),
            "yes": (optional(Scalar.BOOL), [True, None]),
            "moment": (optional(Scalar.DATETIME), [datetime(1, 1, 1, tzinfo=UTC), None]),
        }
    ).to_pandas()
    assert found["n"][0] == odd
    assert list(found["many"][0]) == [odd, None]
    assert [str(dtype) for dtype in found.dtypes] == [
        "Int64",
        "object",
        "boolean",
        "datetime64[ms, UTC]",
    ]
    assert found["moment"][0].isoformat() == "0001-01-01T00:00:00+00:00"


def test_a_dtype_does_not_depend_on_the_data() -> None:
    assert list(column_of(NUMBER, 1).to_pandas().dtypes) == list(
        column_of(NUMBER, None).to_pandas().dtypes
    )


def test_without_polars_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"pip install .*\[polars\]"):
        PEOPLE.to_polars()


def test_polars_gets_the_same_rows() -> None:
    pytest.importorskip("polars")
    assert PEOPLE.to_polars().to_dicts() == PEOPLE.to_dicts()


@given(results())
@quick(30)
def test_files_read_back_with_the_same_schema_and_rows(
    tmp_path_factory: pytest.TempPathFactory, found: QueryResult
) -> None:
    folder = tmp_path_factory.mktemp("files")
    found.to_parquet(folder / "found.parquet")
    found.to_ipc(str(folder / "found.arrow"))
    assert pq.read_table(folder / "found.parquet").equals(found.to_arrow())
    with pa.OSFile(str(folder / "found.arrow"), "rb") as source, pa.ipc.open_file(source) as reader:
        assert reader.read_all().equals(found.to_arrow())
