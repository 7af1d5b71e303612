"""Habits of other languages get a hint, not a list of tokens."""

import pytest

from omnigraph.errors import InvalidArgument, QueryInvalid, SchemaInvalid
from omnigraph.lang import compile_query, compile_schema, plan_migration
from omnigraph.lang.foreign_syntax import suggest_annotation

CATALOG = compile_schema(
    "node Person { name: String age: I32? born: Date? alive: Bool? } edge Knows: Person -> Person"
)

CLAUSES = [
    ('$p.name == "A"', "equality is `=`"),
    ("$p.name = 'A'", "double quotes"),
    ('$p.name = "A" AND $p.age = 1', "did you mean `and`"),
    ('$p.name = "A" && $p.age = 1', "one after the other"),
    ("and $p.age = 1", "one after the other"),
    ("where $p.age = 1", "there is no `where`"),
    ("$p.age = 1 OR $p.age = 2", "did you mean `or`"),
    ("$p knows $f or $p.age = 1", "`or` joins conditions"),
    ("$p.age = 1 || $p.age = 2", "`or` joins conditions"),
    ("$p.age IS NULL", "did you mean `is`"),
    ("$p.age is empty", "`$p.x is null`"),
    ("$p.age = null", "test with `is null`"),
    ("$p.age <> 1", "not equal is `!=`"),
    ('$p.name LIKE "x%"', "starts_with"),
    ('$p.name in ("a")', '`$p.x in ["a", "b"]`'),
    ('$p.name IN ("a")', "did you mean `in`"),
    ("$p.age between 1 and 2", "two comparisons"),
    ('$p.name ends_with "x"', "there is no `ends_with`"),
    ("(p)-[:KNOWS]->(f)", "a traversal is written"),
    ("$p -[:knows]-> $f", "a traversal is written"),
    ("$p Knows $f", "lower case: `knows`"),
    ("$p KNOWS $f", "lower case: `knows`"),
    ("$p knows{1..3} $f", "`{1,3}`"),
    ("$p.age > 1e5", "no exponent"),
    ("$p.age > .5", "both sides of the point"),
    ("not $p.alive", "`not ( … )` a condition"),
    ('$p.born > "2020-01-01"', '`date("…")`'),
    ("$p.born > $s", "declare `$s: Date`"),
    ("$p.born > now()", "never compared"),
]
TAILS = [
    ("return { count(*) }", "count a variable"),
    ("return { COUNT($p) }", "`count`"),
    ("return { p.name }", "starts with `$`: `$p.…`"),
    ("return { $p.name } order by $p.name", "order { $p.x desc }"),
    ("return { $p.name } ORDER { $p.name }", "did you mean `order`"),
    ("return { $p.name } limit 5 order { $p.name }", "before `limit`"),
    ("return { $p.name } offset 3 limit 5", "`offset n` stands last"),
    ("return { $p.name } limit 5 skip 3", "`offset n`"),
    ("return { $p.name };", "remove it"),
]
DECLARATIONS = [
    ("node A { x: string }", "did you mean `String`"),
    ("node A { x: int }", "use `I64` or `I32`"),
    ("node A { x: [VARCHAR] }", "use `String`"),
    ("node A { x: Timestamp }", "use `DateTime`"),
    ("node A { x: Organisation }", "`enum(…)`"),
    ("node A { x: String, y: I32 }", "remove the comma"),
    ("node A { x: String NOT NULL }", "without `?` is required"),
    ("node A { x: String! }", "without `?` is required"),
    ("node A { x: String[] }", "`[String]`"),
    ('node A { x: enum("a") }', "bare words"),
    ('node A { x: String = "x" }', "`@default(…)`"),
    ("node A { x: String PRIMARY KEY }", "`@key`"),
    ("node A {} edge E: A -> A { @card(0..1) }", "after an edge's endpoints"),
    ('@description("x") node P {}', "after the name"),
    ('interface I {} node A implements I @description("x") {}', "before `implements`"),
    ("node A extends B {}", "no inheritance"),
    ("# comment", "starts with `//`"),
]


def _query_message(body: str) -> str:
    with pytest.raises(QueryInvalid) as caught:
        compile_query(CATALOG, f"query q($s: String) {{ {body} }}")
    return caught.value.message


@pytest.mark.parametrize(("clause", "hint"), CLAUSES)
def test_a_habit_in_match_gets_a_hint(clause: str, hint: str) -> None:
    assert hint in _query_message(f"match {{ $p: Person {clause} }} return {{ $p }}")


@pytest.mark.parametrize(("tail", "hint"), TAILS)
def test_a_habit_after_match_gets_a_hint(tail: str, hint: str) -> None:
    assert hint in _query_message(f"match {{ $p: Person }} {tail}")


@pytest.mark.parametrize(("source", "hint"), DECLARATIONS)
def test_a_habit_in_a_schema_gets_a_hint(source: str, hint: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        compile_schema(source)
    assert hint in caught.value.message


def test_what_is_expected_is_what_can_really_stand_there() -> None:
    message = _query_message('delete Person where name = "1" ]').splitlines()[0]
    assert (
        message
        == "Q000: unexpected `]`; expected one of `and`, `delete`, `insert`, `or`, `update`, `}`"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("primary_key", "`@key`"),
        ("defualt", "`@default`"),
        ("required", "a type without `?`"),
        ("key", None),
        ("pii", None),
        ("note", None),
    ],
)
def test_an_annotation_is_suggested_only_when_it_looks_like_one(
    name: str, meant: str | None
) -> None:
    assert suggest_annotation(name) == meant


def test_row_counts_of_an_unknown_table_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="did you mean `node:Person`"):
        plan_migration(CATALOG, CATALOG, row_counts={"Person": 5})


def test_a_path_is_no_source() -> None:
    with pytest.raises(TypeError, match="read the file first"):
        compile_schema(None)  # type: ignore[arg-type]  # what a caller may do
