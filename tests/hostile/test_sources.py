"""Sources written to hurt: typed errors, bounded findings, seconds at most.

Under the `slow` mark sizes stand just below the limit of a source, so that anything worse than
linear in the compilers shows as a test that does not end; continuous integration takes a fortieth
of that, the default run a fifth of the fortieth.
"""

from collections.abc import Iterator
from time import thread_time

import pytest
from tests.extended import thinned
from tests.property.corpus_texts import (
    PAPERS_QUERIES,
    PAPERS_SCHEMA,
    Outcome,
    diagnostics_of,
    exercise_queries,
    exercise_schema,
)
from tests.property.strategies import CATALOG, FIXED_SCHEMA

from omnigraph.lang import compile_query, compile_schema
from omnigraph.limits import MAX_DIAGNOSTICS, MAX_NESTING, MAX_SOURCE_BYTES, MAX_VALUE_DEPTH

_SECONDS = {5_000: 1.0, 25_000: 3.0, MAX_SOURCE_BYTES - 1_000: 60.0}
"""Sizes of large sources in bytes, and how long one may take, in seconds of this thread alone."""
_ABOVE = 10 * MAX_SOURCE_BYTES
_at_every_size = pytest.mark.parametrize(
    "size",
    [
        pytest.param(size, marks=marks)
        for size, marks in zip(
            _SECONDS,
            ([], [pytest.mark.extended], [pytest.mark.slow, pytest.mark.timeout(300)]),
            strict=True,
        )
    ],
)


def _both(data: str | bytes, seconds: float = 5.0) -> Iterator[Outcome]:
    """Both compilers on one source, each within its time."""
    for exercise in (exercise_schema, _exercise_queries):
        started = thread_time()
        yield exercise(data)
        assert thread_time() - started < seconds


def _exercise_queries(data: str | bytes) -> Outcome:
    return exercise_queries(CATALOG, data)


def _fill(unit: str, size: int) -> str:
    return unit * (size // len(unit.encode()))


def _series(unit: str, size: int, between: str = "") -> str:
    """`unit` with `#` counted up, as often as fits."""
    parts: list[str] = []
    length = number = 0
    while length < size:
        part = unit.replace("#", str(number))
        parts.append(part)
        length += len(part) + len(between)
        number += 1
    return between.join(parts)


def _read(clauses: str, returned: str = "1 as one", tail: str = "") -> str:
    return f"query q() {{ match {{ {clauses} }} return {{ {returned} }} {tail} }}"


_UNITS = [
    *(
        "a",
        "[",
        "{",
        "(",
        '"',
        "/* ",
        "/**/",
        "\n",
        " ",
        "// x\n",
        "7",
        "0.",
        "-",
        "\\",
        "é",
        "\x00",
    ),
    *(
        '\\"',
        '"\\"',
        "$",
        "$_ ",
        "@",
        "@a",
        "..",
        "query ",
        "query q(",
        "node ",
        "node A {",
        "not {",
    ),
    *("}", "]", ")", "/*/", '"a" ', "edge E: A -> A ", "node A {} ", "a: I32 ", "<", "😀", "\r"),
]


@_at_every_size
@pytest.mark.parametrize("unit", _UNITS)
def test_a_large_source_of_one_thing_takes_seconds(unit: str, size: int) -> None:
    for _ in _both(_fill(unit, size), _SECONDS[size]):
        pass


@pytest.mark.parametrize(
    "unit", ["a", "[", "{", '"', "/*", "\n", "// x\n", "7", "é", "query q() {} "]
)
def test_a_source_far_above_the_limit_is_refused_as_such(unit: str) -> None:
    for outcome in _both(_fill(unit, _ABOVE)):
        assert outcome.error is not None
        assert "limit" in outcome.error.message


def _large_queries(size: int) -> dict[str, str]:
    """Query files of about that many bytes, by what is large in them."""
    return {
        "many queries": _series("query q#() { match { $p: Team } return { $p } }\n", size),
        "one name for all queries": _fill("query q() { match { $p: Team } return { $p } }\n", size),
        "many parameters": "query q("
        + _series("$a#: I32", size, ",")
        + ") { delete Link where weight = 1 }",
        "one name for all parameters": "query q("
        + _fill("$a: I32,", size)
        + "$b: I32) { delete Link where weight = 1 }",
        "many components": _read(_series("$p# knows $q# ", size)),
        "a long chain": _read(" ".join(f"$p{n} knows $p{n + 1}" for n in range(size // 26))),
        "a long chain backwards": _read(
            " ".join(f"$p{n + 1} knows $p{n}" for n in range(size // 26))
        ),
        "a chain written from its end": _read(
            " ".join(f"$p{n} knows $p{n + 1}" for n in range(size // 26, 0, -1)) + " $p1: Person"
        ),
        "a star": _read(_series("$p knows $p# ", size)),
        "many traversals between two variables": _read(_fill("$a knows $b ", size)),
        "many bindings": _read(_series('$p#: Person {name: "x"} ', size)),
        "many bindings of one variable": _read(_fill('$p: Person {name: "x"} ', size)),
        "many edge variables": _read(_series("$p $w#:knows $_ ", size)),
        "many columns": _read("$p: Person", _series("$p.age as a#", size, ",")),
        "many columns and orders": _read(
            "$p: Person",
            _series("$p.age as a#", size // 2, ","),
            "order { " + _series("a#", size // 2 - 100, ",") + " }",
        ),
        "many orders by property": _read(
            "$p: Person", "$p.age", "order { " + _fill("$p.age,", size) + "$p.age }"
        ),
        "columns with one name": _read("$p: Person", _fill("$p.age,", size)),
        "many aggregates": _read("$p: Person", _series("count($p) as a#", size, ",")),
        "many negations": _read("$p: Person " + _series("not { $p knows $x# } ", size)),
        "many negations beside many variables": _read(
            "$p: Person "
            + _series("$x# knows $y# ", size // 2)
            + _fill("not { $p knows $z } ", size // 2)
        ),
        "many filters": _read("$p: Person " + _series("$p.age > # ", size)),
        "many filters of two variables": _read(
            "$p: Person $q: Person " + _fill("$p.age > $q.age ", size)
        ),
        "a long list": _read("$p: Person [" + _series("#", size, ",") + "] contains $p.age"),
        "bad escapes": 'query q() @description("'
        + _fill("\\q", size)
        + '") { delete Link where weight = 1 }',
        "bad escapes after a wide character": (
            'query q() @description("é' + _fill("\\q", size) + '") { delete Link where weight = 1 }'
        ),
        "unbound variables": _read("$p: Person " + _series("$x#.age > 1 ", size)),
        "unbound beside many bound": _read(
            _series("$x#: Person ", size // 2) + _series("$y#.age > 1 ", size // 2)
        ),
        "unknown aliases": _read(
            "$p: Person",
            _series("$p.age as a#", size // 2, ","),
            "order { " + _series("b#", size // 2 - 100, ",") + " }",
        ),
        "unknown types": _read(_series("$p#: Persn# ", size)),
        "unknown edges": _read("$p: Person " + _series("$p knowz# $_ ", size)),
        "unknown functions": _read("$p: Person " + _series("kount#($p.age) = 1 ", size)),
        "undeclared parameters": "query q() { "
        + _series("insert Link { weight: $a# } ", size)
        + "}",
        "open bounds": _read("$p: Person " + _fill("$p knows{2,} $_ ", size)),
        "many inserts": "query q() { " + _series("insert Link {weight: #} ", size) + "}",
        "one assignment many times": "query q() { insert Link {"
        + _fill("weight: 1 ", size)
        + "} }",
        "out of range": "query q() { insert Link {"
        + _fill("weight: 99999999999999999999 ", size)
        + "} }",
        "one long name": _read("$p: Person $p.ag" + "e" * (size - 200) + " = 1"),
        "one long string": _read('$p: Person $p.name = "' + "x" * (size - 200) + '"'),
        "one long number": _read("$p: Person $p.age = " + "7" * (size - 200)),
        "one long fraction": _read("$p: Person $p.height = 0." + "7" * (size - 200)),
        "one long date": _read('$p: Person $p.born = date("' + "7" * (size - 200) + '")'),
        "broken queries": _fill("query q() { match }\n", size),
        "an open string in each query": _fill('query q() { match " }\n', size),
    }


@_at_every_size
@pytest.mark.parametrize("name", _large_queries(1_000))
def test_a_large_query_file_takes_seconds(name: str, size: int) -> None:
    source = _large_queries(size)[name]
    assert len(source.encode()) <= MAX_SOURCE_BYTES
    started = thread_time()
    exercise_queries(CATALOG, source)
    assert thread_time() - started < _SECONDS[size]


_LONG = "a" * 190


def _large_schemas(size: int) -> dict[str, str]:
    """Schemas of about that many bytes, by what is large in them."""
    return {
        "many nodes": _series("node A# {}\n", size),
        "one name for all nodes": _fill("node A {}\n", size),
        "many edges": "node A {}" + _series("edge E#: A -> A\n", size),
        "many properties": "node A { " + _series("p#: I32 ", size) + "}",
        "one name for all properties": "node A { " + _fill("p: I32 ", size) + "}",
        "many indexed properties": "node A { " + _series("p#: I32 @index ", size) + "}",
        "many unique pairs": (
            "node A { "
            + _series("p#: I32 ", size // 4)
            + _series("@unique(p0, p1#) ", size // 2)
            + "}"
        ),
        "one constraint many times": "node A { p: I32 " + _fill("@unique(p) ", size) + "}",
        "a long enum": "node A { x: enum(" + _series("v#", size, ",") + ") }",
        "one enum value many times": "node A { x: enum(" + _fill("v,", size) + "v) }",
        "a long key": (
            "node A { "
            + _series("p#: I32 ", size // 2)
            + "@key("
            + _series("p#", size // 4, ",")
            + ") }"
        ),
        "one name in a key many times": "node A { p: I32 @key(" + _fill("p,", size) + "p) }",
        "unknown names in a constraint": (
            "node A { "
            + _series("p#: I32 ", size // 2)
            + "@unique("
            + _series("q#", size // 3, ",")
            + ") }"
        ),
        "long unknown names": (
            "node A { "
            + _series(f"{_LONG}#: I32 ", size // 2)
            + _series(f"@unique({_LONG}b#) ", size // 3)
            + "}"
        ),
        "unknown endpoints": (
            _series("node Na# {}\n", size // 2) + _series("edge E#: Nb# -> Nc#\n", size // 3)
        ),
        "unknown interfaces": (
            _series("interface Ia# {}\n", size // 2)
            + "node A implements "
            + _series("Ib#", size // 3, ",")
            + " {}"
        ),
        "many interfaces": (
            _series("interface I# {}\n", size // 2)
            + "node A implements "
            + _series("I#", size // 6, ",")
            + " {}"
        ),
        "one interface many times": "interface I {} node A implements "
        + _fill("I,", size)
        + "I {}",
        "many annotations": "node A " + _series("@x#", size) + " {}",
        "one annotation many times": "node A " + _fill("@x", size) + " {}",
        "many keywords": "node A @x(1," + _series("k#=1", size, ",") + ") {}",
        "one keyword many times": "node A @x(1," + _fill("k=1,", size) + "k=1) {}",
        "many ranges": "node A { a: I32 " + _fill("@range(a, 1..2)", size) + "}",
        "a large pattern": 'node A { a: String @check(a, "((((a{100}){100}){100}){100})") }',
        "a long pattern": 'node A { a: String @check(a, "' + _fill("(a|b)*", size) + '") }',
        "bad escapes after a wide character": 'node A @x("é' + _fill("\\q", size) + '") {}',
        "broken nodes": _fill("node A { x }\n", size),
        "unknown types": "node A { " + _series("p#: I33 ", size) + "}",
        "a vector too large": "node A { p: Vector(" + "9" * (size - 200) + ") }",
    }


@_at_every_size
@pytest.mark.parametrize("name", _large_schemas(1_000))
def test_a_large_schema_takes_seconds(name: str, size: int) -> None:
    source = _large_schemas(size)[name]
    assert len(source.encode()) <= MAX_SOURCE_BYTES
    started = thread_time()
    exercise_schema(source)
    assert thread_time() - started < _SECONDS[size]


_KEYWORDS = [
    *("node", "implements", "enum", "query", "match", "return", "not", "as", "limit", "insert"),
    *("where", "desc", "contains", "null", "true"),
]
_GAPS = {
    "blanks": " " * 20_000,
    "lines": "\r\n" * 10_000,
    "comment marks in a comment": "// " * 2_000 + "\n",
    "a banner": "/" * 20_000 + "\n",
    "line comments": "// x\n" * 4_000,
    "block comments": "/* * / ** */" * 2_000,
    "stars": "/" + "*" * 20_000 + "/",
    "an open comment": "/* " * 2_000,
}


@pytest.mark.parametrize("gap", _GAPS)
def test_a_large_gap_after_a_keyword_takes_a_moment(gap: str) -> None:
    for word in _KEYWORDS:
        for place in (
            "{}",
            "node A {{ x: I32 @a {} }}",
            "query q() {{ match {{ 1 {} }}",
            "node A {} {{}}",
        ):
            source = place.format(f"{word} {_GAPS[gap]} A")
            started = thread_time()
            for _ in _both(source):
                pass
            assert thread_time() - started < 5.0, (word, place)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf", b"\x00", b"\xff\xfe", b"\xff" * 100),
        *(b"node A {\xc3\x28}", b"\xf0\x9f\x98", b"query q() {\xed\xa0\x80}", bytes(range(256))),
        *("node A { x: String }".encode("utf-16"), "node A {}".encode("utf-32")),
        b"\xef\xbb\xbfnode A { x: Strin }",
    ],
)
def test_arbitrary_bytes_give_typed_errors(data: bytes) -> None:
    for _ in _both(data):
        pass


@pytest.mark.parametrize(
    "text", ["\ud800", "node A {} \udfff", "query q\udc80", "é\ud83d", "\ufeff\ud800"]
)
def test_a_lone_surrogate_is_a_syntax_error_at_its_place(text: str) -> None:
    for outcome in _both(text):
        assert outcome.codes in ({"S000"}, {"Q000"})


@pytest.mark.parametrize("source", ["\ufeffnode A {}", b"\xef\xbb\xbfnode A {}"])
def test_a_byte_order_mark_is_skipped(source: str | bytes) -> None:
    assert compile_schema(source) == compile_schema("node A {}")


def _nested(opens: str, middle: str, closes: str, depth: int) -> str:
    return opens * depth + middle + closes * depth


@pytest.mark.parametrize("depth", [MAX_NESTING - 4, MAX_NESTING + 1, 10_000, 100_000])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_refused_and_never_exhausts_the_stack(depth: int, closed: bool) -> None:  # noqa: FBT001  # a parameter of the test
    shut = depth if closed else 0
    sources = [
        _read("$p: Person $p.age = " + "[" * depth + "1" + "]" * shut),
        _read("$p: Person " + "not { $p knows $_ " * depth + "}" * shut),
        _read("$p: Person", "count(" * depth + "$p" + ")" * shut),
        "{" * depth + "}" * shut,
        "node A " + "{" * depth + "}" * shut,
        "node A { x: " + "[" * depth + "I32" + "]" * shut + "}",
        "(" * depth + ")" * shut,
        "[{(" * depth,
    ]
    for source in sources:
        for outcome in _both(source):
            assert outcome.error is None or depth > 0


def test_nesting_up_to_the_limit_compiles() -> None:
    depth = MAX_NESTING - 3
    nested = _nested("not { $p knows $p ", "", "}", depth)
    compile_query(CATALOG, _read("$p: Person " + nested))


@pytest.mark.parametrize("count", [MAX_VALUE_DEPTH, MAX_VALUE_DEPTH + 1, 2_000])
def test_long_chains_of_operators_compile_or_are_refused(count: int) -> None:
    for value in ("1" + " + 1" * count, "- " * count + "$p.age", "2" + " * 2" * count):
        for outcome in _both(_read("$p: Person", f"{value} as v")):
            assert count > MAX_VALUE_DEPTH or "operators" not in str(outcome.error)
    deepest = "abs(" * (MAX_NESTING - 4) + "$p.age" + ")" * (MAX_NESTING - 4)
    compile_query(CATALOG, _read("$p: Person", f"{deepest}{' + 1' * MAX_VALUE_DEPTH} as v"))


@pytest.mark.parametrize("coarser", thinned([11, 1]))
@pytest.mark.parametrize("text", [FIXED_SCHEMA, PAPERS_SCHEMA])
def test_every_prefix_of_a_schema_gives_typed_errors(text: str, coarser: int) -> None:
    data = text.encode()
    for end in range(0, len(data) + 1, coarser * (1 if len(data) < 2_000 else 5)):
        exercise_schema(data[:end])


@pytest.mark.parametrize("step", thinned([29, 3]))
def test_every_prefix_of_a_query_file_gives_typed_errors(step: int) -> None:
    data = PAPERS_QUERIES.encode()[:2_000]
    for end in range(0, len(data) + 1, step):
        exercise_queries(CATALOG, data[:end])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_byte_prefix_of_the_example_gives_typed_errors() -> None:
    schema, queries = PAPERS_SCHEMA.encode(), PAPERS_QUERIES.encode()
    papers = compile_schema(schema)
    for end in range(len(schema) + 1):
        exercise_schema(schema[:end])
    for end in range(len(queries) + 1):
        exercise_queries(papers, queries[:end])


@pytest.mark.parametrize(
    "digits", ["9" * 20, "9" * 21, "9" * 4_301, "9" * 5_000, "0" * 5_000 + "7"]
)
def test_long_integers_are_read_or_refused_everywhere(digits: str) -> None:
    for source in (
        _read(f"$p: Person $p.age = {digits}"),
        _read(f"$p: Person $p.age = -{digits}"),
        _read(f"$p: Person $p knows{{1,{digits}}} $_"),
        _read("$p: Person", tail=f"limit {digits}"),
        f"query q($v: Vector({digits})) {{ delete Link where weight = 1 }}",
    ):
        exercise_queries(CATALOG, source)
    for source in (
        f"node A {{ x: Vector({digits}) }}",
        f"node A {{}} edge E: A -> A @card(0..{digits})",
        f"node A {{ x: F64 @range(x, {digits}..) }}",
        f"node A {{ x: I32 @default({digits}) }}",
        f"node A {{ x: F32 @default({digits}.5) }}",
        f"node A @note({digits}) {{}}",
    ):
        exercise_schema(source)


def test_a_thousand_queries_in_a_file_compile_by_name() -> None:
    one = "query q# () { match { $p: Team } return { $p } }\n"
    source = "".join(one.replace("# ", str(number)) for number in range(1_000))
    assert compile_query(CATALOG, source, "q999").query.name == "q999"


def test_ten_thousand_properties_in_a_type_compile() -> None:
    catalog = compile_schema("node A { " + " ".join(f"p{n}: I32?" for n in range(10_000)) + "}")
    assert len(catalog.node_types["A"].properties) == 10_000


@pytest.mark.parametrize("unit", ["query q#() { match { $p } return { 1 } }\n", "query q#( }\n"])
def test_findings_of_a_broken_query_file_are_capped(unit: str) -> None:
    error = exercise_queries(CATALOG, _series(unit, len(unit) * 500)).error
    assert 50 <= len(diagnostics_of(error)) <= MAX_DIAGNOSTICS


@pytest.mark.parametrize(
    "unit", ["node A# { x }\n", "edge E#: A -> \n", "node A# { x: String? @key }\n"]
)
def test_findings_of_a_broken_schema_are_capped(unit: str) -> None:
    error = exercise_schema(_series(unit, len(unit) * 500)).error
    assert 50 <= len(diagnostics_of(error)) <= MAX_DIAGNOSTICS
    assert error is not None
    assert len(error.message) < 200_000
