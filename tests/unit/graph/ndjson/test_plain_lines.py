"""Texts of plain records: which are taken as a whole, and what becomes of any other."""

import msgspec
import pytest

from omnigraph.graph.ndjson import reader as line_columns
from omnigraph.graph.ndjson.bulk_reader import PlainLines
from omnigraph.graph.ndjson.reader import LineColumnReader, TypeColumns
from omnigraph.graph.validation import Code
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog import EdgeType
from omnigraph.limits import MAX_NDJSON_STRUCTURAL_SLOTS

CATALOG = compile_schema(
    """
node Person { name: String @key  age: I32?  class: String? }
node Link { url: String }
edge Knows: Person -> Person { since: I32? }
edge Link: Person -> Person
"""
)
ONE_NODE = compile_schema("node Person { name: String? }")
ADA = b'{"type":"Person","data":{"name":"Ada","age":1}}'
BOB = b'{"type":"Person","data":{"name":"Bob"}}'
KNOWS = b'{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":1840}}'
UNSET = msgspec.UNSET


def taken(*lines: bytes) -> bool:
    return PlainLines(CATALOG).read(b"\n".join(lines)) is not None


def read(text: bytes, *more: bytes) -> tuple[LineColumnReader, list[TypeColumns]]:
    reader = LineColumnReader(CATALOG)
    return reader, [part for each in (text, *more) for part in reader.read(each)]


# --- what is taken ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        (ADA,),
        (ADA, BOB, ADA),
        (KNOWS, KNOWS),
        (ADA, KNOWS, BOB, KNOWS),
        (ADA + b"\r", KNOWS + b"\r", BOB),
        (b"  " + ADA, BOB + b" \t"),
        (b'{"data":{"name":"Ada"},"type":"Person"}',) * 2,
        (b'{"data":{},"edge":"Link","from":"a","to":"b"}',) * 2,
        (b'{ "type" : "Person" , "data" : { "name" : "a : b" , "age"\t : 1 } }',) * 2,
        (b'{"type": "Person", "data": {"name": "12:30", "class": "http://a:1"}}',),
        (rb'{"type":"Person","data":{"n\u0061me":"\"name\":1, \"name\" : 2"}}', ADA),
        (b'{"type":"Person","data":{"name":{"a":1},"age":[{"b":{}}]}}',),
        (b'{"type":"Person","data":{"name":null,"age":1e3}}', b'{"type":"Link","data":{}}'),
    ],
)
def test_records_in_any_spelling_are_taken_at_once(lines: tuple[bytes, ...]) -> None:
    assert taken(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        (b"",),
        (ADA, b""),
        (b"", ADA),
        (ADA, b"", BOB),
        (ADA, b" " + BOB),
        (ADA + b" ", BOB),
        (ADA + BOB, b""),
        (ADA + BOB,),
        (ADA + BOB, b'{"type":"Person","data":', b'{"name":"a"}}'),
        (b'{"type":"Person",', b'"data":{"name":"a"}}'),
        (ADA, b'{"type":"Person"}'),
        (ADA, b'{"type":"Person","data":null}'),
        (ADA, b'{"type":"Nobody","data":{}}'),
        (ADA, b'{"type":"","data":{}}'),
        (ADA, b'{"data":{}}'),
        (ADA, b'{"type":"Person","data":{"nobody":1}}'),
        (ADA, b'{"type":"Person","id":"a","data":{}}'),
        (KNOWS, b'{"edge":"Knows","from":"a","data":{}}'),
        (KNOWS, b'{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}'),
        (ADA, b'{"type":"Person","data":{"name":"a","name":"a"}}'),
        (ADA, b'{"type":"Person","data":{"name":"a","n\\u0061me":"a"}}'),
        (ADA, b'{"type":"Person","type":"Person","data":{}}'),
        (ADA, b'{"type":"Person","data":{"name":"a"},"data":{"name":"a"}}'),
        (ADA, b'{"type":"Person","data":{"name":{"a":1,"a":2}}}'),
        (ADA, b'{"type":"Person","data":{"name":"\xff"}}'),
        (ADA, b'{"type":"Person","data":{"name":"\\ud800"}}'),
        (ADA, b'{"type":"Person","data":{"age":1e400}}'),
        (b"\xef\xbb\xbf" + ADA, BOB),
        (ADA, b"{", b"}"),
        (ADA, b"null"),
        (ADA, b'{"type":"Person","data":{"name":"%b"}}' % (b"a" * MAX_NDJSON_STRUCTURAL_SLOTS)),
        (ADA, b'{"type":"Person","data":{"age":%b}}' % (b"[" * 5_000 + b"]" * 5_000)),
    ],
)
def test_anything_in_doubt_leaves_the_whole_text_to_the_strict_reader(
    lines: tuple[bytes, ...],
) -> None:
    assert not taken(*lines)


def test_a_missing_type_and_a_member_twice_do_not_make_up_for_each_other() -> None:
    lines = (b'{"data":{}}', b'{"type":"Person","data":{"name":"a","name":"a"}}')
    assert PlainLines(ONE_NODE).read(b"\n".join(lines)) is None


# --- what becomes of it -----------------------------------------------------------------------


@pytest.mark.parametrize("worth_bytes", [0, 1 << 60])
def test_columns_are_by_type_with_the_numbers_of_their_lines(
    monkeypatch: pytest.MonkeyPatch, worth_bytes: int
) -> None:
    monkeypatch.setattr(line_columns, "_WORTH_BYTES", worth_bytes)
    link = b'{"edge":"Link","from":null,"to":"b","data":{"id":"l"}}'
    reader, parts = read(b"\n".join((KNOWS, ADA, link, BOB)), ADA + b"\n", KNOWS)
    names = [(isinstance(part.item, EdgeType), part.item.name) for part in parts]
    assert names == [
        *((False, "Person"), (True, "Knows"), (True, "Link")),
        *((False, "Person"), (True, "Knows")),
    ]
    assert [part.lines.tolist() for part in parts] == [[2, 4], [1], [3], [5], [7]]
    person, knows, ends = parts[0].rows, parts[1].rows, parts[2].rows
    assert person.column("name").values == ["Ada", "Bob"]
    assert person.column("age").values == [1, UNSET]
    assert person.column("class").values == [UNSET, UNSET]
    assert knows.column("src").values == ["Ada"]
    assert ends.column("src").values == [None]
    assert [each.mentions("id") for each in (person, knows, ends)] == [False, False, True]
    assert (reader.lines, reader.findings.total) == (7, 0)


def test_rows_keep_their_order_where_edges_are_spelled_in_different_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_columns, "_WORTH_BYTES", 0)
    other = b'{"from":"x","to":"y","edge":"Knows","data":{}}'
    for lines in ((KNOWS, other, KNOWS), (other, KNOWS), (other, other), (ADA, other, KNOWS)):
        _, parts = read(b"\n".join(lines))
        (edges,) = (part for part in parts if isinstance(part.item, EdgeType))
        wanted = ["x" if each is other else "Ada" for each in lines if each is not ADA]
        assert edges.rows.column("src").values == wanted
        assert edges.lines.tolist() == [at for at, each in enumerate(lines, 1) if each is not ADA]


def test_faults_are_found_by_the_strict_reader_in_their_own_piece_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_columns, "_WORTH_BYTES", 0)
    monkeypatch.setattr(line_columns, "_PIECE_BYTES", 2 * len(ADA))
    strict: list[int] = []
    reader = LineColumnReader(CATALOG)
    read_strictly = reader._strict.read

    def watched(lines: list[bytes], *, first: int) -> None:
        strict.append(first)
        read_strictly(lines, first=first)

    monkeypatch.setattr(reader._strict, "read", watched)
    lines = [ADA] * 12
    lines[7] = b'{"type":"Nobody","data":{"name":"a","age":12345}}'
    parts = list(reader.read(b"\n".join(lines)))
    assert sum(part.rows.count for part in parts) == 11
    (found,) = reader.findings.violations
    assert (found.code, found.subject.input_line) == (Code.UNKNOWN_TYPE, 8)
    assert strict == [7]


def test_a_short_text_is_not_worth_a_parser_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = LineColumnReader(CATALOG)

    def refuse(_: bytes) -> None:
        pytest.fail("the parser of many lines was made")

    monkeypatch.setattr(reader._plain, "read", refuse)
    assert [part.rows.count for part in reader.read(ADA)] == [1]
