"""Arrow input to the rows of a type: columns, defaults, ids."""

import pyarrow as pa
import pytest
from tests.property.strategies import CATALOG
from tests.unit.graph.validation.memory_rows import MemoryRows

from omnigraph.clock import ManualClock
from omnigraph.errors import InvalidArgument
from omnigraph.graph.validation import (
    Code,
    TableDelta,
    fit_rows,
    follow_respelled,
    validate,
)
from omnigraph.graph.validation.columns import STORED_BLOB
from omnigraph.ids import IdSource, seeded_ids
from omnigraph.lang import Catalog, EdgeType, NodeType, compile_schema, render_key
from omnigraph.lang.values import parse_date


@pytest.fixture
def ids() -> IdSource:
    return seeded_ids(1, ManualClock(now_us=1_000_000))


def _codes(found: object) -> list[tuple[str, str | None, tuple[str, ...]]]:
    violations = found.violations  # type: ignore[attr-defined]  # findings
    return [(one.code.value, one.subject.entity_id, one.properties) for one in violations]


def test_columns_come_by_name_and_the_schema_is_exact(catalog: Catalog) -> None:
    person = catalog.node_types["Person"]
    given = pa.table({"age": pa.array([1], pa.int64()), "slug": ["x"]})
    fitted = fit_rows(person, given)
    assert fitted.table.schema == person.arrow_schema
    assert fitted.table.to_pylist() == [
        dict.fromkeys(person.arrow_schema.names)
        | {"id": "x", "slug": "x", "age": 1, "active": True}
    ]
    assert not fitted.findings.total


class _Stream:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]  # so in the stubs


def test_anything_that_speaks_arrow_is_taken(catalog: Catalog) -> None:
    team = catalog.node_types["Team"]
    table = pa.concat_tables([pa.table({"id": [one], "name": [one]}) for one in "ab"])
    forms: tuple[object, ...] = (
        table,
        table.combine_chunks().to_batches()[0],
        table.to_batches(),
        table.to_reader(),
        _Stream(table),
    )
    for form in forms:
        fitted = fit_rows(team, form)  # type: ignore[arg-type]  # each is one of the forms
        assert fitted.table.column("name").to_pylist() == ["a", "b"]


def test_an_empty_input_has_the_schema(catalog: Catalog) -> None:
    items: list[NodeType | EdgeType] = [*catalog.node_types.values()]
    for item in (*items, *catalog.edge_types.values()):
        fitted = fit_rows(item, pa.table({}))
        assert fitted.table.schema == item.arrow_schema
        delta = TableDelta(rows=fitted)
        assert not validate(catalog, [delta], MemoryRows(catalog)).total


def test_an_unknown_column_names_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(
        InvalidArgument, match="Person has no property `emial`; did you mean `email`"
    ):
        fit_rows(catalog.node_types["Person"], pa.table({"emial": ["x"]}))


def test_a_column_given_twice_is_refused(catalog: Catalog) -> None:
    given = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["slug", "slug"])
    with pytest.raises(InvalidArgument, match="`slug` of Person is given twice"):
        fit_rows(catalog.node_types["Person"], given)


def test_a_missing_required_column_is_missing_in_every_row(catalog: Catalog) -> None:
    found = fit_rows(catalog.node_types["Team"], pa.table({"id": ["b", "a"]})).findings
    assert _codes(found) == [
        ("required_missing", "a", ("name",)),
        ("required_missing", "b", ("name",)),
    ]
    assert found.violations[0].message == "Team.name: expected String, got null"


def test_a_default_fills_what_is_not_mentioned_and_no_explicit_null(catalog: Catalog) -> None:
    person = catalog.node_types["Person"]
    assert fit_rows(person, pa.table({"slug": ["x"]})).table.column("active").to_pylist() == [True]
    given = pa.table({"slug": ["x", "y", "z"], "active": [None, None, False]})
    some = fit_rows(person, given, unmentioned={"active": pa.array([True, False, False])})
    assert some.table.column("active").to_pylist() == [True, None, False]
    assert _codes(some.findings) == [("required_missing", "y", ("active",))]


def test_a_default_hides_no_value_of_the_wrong_type(catalog: Catalog) -> None:
    given = pa.table({"slug": ["x", "y"], "active": ["no", None]})
    mentioned = {"active": pa.array([False, True])}
    found = fit_rows(catalog.node_types["Person"], given, unmentioned=mentioned)
    assert _codes(found.findings) == [("type_error", "x", ("active",))]
    assert found.table.column("active").to_pylist() == [None, True]


def test_defaults_of_every_type_are_typed() -> None:
    catalog = compile_schema("""
node N {
  k: String @key  d: Date @default("2024-02-29")  t: DateTime @default("2024-02-29T12:00:00Z")
  f: F32 @default(0.1)  u: U64 @default(18446744073709551615)  e: enum(a, b) @default("b")
}
""")
    (row,) = fit_rows(catalog.node_types["N"], pa.table({"k": ["x"]})).table.to_pylist()
    assert str(row["d"]) == "2024-02-29"
    assert row["t"].isoformat() == "2024-02-29T12:00:00+00:00"
    assert (row["u"], row["e"]) == (2**64 - 1, "b")


def test_ids_of_keyed_nodes_are_those_of_the_one_renderer() -> None:
    catalog = compile_schema(
        "node N { s: String  i: I64  f: F32  g: F64  b: Bool  d: Date  t: DateTime"
        " @key(s, i, f, g, b, d, t) }\nnode F { f: F32 @key }"
    )
    item = catalog.node_types["N"]
    rows: list[dict[str, object]] = [
        {"s": s, "i": i, "f": f, "g": g, "b": b, "d": d, "t": t}
        for s, i, f, g, b, d, t in (
            ("a", 1, 0.1, 1e21, True, 5, -1),
            ('"\\\n\0é', -(2**63), -0.0, 1e-7, False, -5, 0),
            ("", 0, 3.0, 0.1, True, 0, 253402300799999),
        )
    ]
    given = pa.table(
        {
            name: pa.array([r[name] for r in rows], item.arrow_schema.field(name).type)
            for name in rows[0]
        }
    )
    assert item.key is not None
    kinds = [item.properties[name].type for name in item.key]
    singles = given.column("f").to_pylist()
    expected = [
        render_key([single if name == "f" else row[name] for name in item.key], kinds)
        for row, single in zip(rows, singles, strict=True)
    ]
    assert fit_rows(item, given).table.column("id").to_pylist() == expected
    one = fit_rows(catalog.node_types["F"], given.select(["f"]))
    assert one.table.column("id").to_pylist() == ["0.1", "0", "3"]


def test_a_broken_key_leaves_no_id_and_is_reported_once() -> None:
    catalog = compile_schema("node N { a: String  b: I32 @key(a, b) }")
    given = pa.table(
        {"id": ["given", None, None], "a": ["x", None, "z"], "b": pa.array([2**40, 1, 2])}
    )
    fitted = fit_rows(catalog.node_types["N"], given)
    assert fitted.table.column("id").to_pylist() == [None, None, '["z","2"]']
    assert _codes(fitted.findings) == [
        ("required_missing", None, ("a",)),
        ("type_error", "given", ("b",)),
    ]
    found = validate(catalog, [TableDelta(rows=fitted)], MemoryRows(catalog))
    assert found.total == 2


def test_a_given_id_of_another_key_is_check_zero_in_line_order(catalog: Catalog) -> None:
    given = pa.table({"id": ["b", "a", "c"], "slug": ["x", "y", "c"]})
    fitted = fit_rows(catalog.node_types["Person"], given, lines=pa.array([7, 9, 11]))
    assert [one.to_dict() for one in fitted.findings.violations] == [
        {
            "code": "id_mismatch",
            "message": f"Person.id: given '{was}', but the key makes it '{key}'; "
            "leave the id out or correct it",
            "type": "Person",
            "kind": "node",
            "property": "id",
            "entity_id": key,
            "value": was,
            "limit": key,
            "input_line": line,
        }
        for was, key, line in (("b", "x", 7), ("a", "y", 9))
    ]


@pytest.mark.parametrize(
    ("kind", "value", "spelling", "fits"),
    [
        ("Date", parse_date("2024-01-01"), "2024-01-01", True),
        ("Date", parse_date("2024-01-01"), "2024-01-02", False),
        ("Date", 5, "05", True),
        ("DateTime", 1500, "1970-01-01T00:00:01.5Z", True),
        ("DateTime", 1500, "1970-01-01 01:00:01.500+01:00", True),
        ("I64", 7, "007", True),
        ("I64", 7, "8", False),
        ("I64", 7, "seven", False),
        ("F64", 1000.0, "1e3", True),
        ("F64", 1000.0, "nan", False),
        ("F32", 0.5, "0.50", True),
        ("Bool", True, "True", False),
        ("Bool", True, "false", False),
        ("String", "a", "A", False),
    ],
)
def test_another_spelling_of_the_key_is_rewritten(
    kind: str, value: object, spelling: str, *, fits: bool
) -> None:
    catalog = compile_schema(f"node N {{ k: {kind} @key }}")
    item = catalog.node_types["N"]
    given = pa.table({"id": [spelling], "k": pa.array([value], item.arrow_schema.field("k").type)})
    fitted = fit_rows(item, given)
    assert (not fitted.findings.total) is fits
    canonical = fitted.table.column("id")[0].as_py()
    assert fitted.respelled == ({spelling: canonical} if fits else {})


@pytest.mark.parametrize(
    ("spelling", "fits"),
    [
        ('["a", 7]', True),
        ('["a","07"]', True),
        ('["a","8"]', False),
        ('["a"]', False),
        ("a,7", False),
        ("[" * 100_000, False),
        ('["a", [7]]', False),
        ("7", False),
    ],
)
def test_another_spelling_of_a_key_of_several_parts_is_rewritten(
    spelling: str, *, fits: bool
) -> None:
    item = compile_schema("node N { a: String  b: I32 @key(a, b) }").node_types["N"]
    fitted = fit_rows(item, pa.table({"id": [spelling], "a": ["a"], "b": [7]}))
    assert (not fitted.findings.total) is fits


def test_edges_follow_the_rewritten_ids() -> None:
    catalog = compile_schema("node D { day: Date @key }\nnode N { k: String @key }\nedge E: D -> N")
    day = parse_date("2024-01-01")
    nodes = fit_rows(
        catalog.node_types["D"],
        pa.table({"id": ["2024-01-01"], "day": pa.array([day], pa.date32())}),
    )
    edges = fit_rows(
        catalog.edge_types["E"],
        pa.table({"id": ["e", "f"], "src": ["2024-01-01", "other"], "dst": ["2024-01-01"] * 2}),
    )
    followed = follow_respelled(edges, nodes.respelled, {})
    assert followed.table.column("src").to_pylist() == [str(day), "other"]
    assert followed.table.column("dst").to_pylist() == ["2024-01-01"] * 2
    assert followed.table.schema == edges.table.schema


def test_ids_are_minted_where_none_is_given(catalog: Catalog, ids: IdSource) -> None:
    team = catalog.node_types["Team"]
    given = pa.table({"id": ["own", None], "name": ["a", "b"]})
    own, minted = fit_rows(team, given, ids=ids).table.column("id").to_pylist()
    assert own == "own"
    assert len(str(minted)) == 26
    absent = fit_rows(team, given.drop(["id"]), ids=ids)
    assert not absent.findings.total
    assert len(set(absent.table.column("id").to_pylist())) == 2


def test_without_a_source_of_ids_they_must_be_given(catalog: Catalog) -> None:
    found = fit_rows(catalog.node_types["Team"], pa.table({"name": ["a"]})).findings
    assert _codes(found) == [("required_missing", None, ("id",))]


def test_an_id_is_text_and_not_empty(catalog: Catalog, ids: IdSource) -> None:
    team = catalog.node_types["Team"]
    blank = fit_rows(team, pa.table({"id": [""], "name": ["a"]}), ids=ids)
    assert _codes(blank.findings) == [("type_error", "", ("id",))]
    assert blank.findings.violations[0].message == (
        'Team.id: expected a text that is not empty, got string ""'
    )
    assert blank.table.column("id").to_pylist() == [None]
    number = fit_rows(team, pa.table({"id": pa.array([1, None]), "name": ["a", "b"]}), ids=ids)
    assert _codes(number.findings) == [("type_error", None, ("id",))]
    assert number.table.column("id").null_count == 1


def test_the_key_of_a_node_may_be_the_empty_text(catalog: Catalog) -> None:
    fitted = fit_rows(catalog.node_types["Person"], pa.table({"slug": [""]}))
    assert not fitted.findings.total
    assert fitted.table.column("id").to_pylist() == [""]


def test_the_ends_of_an_edge_are_required(catalog: Catalog, ids: IdSource) -> None:
    given = pa.table({"src": ["a", None]})
    found = fit_rows(catalog.edge_types["Knows"], given, ids=ids).findings
    assert found.counts == {Code.REQUIRED_MISSING: 3}
    rows = fit_rows(catalog.edge_types["Knows"], given, ids=ids)
    committed = MemoryRows(catalog, {"Person": [{"slug": "a", "active": True}]})
    assert validate(catalog, [TableDelta(rows=rows)], committed).total == 3


def test_a_blob_may_have_the_form_of_the_storage_layer() -> None:
    person = CATALOG.node_types["Person"]
    stored = pa.array([{"uri": "s3://x"}])
    given = pa.table({"email": ["a@b"], "name": ["A"], "photo": stored})
    fitted = fit_rows(person, given)
    assert fitted.table.schema.field("photo").type == STORED_BLOB
    assert not fitted.findings.total
