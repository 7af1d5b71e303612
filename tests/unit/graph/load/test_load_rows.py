"""The rows of a load: slices, lines, ids and their other spellings, defaults, limits."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.clock import ManualClock
from omnigraph.errors import ExternalBlobDenied, InvalidArgument, ResourceLimit
from omnigraph.graph.blobs.blob_values import BlobBudget
from omnigraph.graph.load import rows as load_rows
from omnigraph.graph.load.rows import LoadRows, RowReading
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.ndjson import reader
from omnigraph.graph.validation import Code, FittedRows, check_rows, gather
from omnigraph.ids import seeded_ids
from omnigraph.lang import accept_schema, compile_schema
from omnigraph.storage.blobs import STORED_BLOB

SCHEMA = """
node Person { name: String @key  age: I32? @default(7)  note: String? }
node Day { day: Date @key }
node Size { size: F64  unit: String  count: I64  @key(size, unit, count) }
node Moment { at: DateTime @key }
node Flag { on: Bool @key }
node Link { url: String  vec: Vector(2) @embed("url")  picture: Blob? }
edge Link: Person -> Person { weight: F32? }
edge On: Day -> Day
edge Fits: Size -> Day
edge Shown: Flag -> Moment
"""


def reading() -> RowReading:
    clock = ManualClock(now_us=1_000_000)
    return RowReading(
        catalog=accept_schema(compile_schema(SCHEMA)).catalog,
        ids=seeded_ids(1, clock),
        blobs=BlobBudget(),
    )


def node(type_: str, /, **data: object) -> dict[str, object]:
    return {"type": type_, "data": data}


def edge(type_: str, source: object, target: object, /, **data: object) -> dict[str, object]:
    return {"edge": type_, "from": source, "to": target, "data": data}


def load(records: Iterable[Mapping[str, object]]) -> LoadRows:
    return reading().read_lines(b"\n".join(json.dumps(each).encode() for each in records))


def table(rows: LoadRows, name: str) -> FittedRows:
    (found,) = [each for each in rows.tables.values() if key_of(each.item) == name]
    return found


def values(rows: LoadRows, name: str, *columns: str) -> list[tuple[Any, ...]]:
    found = table(rows, name).table.select(list(columns)).to_pydict()
    return list(zip(*found.values(), strict=True))


def faults(rows: LoadRows) -> list[tuple[str, int | None, str | None]]:
    found = gather([rows.findings, *(check_rows(each) for each in rows.tables.values())])
    return [
        (each.code.value, each.subject.input_line, each.subject.entity_id)
        for each in found.violations
    ]


# --- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n", b"\n \t"])
@pytest.mark.parametrize("between", [b"\n", b"\r\n", b"\n\n", b"\r\n\r\n"])
def test_lines_end_as_they_like_and_blank_ones_are_counted(between: bytes, end: bytes) -> None:
    lines = [json.dumps(node("Person", name=name)).encode() for name in ("a", "b")]
    rows = reading().read_lines(between.join(lines) + end)
    assert values(rows, "node:Person", "id") == [("a",), ("b",)]
    assert table(rows, "node:Person").lines.to_pylist() == [1, 1 + between.count(b"\n")]  # type: ignore[union-attr]  # text has lines


@pytest.mark.parametrize("text", [b"", b"\n", b" \r\n\n"])
def test_no_records_are_no_tables(text: bytes) -> None:
    rows = reading().read_lines(text)
    assert (rows.tables, rows.findings.total, rows.read) == ({}, 0, 0)


def test_every_line_has_its_number_over_many_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[dict[str, object]] = []
    for at in range(1, 31):
        match at % 5:
            case 0:
                records.append(node("Nobody", at=at))
            case 1:
                records.append(node("Person", name=f"p{at:02}", age="x"))
            case 2:
                records.append(edge("Link", f"p{at:02}", 3))
            case _:
                records.append(node("Person", name=f"p{at:02}", id="other"))
    wanted = faults(load(records))
    for size_bytes in (0, 1, 100, 400):
        monkeypatch.setattr(reader, "_PIECE_BYTES", size_bytes)
        rows = load(records)
        assert faults(rows) == wanted
        people = table(rows, "node:Person")
        assert people.lines is not None
        assert people.lines.to_pylist() == [at for at in range(1, 31) if at % 5 in (1, 3, 4)]
    assert [line for code, line, _ in wanted if code in ("unknown_type", "id_mismatch")] == [
        at for at in range(1, 31) if at % 5 in (0, 3, 4)
    ]
    ends = [(code, entity) for code, _, entity in wanted if code == "type_error"]
    assert len(ends) == 12


def test_ids_that_contradict_their_keys_are_reported_by_line_and_counted_beyond_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [node("Person", name=f"k{9_999 - at}", id="wrong") for at in range(2_500)]
    for size_bytes in (reader._PIECE_BYTES, 40_000):
        monkeypatch.setattr(reader, "_PIECE_BYTES", size_bytes)
        found = table(load(records), "node:Person").findings
        assert found.counts == {Code.ID_MISMATCH: 2_500}
        assert [each.subject.input_line for each in found.violations] == list(range(1, 1_001))


def test_bad_cells_are_reported_by_id_and_counted_beyond_a_thousand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_PIECE_BYTES", 30_000)
    records = [node("Person", name=f"k{9_999 - at}", age="x") for at in range(2_500)]
    found = gather([table(load(records), "node:Person").findings])
    assert found.counts == {Code.TYPE_ERROR: 2_500}
    lines = [each.subject.input_line for each in found.violations]
    assert lines == list(range(2_500, 1_500, -1))


def test_findings_stand_by_check_then_kind_then_type_then_id_then_property() -> None:
    rows = load(
        [
            edge("Link", "b", "b", weight="x", id="e1"),
            node("Person", name="b", age="x", note=3),
            node("Person", name="a", age=1.5),
            node("Day", day="never"),
            node("Person", name="c", id="d"),
            {"type": "Nobody"},
        ]
    )
    assert faults(rows) == [
        ("id_mismatch", 5, "c"),
        ("unknown_type", 6, None),
        ("type_error", 4, None),
        ("type_error", 3, "a"),
        ("type_error", 2, "b"),
        ("type_error", 2, "b"),
        ("type_error", 1, "e1"),
    ]


# --- ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "canonical"),
    [
        (node("Day", day="2024-01-01", id="2024-01-01"), "19723"),
        (node("Day", day=19723, id="2024-01-01"), "19723"),
        (node("Day", day="2024-01-01", id="19723"), "19723"),
        (node("Day", day="2024-01-01", id="0019723"), "19723"),
        (node("Moment", at="2024-01-01", id="2024-01-01T01:00:00+01:00"), "1704067200000"),
        (node("Flag", on=True, id="true"), "true"),
        (
            node("Size", size=1, unit="m", count=7, id='["1.0", "m", "007"]'),
            '["1","m","7"]',
        ),
        (node("Size", size=1e21, unit="é", count=7, id='["1e21","é",7]'), None),
        (node("Person", name="a", id=None), "a"),
    ],
)
def test_a_given_id_of_a_keyed_node_may_spell_the_same_key(
    record: dict[str, object], canonical: str | None
) -> None:
    rows = load([record])
    (found,) = rows.tables.values()
    assert found.findings.total == 0
    wanted = '["1000000000000000000000","é","7"]' if canonical is None else canonical
    assert found.table["id"].to_pylist() == [wanted]


@pytest.mark.parametrize(
    "record",
    [
        node("Person", name="a", id="b"),
        node("Person", name="a", id=""),
        node("Day", day="2024-01-01", id="2024-01-02"),
        node("Day", day="2024-01-01", id="day"),
        node("Flag", on=True, id="True"),
        node("Size", size=1, unit="m", count=7, id='["1","m"]'),
        node("Size", size=1, unit="m", count=7, id="1 m 7"),
        node("Size", size=1, unit="m", count=7, id="[" * 5_000),
        node("Size", size=1, unit="m", count=7, id='["NaN","m","7"]'),
    ],
)
def test_any_other_given_id_of_a_keyed_node_is_refused(record: dict[str, object]) -> None:
    ((code, line, entity),) = faults(load([record]))
    (found,) = load([record]).tables.values()
    assert (code, line) == ("id_mismatch", 1)
    assert [entity] == found.table["id"].to_pylist()


def test_ends_in_an_old_spelling_follow_it_wherever_they_stand() -> None:
    rows = load(
        [
            edge("On", "2024-01-01", "2024-01-02", id="1"),
            edge("Fits", '["1.0","m","7"]', "2024-01-02", id="2"),
            node("Day", day="2024-01-01", id="2024-01-01"),
            node("Day", day="2024-01-02"),
            node("Size", size=1.0, unit="m", count=7, id='["1.0","m","7"]'),
            edge("On", "19723", "2024-01-01", id="3"),
        ]
    )
    assert values(rows, "edge:On", "src", "dst") == [
        ("19723", "2024-01-02"),
        ("19723", "19723"),
    ]
    assert values(rows, "edge:Fits", "src", "dst") == [('["1","m","7"]', "2024-01-02")]


def test_a_spelling_is_followed_for_its_own_type_only_and_over_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_PIECE_BYTES", 0)
    rows = load(
        [
            edge("Link", "2024-01-01", "2024-01-01", id="1"),
            edge("On", "2024-01-01", "2024-01-02", id="2"),
            node("Day", day="2024-01-01", id="2024-01-01"),
            node("Day", day="2024-01-02", id="2024-01-02"),
        ]
    )
    assert values(rows, "edge:Link", "src", "dst") == [("2024-01-01", "2024-01-01")]
    assert values(rows, "edge:On", "src", "dst") == [("19723", "19724")]


def test_ids_are_made_where_none_is_given_and_kept_where_one_is() -> None:
    rows = load(
        [
            edge("Link", "a", "b"),
            edge("Link", "a", "b", id="mine"),
            edge("Link", "a", "b", id=None),
        ]
    )
    first, mine, third = (each for (each,) in values(rows, "edge:Link", "id"))
    assert mine == "mine"
    assert len(first) == len(third) == 26
    assert first < third


@pytest.mark.parametrize("given", ["", 3, True, ["a"]])
def test_an_id_is_a_text_that_is_not_empty(given: object) -> None:
    ((code, line, _),) = faults(load([edge("Link", "a", "b", id=given)]))
    assert (code, line) == ("type_error", 1)


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (edge("Link", 1, "b", id="e"), "type_error"),
        (edge("Link", None, "b", id="e"), "required_missing"),
        (edge("Link", "a", {"id": "b"}, id="e"), "type_error"),
        ({"edge": "Link", "to": "b", "data": {"id": "e"}}, "required_missing"),
    ],
)
def test_ends_are_texts(record: dict[str, object], code: str) -> None:
    assert faults(load([record])) == [(code, 1, "e")]


# --- values -----------------------------------------------------------------------------------


def test_a_default_fills_what_is_not_mentioned_and_no_null() -> None:
    rows = load(
        [
            node("Person", name="a"),
            node("Person", name="b", age=None),
            node("Person", name="c", age=1),
        ]
    )
    assert values(rows, "node:Person", "age") == [(7,), (None,), (1,)]


def test_a_vector_of_a_text_may_be_left_out_when_the_text_is_there() -> None:
    rows = load(
        [
            node("Link", id="a", url="u"),
            node("Link", id="b", url="u", vec=[1, 2]),
            node("Link", id="c", url="u", vec=[1]),
            node("Link", id="d"),
        ]
    )
    assert faults(rows) == [
        ("type_error", 3, "c"),
        ("required_missing", 4, "d"),
        ("required_missing", 4, "d"),
    ]


def test_blobs_are_bytes_in_base64_and_no_addresses() -> None:
    rows = load([node("Link", id="a", url="u", vec=[1, 2], picture="base64:AAEC")])
    assert values(rows, "node:Link", "picture") == [(b"\x00\x01\x02",)]
    bad = load([node("Link", id="a", url="u", vec=[1, 2], picture="base64:%")])
    assert faults(bad) == [("type_error", 1, "a")]
    with pytest.raises(ExternalBlobDenied):
        load([node("Link", id="a", url="u", vec=[1, 2], picture="s3://b/k")])


def test_blobs_in_the_form_of_a_table_are_no_way_around_that() -> None:
    blobs = pa.array([{"data": None, "uri": "file:///etc/hosts"}], STORED_BLOB)
    given = pa.table({"url": ["u"], "picture": blobs})
    with pytest.raises(ExternalBlobDenied):
        reading().read_tables({"node:Link": given})


def test_rows_of_a_type_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_rows, "MAX_LOAD_ARROW_BYTES", 2_000)
    monkeypatch.setattr(reader, "_PIECE_BYTES", 100)
    small = [node("Person", name="a" * 300), edge("Link", "a" * 300, "a" * 300)] * 2
    assert load(small).read == 4
    with pytest.raises(ResourceLimit) as caught:
        load(small * 3)
    assert caught.value.details["resource"] == "strict_input_arrow_bytes"
    assert caught.value.details["limit"] == 2_000
    with pytest.raises(ResourceLimit):
        reading().read_tables({"Person": pa.table({"name": ["a" * 3_000]})})


# --- tables -----------------------------------------------------------------------------------


def test_tables_come_by_the_name_of_their_type() -> None:
    rows = reading().read_tables(
        {
            "Person": pa.table({"name": ["a"]}),
            "edge:Link": pa.table({"src": ["a"], "dst": ["a"]}),
            "Day": pa.table({"day": pa.array([0], pa.date32()), "id": ["1970-01-01"]}),
            "On": pa.table({"src": ["1970-01-01"], "dst": ["0"]}),
        }
    )
    assert values(rows, "node:Person", "id", "age") == [("a", 7)]
    assert values(rows, "edge:On", "src", "dst") == [("0", "0")]
    assert rows.read == 4
    assert {ref: each.lines for ref, each in rows.tables.items() if each.lines} == {}


@pytest.mark.parametrize(
    "names", [("Persn",), ("Link",), ("Person", "node:Person"), ("edge:Person",), ("",)]
)
def test_a_name_that_means_no_table_or_one_given_twice_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument):
        reading().read_tables({name: pa.table({"name": ["a"]}) for name in names})


def test_a_column_that_the_type_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no property `nme`"):
        reading().read_tables({"Person": pa.table({"nme": ["a"]})})


def test_rows_keep_the_order_of_the_input() -> None:
    found = load([node("Person", name=name) for name in "zaqb"]).tables
    (people,) = found.values()
    assert people.table["id"].to_pylist() == list("zaqb")
