"""Valid sources that fuzz and hostile tests start from, and the check that every result passes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.property.schemas import FIXED_SCHEMA

from omnigraph.errors import (
    InputError,
    OmnigraphError,
    QueryInvalid,
    QuerySelectionError,
    SchemaInvalid,
)
from omnigraph.lang import (
    Catalog,
    compile_parsed,
    compile_query,
    compile_schema,
    lint,
    parse_query_file,
)
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.source import Source
from omnigraph.limits import MAX_DIAGNOSTICS

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_EXAMPLES = Path(__file__).parents[2] / "examples" / "papers"
PAPERS_SCHEMA = (_EXAMPLES / "schema.pg").read_text()
PAPERS_QUERIES = (_EXAMPLES / "queries.gq").read_text()

_SMALL_SCHEMAS = (
    "node A { x: enum(a, b-1, 3rd_kind) }",
    "node A { a: String b: I64 @key(a, b) }",
    'node A @note("free text", n=1) { x: F64 @range(x, -1.5..) }',
    'node A {} edge E: A -> A @description("d") @card(1..)',
    'interface I { t: String } node A implements I { v: Vector(2) @embed(t, model="m") }',
)
_SMALL_QUERIES = (
    'query q() { match { $p: Person { email: "a@b", } } return { $p.name } }',
    "query q() { match { $p: Person $p knows{1,3} $f } return { $f.name } }",
    'query q() { match { $p: Person $p $w:<knows> $f $w.note contains "x" } return { $w.since } }',
    "query q() { match { $p: Person not { $p memberOf $_ } } return { $p.name } }",
    "query q() { match { $p: Person $p knows $f } return { $p.name, count($f) as count } "
    "order { count desc } }",
    "query q($q: String) { match { $d: Doc } return { $d.slug, rrf(nearest($d.vec, $q), "
    "bm25($d.title, $q)) as score } order { score desc } limit 3 }",
    'query q() { match { $d: Doc fuzzy($d.title, "x", 1) } return { $d.slug } }',
    'query q($v: Vector(3)?, $l: [Date]) @description("d") { match { $d: Doc } '
    "return { $d.slug } order { nearest($d.vec, [1, -0.5, 0]) } limit 5 }",
    'query q($e: String) { insert Person { email: $e, name: "N" joined: now(), age: null } '
    'update Team set { title: "x" } where slug = "a" }',
    'query q() { delete Knows where from = "a" delete Person where born < date("1900-01-01") }',
)
GROWN_QUERIES = (
    "query q($n: I32) { match { $p: Person "
    '$p.age > $n or not ($p.email = "a" and $p.age is null) } return { $p } }',
    "query q($l: [String]) { match { $p: Person { email: in $l } $p.age not in [1, 2] $p in $l } "
    "return { $p.email } }",
    "query q() { match { $p: Person optional { $p knows $f $f.age >= 3 optional { $f wrote $d } } "
    "exists { $p memberOf $_ } } return { $p, $f.age, $d.title } }",
    "query q($n: I64, $m: I32) { match { $p: Person $p knows{$m,3} $f } return { $p, "
    "hops($p, $f) as far, path($f, $p) as way } order { far desc } limit $n offset 2 }",
    "query q() { match { $p: Person count { $p knows $f $f.age + 1 > $p.age * -2 % 3 } > 1 } "
    "return { if($p.age > 3 or $p.born is null, 1, coalesce($p.age, 0)) as v, -$p.balance / 2 } }",
    "query q() { match { $p: Person } return { lower($p.email) + upper(trim($p.level)) as t, "
    "length($p.tags), year($p.joined), round($p.height), type($p), count { $p wrote $_ } as n } }",
    "query q() { match { $p: Person $p memberOf $t } return { $t, count(distinct $p.tags) as n, "
    "collect($p.email) as all } having { n > 1 and not (all is null) } order { n } limit 3 }",
    "query q() { match { $x: Named } return distinct { $x.name, type($x) as kind } offset 1 }",
    "query q($n: I64, $s: String) { update Person set { age: age + $n, level: lower($s) } "
    'where email = $s and (age in [1, 2] or born is not null) or not (id = "x") }',
    'query q($n: I64) { insert Team if absent { slug: trim("a") + "b", title: "t", '
    "size: $n * 2 } update Wrote set { position: if(position > 3, length(from), 1) } "
    "where to is not null }",
)
_NODES_OF_PAPERS = (
    "interface Named { name: String @index }\nnode" + part.split("\nedge")[0]
    for part in PAPERS_SCHEMA.split("\nnode")[1:]
)
SCHEMA_SEEDS = (FIXED_SCHEMA, *_SMALL_SCHEMAS, *_NODES_OF_PAPERS)
QUERY_SEEDS = (
    *_SMALL_QUERIES,
    *GROWN_QUERIES,
    *("query " + part for part in PAPERS_QUERIES.split("\nquery ")[1:]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What compiling a source gave: an error that a caller may see, or none."""

    error: InputError | None

    @property
    def codes(self) -> set[str]:
        """The codes of its diagnostics."""
        return {str(item["code"]) for item in diagnostics_of(self.error)}


def diagnostics_of(error: OmnigraphError | None) -> list[dict[str, object]]:
    """The findings that an error carries."""
    found = None if error is None else error.details.get("diagnostics", [])
    assert found is None or isinstance(found, Sequence)
    return [dict(item) for item in found or () if isinstance(item, dict)]


def exercise_schema(data: str | bytes) -> Outcome:
    """Compile a schema; anything but success or `SchemaInvalid` escapes."""
    try:
        catalog = compile_schema(data)
        assert len(catalog.schema_hash) == 64
    except SchemaInvalid as error:
        check_diagnostics(error, data)
        return Outcome(error=error)
    return Outcome(error=None)


def exercise_queries(catalog: Catalog, data: str | bytes) -> Outcome:
    """Lint a source and compile its queries; anything but success or a query error escapes."""
    report = lint(catalog, data)
    json.dumps(report.to_dict(), allow_nan=False)
    try:
        compile_query(catalog, data)
    except QueryInvalid as error:
        check_diagnostics(error, data)
        assert report.errors
        return Outcome(error=error)
    except QuerySelectionError as error:
        for query in parse_query_file(data):
            compile_parsed(catalog, query, Findings(Source.decode(data)))
        return Outcome(error=error)
    assert not report.errors
    return Outcome(error=None)


def check_diagnostics(error: OmnigraphError, data: str | bytes) -> None:
    """Every finding has a code, a reason, a message, and a span inside the source."""
    found = diagnostics_of(error)
    assert 0 < len(found) <= MAX_DIAGNOSTICS
    assert error.message
    raw = data if isinstance(data, bytes) else data.encode(errors="surrogatepass")
    for item in found:
        assert item["code"]
        assert item["reason"]
        assert str(item["message"]).startswith(f"{item['code']}: ")
        span = item["span"]
        assert isinstance(span, dict)
        _check_span(span, raw)


def _check_span(span: dict[str, int], raw: bytes) -> None:
    start, end = span["start"], span["end"]
    # A position at the end of the text is widened to one character for display.
    assert 0 <= start < end <= len(raw) + 1
    before = raw[:start].removeprefix(_BYTE_ORDER_MARK)
    line_start = before.rfind(b"\n") + 1
    assert span["line"] == before.count(b"\n") + 1
    assert span["column"] == len(before[line_start:].decode()) + 1
    assert (span["line"], span["column"]) < (span["end_line"], span["end_column"])
    assert span["end_line"] <= raw.count(b"\n") + 1
