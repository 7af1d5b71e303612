"""The validator agrees with the plain reference on generated schemas, graphs and writes."""

import math
import struct
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import many, quick
from tests.property.strategies import schemas
from tests.unit.graph.validation.memory_rows import MemoryRows, WholeRows
from tests.unit.graph.validation.reference import (
    PlainDelta,
    PlainGraph,
    Row,
    Table,
    expected_findings,
    identified,
    kind_of,
    of_every_kind,
)

from omnigraph.graph.arrays import texts
from omnigraph.graph.validation import FittedRows, TableDelta, fit_rows, validate
from omnigraph.lang import Catalog, EdgeType, NodeType, PropType, Scalar

_IDS = ("", "a", "B", "é", "\0", "1")
_TEXTS = ("", "a", "b", "A", "é", "\0", '"', "a, b")


def _values(kind: PropType) -> st.SearchStrategy[object]:
    """Few values of a type, so that rows collide."""
    if kind.scalar is Scalar.VECTOR:
        return st.just([0.5] * (kind.vector_dim or 0))
    if kind.is_list:
        return st.lists(_values(kind.item), max_size=2)
    if kind.enum_values is not None:
        return st.sampled_from((*kind.enum_values, "no such value"))
    match kind.scalar:
        case Scalar.STRING:
            return st.sampled_from(_TEXTS)
        case Scalar.BLOB:
            return st.just(b"x")
        case Scalar.BOOL:
            return st.booleans()
        case Scalar.F32 | Scalar.F64:
            return st.sampled_from((0.0, -0.0, 0.1, -9.5, 7.25))
        case Scalar.U32 | Scalar.U64:
            return st.sampled_from((0, 1, 12))
        case _:
            return st.sampled_from((-12, 0, 1, 9))


def _stored(value: object, kind: PropType) -> object:
    if isinstance(value, float) and not kind.is_list:
        if kind.scalar is Scalar.F32:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        return math.fabs(value) if value == 0 else value
    return value


@st.composite
def _rows(draw: st.DrawFn, item: NodeType | EdgeType, ends: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 5))):
        row: dict[str, object] = {}
        for name in item.arrow_schema.names:
            kind = kind_of(item, name)
            if name == "id":
                row[name] = draw(st.sampled_from(_IDS[1:]))
            elif name in ("src", "dst") and name not in item.properties:
                row[name] = draw(st.sampled_from((*ends, "nobody")))
            elif draw(st.integers(0, 9)) < (3 if kind.nullable else 1):
                row[name] = None
            else:
                row[name] = _stored(draw(_values(kind)), kind)
        rows.append(identified(item, row))
    return rows


def _ids(rows: Sequence[Row]) -> list[str]:
    return sorted({str(row["id"]) for row in rows if row["id"] is not None})


@st.composite
def _writes(draw: st.DrawFn) -> tuple[Catalog, list[PlainDelta], PlainGraph]:
    catalog = draw(schemas(min_edges=1)).catalog
    tables: dict[Table, dict[str, Row]] = {}
    deltas: list[PlainDelta] = []
    ends: dict[str, list[str]] = {}
    items: list[NodeType | EdgeType] = [*catalog.node_types.values()]
    items += catalog.edge_types.values()
    for item in items:
        pool = (
            ends[item.from_type] + ends[item.to_type] if isinstance(item, EdgeType) else list(_IDS)
        )
        old, new = draw(_rows(item, pool)), draw(_rows(item, pool))
        table = (isinstance(item, EdgeType), item.name)
        tables[table] = {str(row["id"]): row for row in old if row["id"] is not None}
        known = _ids([*old, *new])
        if isinstance(item, NodeType):
            ends[item.name] = known
        if draw(st.integers(0, 3)) == 0:
            continue
        some = st.frozensets(st.sampled_from(known)) if known else st.just(frozenset[str]())
        deltas.append(
            PlainDelta(
                item=item,
                rows=new,
                strict=draw(some) & frozenset(_ids(new)),
                removed=draw(some),
                replaces_all=draw(st.integers(0, 4)) == 0,
                repeats_edge_ids=draw(st.booleans()),
            )
        )
    return catalog, draw(st.permutations(deltas)), PlainGraph(tables=tables)


def _fitted(item: NodeType | EdgeType, rows: Sequence[Row]) -> FittedRows:
    schema = item.arrow_schema
    columns = {
        name: pa.array([row[name] for row in rows], schema.field(name).type)
        for name in schema.names
    }
    return fit_rows(item, pa.table(columns))


def _agree(write: tuple[Catalog, list[PlainDelta], PlainGraph], limit: int) -> None:
    catalog, plain, graph = write
    committed, whole = MemoryRows(catalog), WholeRows(catalog)
    for (is_edge, name), rows in graph.tables.items():
        item = catalog.edge_types[name] if is_edge else catalog.node_types[name]
        for each in (committed, whole):
            each.put(item, _fitted(item, list(rows.values())).table)
    deltas = [
        TableDelta(
            rows=_fitted(one.item, one.rows),
            strict_ids=texts(sorted(one.strict)),
            removed=texts(sorted(one.removed)),
            replaces_all=one.replaces_all,
            repeats_edge_ids=one.repeats_edge_ids,
        )
        for one in plain
    ]
    expected = expected_findings(catalog, plain, graph)
    found = validate(catalog, deltas, committed, limit=limit)
    assert validate(catalog, deltas, whole, limit=limit) == found
    assert found.total == len(expected)
    kinds = [(code, is_edge, name) for _, is_edge, name, *_, code, _ in expected]
    assert [(one.code.value, one.message) for one in found.violations] == [
        expected[number][-2:] for number in of_every_kind(kinds, limit)
    ]


@quick(15)
@given(_writes(), st.sampled_from((1, 3, 1_000)))
def test_validator_and_reference_find_the_same_in_the_same_order(
    write: tuple[Catalog, list[PlainDelta], PlainGraph], limit: int
) -> None:
    _agree(write, limit)


@many
@given(_writes(), st.sampled_from((1, 3, 1_000)))
def test_validator_and_reference_agree_at_length(
    write: tuple[Catalog, list[PlainDelta], PlainGraph], limit: int
) -> None:
    _agree(write, limit)
