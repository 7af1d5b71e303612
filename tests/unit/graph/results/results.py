"""Results made of plain values, and a strategy for results of any columns."""

import struct
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from omnigraph.graph.query.target import QueryTarget
from omnigraph.graph.results.query_result import QueryResult
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.lang.ir import Column
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar

MAIN = QueryTarget(branch="main", snapshot=None)
COMMIT = "01K5Z0J3V9A8Q6S2T4W7X1Y3ZB"

TEXT = PropType(scalar=Scalar.STRING, nullable=True)
NUMBER = PropType(scalar=Scalar.I64, nullable=True)
PLAIN = [scalar for scalar in Scalar if scalar not in (Scalar.BLOB, Scalar.VECTOR)]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def optional(scalar: Scalar, *, is_list: bool = False) -> PropType:
    return PropType(scalar=scalar, nullable=True, is_list=is_list)


def vector(dim: int) -> PropType:
    return PropType(scalar=Scalar.VECTOR, nullable=True, vector_dim=dim)


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([arrow_field(column.name, column.type) for column in columns])


def result_of(
    columns: Mapping[str, tuple[PropType, Sequence[object]]],
    *,
    target: QueryTarget = MAIN,
    policy_filtered: bool = False,
    rows_per_chunk: int | None = None,
) -> QueryResult:
    """A result with these columns, given as type and values."""
    described = [Column(name, kind) for name, (kind, _) in columns.items()]
    schema = schema_of(described)
    arrays = [
        pa.array(values, type=field.type)
        for field, (_, values) in zip(schema, columns.values(), strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    if rows_per_chunk is not None:
        table = pa.Table.from_batches(table.to_batches(max_chunksize=rows_per_chunk), schema)
    return QueryResult(
        table,
        described,
        query_name="find",
        target=target,
        graph_commit_id=COMMIT,
        policy_filtered=policy_filtered,
    )


def column_of(kind: PropType, *values: object) -> QueryResult:
    """A result with the one column `v`."""
    return result_of({"v": (kind, values)})


def to_f32(value: float) -> float:
    """The F32 as Python holds it."""
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _moments() -> SearchStrategy[datetime]:
    low = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    high = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
    return st.integers(low, high).map(lambda ms: _EPOCH + timedelta(milliseconds=ms))


def scalar_values(scalar: Scalar) -> SearchStrategy[object]:
    """Values of a scalar type, as Python holds them."""
    match scalar:
        case Scalar.STRING:
            return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
        case Scalar.BOOL:
            return st.booleans()
        case Scalar.F32 | Scalar.VECTOR:
            return st.floats(width=32, allow_nan=False, allow_infinity=False)
        case Scalar.F64:
            return st.floats(allow_nan=False, allow_infinity=False)
        case Scalar.DATE:
            return st.dates(date.min, date.max)
        case Scalar.DATETIME:
            return _moments()
        case _:
            return st.integers(*INTEGER_RANGES[scalar])


def kinds() -> SearchStrategy[PropType]:
    """Every type that a query may return, nullable."""
    plain = st.builds(
        lambda scalar, is_list: optional(scalar, is_list=is_list),
        st.sampled_from(PLAIN),
        st.booleans(),
    )
    return plain | st.integers(1, 4).map(vector)


def values_of(kind: PropType) -> SearchStrategy[object]:
    """Values of a type, null among them."""
    item = scalar_values(kind.scalar)
    if kind.vector_dim is not None:
        item = st.lists(item, min_size=kind.vector_dim, max_size=kind.vector_dim)
    elif kind.is_list:
        item = st.lists(st.none() | item, max_size=4)
    return st.none() | item


@st.composite
def results(draw: st.DrawFn) -> QueryResult:
    """Results of one to four columns, in chunks of any size."""
    names = draw(
        st.lists(
            st.text(min_size=1, max_size=6, alphabet='abé.," \n'),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    count = draw(st.integers(0, 6))
    columns: dict[str, tuple[PropType, Sequence[object]]] = {}
    for name in names:
        kind = draw(kinds())
        columns[name] = (kind, draw(st.lists(values_of(kind), min_size=count, max_size=count)))
    return result_of(columns, rows_per_chunk=draw(st.integers(1, 7)))
