"""The NDJSON graph format: every refusal, its line, and that nothing else is refused."""

import json
import sys
import tracemalloc

import pytest

from omnigraph.errors import ResourceLimit
from omnigraph.graph.ndjson.strict_reader import GraphLineReader
from omnigraph.graph.validation import Code
from omnigraph.lang import compile_schema
from omnigraph.limits import MAX_NDJSON_LINE_BYTES, MAX_NDJSON_STRUCTURAL_SLOTS

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node Link { url: String  src: String? }
edge Knows: Person -> Person { since: I32? }
edge Link: Person -> Person
"""

Found = tuple[str, int, str]


def read(*lines: bytes, first: int = 1) -> GraphLineReader:
    reader = GraphLineReader(compile_schema(SCHEMA))
    reader.read(lines, first=first)
    return reader


def refused(line: bytes) -> tuple[Code, str]:
    """The one finding of a line that is no record."""
    reader = read(line)
    (found,) = reader.findings.violations
    assert reader.findings.counts == {found.code: 1}
    assert found.subject.input_line == 1
    assert reader.take() == []
    return found.code, found.message


def taken(*lines: bytes) -> dict[str, list[dict[str, object]]]:
    """The rows of lines that all are records, by kind and type."""
    reader = read(*lines)
    assert reader.findings.violations == ()
    return {
        f"{'edge' if hasattr(each.item, 'from_type') else 'node'}:{each.item.name}": each.rows
        for each in reader.take()
    }


# --- records ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"Person","data":{"name":"a:b","age":3}}',
        b'{ "type" : "Person" , "data" : { "name" : "a:b" , "age" : 3 } }',
        b'\t {"data":{"age":3,"name":"a:b"},"type":"Person"} \t',
        b'{"type":"Person","data":{"name":"a:b","age":3}}\r',
        b'{"type":"Person","data":{"n\\u0061me":"a\\u003ab","age":3}}',
        b'{"type":"Person","data":{"name":"a:b","age":"3"}}',
    ],
)
def test_a_node_may_be_written_with_any_blanks_order_and_escapes(line: bytes) -> None:
    (row,) = taken(line)["node:Person"]
    assert (row["name"], int(str(row["age"]))) == ("a:b", 3)


def test_quotes_and_colons_inside_texts_are_no_members() -> None:
    (row,) = taken(rb'{"type":"Person","data":{"name":"\"name\":1, \"name\": 2"}}')["node:Person"]
    assert row["name"] == '"name":1, "name": 2'


def test_data_may_be_left_out() -> None:
    found = taken(b'{"type":"Person"}', b'{"edge":"Knows","from":"a","to":"b"}')
    assert found == {"node:Person": [{}], "edge:Knows": [{"src": "a", "dst": "b"}]}


def test_a_name_of_a_node_type_and_an_edge_type_means_what_the_member_says() -> None:
    found = taken(
        b'{"type":"Link","data":{"url":"u","src":"mine"}}',
        b'{"edge":"Link","from":"a","to":"b","data":{}}',
    )
    assert found == {
        "node:Link": [{"url": "u", "src": "mine"}],
        "edge:Link": [{"src": "a", "dst": "b"}],
    }


@pytest.mark.parametrize("line", [b'{"edge":"Knows","to":"b"}', b'{"edge":"Knows","from":null}'])
def test_an_end_that_is_missing_is_left_to_the_rules_of_the_row(line: bytes) -> None:
    (row,) = taken(line)["edge:Knows"]
    assert row.get("src") is None


def test_an_id_is_a_member_of_data() -> None:
    (row,) = taken(b'{"edge":"Knows","from":"a","to":"b","data":{"id":"e"}}')["edge:Knows"]
    assert row == {"id": "e", "src": "a", "dst": "b"}


def test_taken_records_stand_by_kind_then_name_with_their_lines_and_only_once() -> None:
    reader = read(
        b'{"edge":"Link","from":"a","to":"b"}',
        b'{"type":"Person","data":{"name":"a"}}',
        b"",
        b'{"type":"Link","data":{"url":"u"}}',
        b'{"edge":"Knows","from":"a","to":"b"}',
        b'{"type":"Person","data":{"name":"b"}}',
        first=11,
    )
    found = [(each.item.name, each.lines) for each in reader.take()]
    assert found == [("Link", [14]), ("Person", [12, 16]), ("Knows", [15]), ("Link", [11])]
    assert reader.take() == []


@pytest.mark.parametrize("line", [b"", b" ", b"\t", b"\r", b"  \t\r"])
def test_a_blank_line_is_nothing_and_counts_as_a_line(line: bytes) -> None:
    reader = read(line, b"x", line, b"y")
    assert [each.subject.input_line for each in reader.findings.violations] == [2, 4]


# --- lines that are no JSON -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"x", "malformed JSON at column 1"),
        (b'{"type":"Person","data":{}', "malformed JSON at column 27"),
        (b'{"type":"Person","data":{}} {}', "malformed JSON at column 29: Extra data"),
        (b'{"type":"Person","data":{"name":\'a\'}}', "malformed JSON at column 33"),
        (b'{"type":"Person","data":{"age":01}}', "malformed JSON at column 33"),
        (b'{"type":"Person","data":{"name":"a\tb"}}', "malformed JSON at column 35"),
        (b'{"type":"Person","data":{},}', "malformed JSON at column 28"),
        (b'{"type":"Person","data":{"age":NaN}}', "NaN is no JSON number"),
        (b'{"type":"Person","data":{"age":Infinity}}', "Infinity is no JSON number"),
        (b'{"type":"Person","data":{"age":-Infinity}}', "-Infinity is no JSON number"),
        (b'\xef\xbb\xbf{"type":"Person"}', "byte order mark"),
        (b'{"type":"Person","data":{"name":"\xff"}}', "invalid UTF-8 at byte 34 of the line"),
        (b'{"type":"Person","data":{"name":"\xed\xa0\x80"}}', "invalid UTF-8 at byte 34"),
        (b'{"type":"Person","data":{"name":"\xc0\x80"}}', "invalid UTF-8 at byte 34"),
        (rb'{"type":"Person","data":{"name":"\ud800"}}', "column 34: a lone surrogate"),
        (rb'{"type":"Person","data":{"name":"\udc00"}}', "column 34: a lone surrogate"),
        (rb'{"type":"Person","data":{"name":"\ud83d\ude00\ud83d!"}}', "column 46: a lone surr"),
        (rb'{"type":"Person","data":{"name":"\ud83d \ude00"}}', "column 34: a lone surrogate"),
        (rb'{"type":"Person","data":{"\ud800":1}}', "column 27: a lone surrogate"),
        (b'{"type":"Person","data":{"age":1e400}}', "a number of the line is too large"),
        (b'{"type":"Person","data":{"age":' + b"9" * 5_000 + b"}}", "too large for any type"),
        (rb'{"type":"Person","data":{"name":"\ud83d\ude00","age":1e400}}', "a number of the line"),
        (rb'{"type":"Person","data":{"name":"\\ud800","age":1e400}}', "a number of the line"),
    ],
)
def test_what_is_no_json_is_refused_with_the_place(line: bytes, why: str) -> None:
    code, message = refused(line)
    assert code is Code.JSON_ERROR
    assert why in message


def test_a_number_of_any_length_that_the_parser_reads_is_left_to_the_rules_of_the_row() -> None:
    (row,) = taken(b'{"type":"Person","data":{"age":' + b"9" * 400 + b"}}")["node:Person"]
    assert row["age"] == 10**400 - 1


@pytest.mark.parametrize("tail", [b"", b',"x":{"y":1}'])
def test_nesting_of_any_depth_is_a_record_or_a_finding(tail: bytes) -> None:
    top = sys.getrecursionlimit()
    lines = [
        b'{"type":"Person","data":{"age":' + b"[" * depth + b"]" * depth + b"}" + tail + b"}"
        for depth in [10, *range(top - 150, top + 50), 60_000]
    ]
    reader = read(*lines)
    rows = sum(len(each.rows) for each in reader.take())
    assert reader.findings.total + rows == len(lines)
    assert (rows == 0) is bool(tail)
    assert reader.findings.violations[-1].message == "the line is nested too deeply"


# --- JSON that is no record -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"null", "null"),
        (b"[]", "array"),
        (b"3", "number 3"),
        (b'"Person"', 'string "Person"'),
        (b"true", "boolean true"),
    ],
)
def test_what_is_no_object_is_refused(line: bytes, what: str) -> None:
    code, message = refused(line)
    assert (code, message.endswith(f"not {what}")) == (Code.JSON_ERROR, True)


@pytest.mark.parametrize(
    ("line", "has"),
    [
        (b"{}", "neither"),
        (b'{"data":{}}', "neither"),
        (b'{"Type":"Person"}', "neither"),
        (b'{"type":"Person","edge":"Knows"}', "both"),
        (b'{"type":"Person","edge":"Knows","from":"a","to":"b","data":{}}', "both"),
    ],
)
def test_a_record_is_a_node_or_an_edge(line: bytes, has: str) -> None:
    code, message = refused(line)
    assert (code, message.endswith(f"has {has}")) == (Code.JSON_ERROR, True)


@pytest.mark.parametrize(
    ("line", "member"),
    [
        (b'{"type":"Person","data":{"name":"a","name":"b"}}', "name"),
        (b'{"type":"Person","data":{"name":"a","name":"a"}}', "name"),
        (rb'{"type":"Person","data":{"name":"a","n\u0061me":"b"}}', "name"),
        (b'{"type":"Person","data":{"name" :"a","name"\t: "b"}}', "name"),
        (b'{"type":"Person","type":"Person","data":{}}', "type"),
        (b'{"type":"Nobody","type":"Person","data":{}}', "type"),
        (rb'{"typ\u0065":"Person","type":"Person"}', "type"),
        (b'{"type":"Person","data":{"name":"a"},"data":{"age":1}}', "data"),
        (b'{"type":"Person","data":{"name":"a"},"data":{}}', "data"),
        (b'{"type":"Person","data":null,"data":{}}', "data"),
        (b'{"edge":"Knows","from":"a","to":"b","from":"c","data":{}}', "from"),
        (b'{"edge":"Knows","from":"a","to":"b","data":{"since":1,"since":null}}', "since"),
        (b'{"type":"Person","data":{"name":{"a":1,"a":2}}}', "a"),
        (b'{"x":1,"x":2}', "x"),
        (b'{"type":"Person","data":{"age":' + b"9" * 400 + b',"age":1}}', "age"),
    ],
)
def test_a_member_twice_is_refused_at_every_level(line: bytes, member: str) -> None:
    assert refused(line) == (Code.JSON_ERROR, f'duplicate member "{member}"')


@pytest.mark.parametrize("value", [b"null", b"[]", b'"x"', b"3"])
def test_data_is_an_object(value: bytes) -> None:
    code, message = refused(b'{"type":"Person","data":' + value + b"}")
    assert (code, message.startswith("`data` is an object")) == (Code.JSON_ERROR, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"type":"Persn","data":{}}', "unknown node type `Persn`"),
        (b'{"edge":"Person","from":"a","to":"b"}', "unknown edge type `Person`"),
        (b'{"type":"Knows","data":{}}', "unknown node type `Knows`"),
        (b'{"type":3,"data":{}}', "`type` is the name of a type, not number 3"),
        (b'{"type":null}', "`type` is the name of a type, not null"),
        (b'{"edge":["Knows"],"from":"a","to":"b","data":{}}', "`edge` is the name of a type"),
    ],
)
def test_an_unknown_type_is_refused(line: bytes, message: str) -> None:
    code, found = refused(line)
    assert (code, found.startswith(message)) == (Code.UNKNOWN_TYPE, True)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b'{"type":"Person","data":{"nme":"a"}}', Code.UNKNOWN_MEMBER, "no property `nme`"),
        (b'{"type":"Person","data":{"src":"a"}}', Code.UNKNOWN_MEMBER, "no property `src`"),
        (b'{"type":"Person","data":{"":1}}', Code.UNKNOWN_MEMBER, "no property ``"),
        (b'{"type":"Person","name":"a"}', Code.UNKNOWN_MEMBER, "the id go into `data`"),
        (b'{"type":"Person","data":{},"id":"a"}', Code.UNKNOWN_MEMBER, "the id go into `data`"),
        (b'{"type":"Person","from":"a","data":{}}', Code.UNKNOWN_MEMBER, '"from" of the record'),
        (b'{"edge":"Knows","src":"a","dst":"b"}', Code.UNKNOWN_MEMBER, '"src" of the record'),
        (b'{"type":"Person","data":{"_rowid":1}}', Code.RESERVED_MEMBER, '"_rowid"'),
        (b'{"type":"Person","data":{"_score":1}}', Code.RESERVED_MEMBER, '"_score"'),
        (
            b'{"edge":"Knows","from":"a","to":"b","data":{"src":"a"}}',
            Code.RESERVED_MEMBER,
            "the ends of an edge are `from` and `to` beside `data`",
        ),
        (
            b'{"edge":"Knows","from":"a","to":"b","data":{"to":"a"}}',
            Code.RESERVED_MEMBER,
            "the ends of an edge are",
        ),
        (b'{"edge":"Knows","data":{"_distance":1}}', Code.RESERVED_MEMBER, '"_distance"'),
    ],
)
def test_a_member_that_the_type_does_not_have_is_refused(
    line: bytes, code: Code, message: str
) -> None:
    found, text = refused(line)
    assert (found, message in text) == (code, True)


def test_a_long_name_is_cut_in_messages_and_details() -> None:
    name = "x" * 10_000
    line = json.dumps({"type": "Person", "data": {name: 1}}).encode()
    (found,) = read(line).findings.violations
    assert len(found.message) < 400
    assert len(found.properties[0]) == 60


# --- many ----------------------------------------------------------------------------------------


def test_one_bad_line_is_one_finding_however_much_is_wrong_with_it() -> None:
    line = b'{"type":"Nobody","edge":"Knows","type":"X","data":{"a":1,"a":2},"more":NaN}'
    assert read(line, line).findings.total == 2


def test_counts_are_exact_and_the_first_thousand_are_kept_in_order() -> None:
    bad = [b"x", b'{"type":"Nobody"}', b'{"type":"Person","data":{"_rowid":1}}', b""]
    reader = read(*(bad[at % 4] for at in range(6_000)))
    found = reader.findings
    assert found.counts == {
        Code.JSON_ERROR: 1_500,
        Code.UNKNOWN_TYPE: 1_500,
        Code.RESERVED_MEMBER: 1_500,
    }
    lines = [each.subject.input_line for each in found.violations]
    assert lines == [at + 1 for at in range(6_000) if at % 4 < 3][:1_000]


# --- limits -----------------------------------------------------------------------------------


def test_a_line_that_is_too_long_ends_the_reading() -> None:
    with pytest.raises(ResourceLimit, match="line 7 ") as caught:
        read(b"x" * (MAX_NDJSON_LINE_BYTES + 1), first=7)
    assert caught.value.details["resource"] == "graph_batch_line_bytes"
    assert caught.value.details["actual"] == MAX_NDJSON_LINE_BYTES + 1


def test_a_line_that_would_become_too_many_objects_ends_the_reading() -> None:
    others = len("{:,:{:[]}}")
    commas = MAX_NDJSON_STRUCTURAL_SLOTS - others

    def line(extra: int) -> bytes:
        zeros = b"0" + b",0" * (commas + extra)
        return b'{"type":"Person","data":{"tags":[' + zeros + b"]}}"

    assert len(taken(line(0))["node:Person"]) == 1
    with pytest.raises(ResourceLimit) as caught:
        read(line(1))
    details = caught.value.details
    assert details["resource"] == "graph_batch_json_structural_slots"
    assert details["actual"] == MAX_NDJSON_STRUCTURAL_SLOTS + 1


@pytest.mark.parametrize("piece", [b"[{,:}]", rb"\"[,", b"plain  "])
def test_brackets_inside_texts_are_no_objects_and_a_long_text_costs_little(piece: bytes) -> None:
    line = b'{"type":"Person","data":{"name":"' + piece * (1 << 19) + b'"}}'
    tracemalloc.start()
    (row,) = taken(line)["node:Person"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(str(row["name"])) > 1_000_000
    assert peak < 6 * len(line)


def test_a_text_that_does_not_end_is_looked_at_once() -> None:
    line = b'{"type":"Person","data":{"name":"' + rb"\"" * (1 << 20)
    assert refused(line)[0] is Code.JSON_ERROR
