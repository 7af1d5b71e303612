"""Habits of other languages get a hint, not a list of tokens."""

import pytest

from omnigraph.errors import InvalidArgument, QueryInvalid, SchemaInvalid
from omnigraph.lang import compile_query, compile_schema, plan_migration
from omnigraph.lang.foreign_syntax import suggest_annotation

CATALOG = compile_schema(
    "node Person { name: String age: I32? born: Date? alive: Bool? tags: [String]? }"
    "edge Knows: Person -> Person edge In: Person -> Person"
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
    ("$p.age IS NULL", "did you mean `is`? a test for null is written `$p.x is null`"),
    ("$p.age is NULL", "did you mean `null`? a test for null is written `$p.x is null`"),
    ("$p.age is empty", "`$p.x is null`"),
    ("$p.age = null", "test with `is null`"),
    ("$p.age <> 1", "not equal is `!=`"),
    ('$p.name LIKE "x%"', "starts_with"),
    ('$p.name in ("a")', '`$p.x in ["a", "b"]`'),
    ('$p.name IN ("a")', 'did you mean `in`? `in` takes a list: `$p.x in ["a", "b"]`'),
    ("$p.age NOT IN (1, 2)", "did you mean `not in`? `in` takes a list"),
    ("$p.age = 1 or $p knows $q", "`or` joins conditions, not traversals or blocks"),
    ("$p.age = 1 or $p <knows> $q", "count { $p knows $_ } > 0`"),
    ("$p.age = 1 or $p knows{1,2} $q", "`or` joins conditions"),
    ("$p.age = 1 or exists { $p knows $q }", "`or` joins conditions"),
    ("$p.age = 1 or not { $p knows $q }", "`or` joins conditions"),
    ("$p.age = 1 or $q: Person", "`or` joins conditions"),
    ("exists { $p knows $q } or $p.age = 1", "`or` joins conditions"),
    ("$p.age = 1 and $p knows $q", "one after the other, without `and`"),
    ("$p.age = 1 and not { $p knows $q }", "one after the other, without `and`"),
    ("not ($p knows $q)", "`not { $p knows $_ }`"),
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
    ("$q: Person { age: 1 or 2 }", "`{ x: in [1, 2] }`"),
    ("$q: Person { age: in [1] or age: 2 }", "write any other condition after them"),
    ("$q: Person { age: > 3 }", "write any other condition after them"),
    ("$q: Person { age: != 3 }", "write any other condition after them"),
    ("$q: Person { age: not in [3] }", "write any other condition after them"),
    ("$q: Person { age: is null }", "`$p.x > 3 or $p.x is null`"),
    ("$q: Person { age: null }", "nothing equals `null`"),
    ("$q: Person { name: ann }", 'in double quotes: `"ann"`'),
    ("$p.age in [1, null]", "nothing equals `null`"),
    ("$p.age is not 3", "`$p.x is not null`"),
    ("exists ($p knows $f)", "`exists { $p knows $f }`"),
    ("optional $p knows $f", "`optional { $p knows $f }`"),
    ("$p.alive or $p.age = 1", "a value is compared: `$p.x = true`"),
    ("$p.alive", "a value is compared: `$p.x = true`"),
    ("$p.alive $p.age = 1", "a value is compared: `$p.x = true`"),
    ("3 < $p.age < 5", "write two: `3 < $p.x and $p.x < 5`"),
    ("$p.age =< 3", "at most is `<=`"),
    ("$p.age => 3", "at least is `>=`"),
    ("$p.age ** 2 = 4", "multiply: `$p.x * $p.x`"),
    ("$p.age ^ 2 = 4", "multiply: `$p.x * $p.x`"),
    ("$p.name.length = 3", "call a function of it: `length($p.x)`"),
    ("$p knows* $f", "`$a knows{1,3} $b`"),
    ("$p knows*1..3 $f", "`$a knows{1,3} $b`"),
    ("$p knows{3} $f", "both bounds are needed: `{3,3}`"),
    ("$p <knows>{$n} $f", "both bounds are needed: `{$n,$n}`"),
    ("$p knows{1,$n} $f", "of type I32 or I64, without `?`; `$n` is I32?"),
    ("count($p knows $_) > 2", "in braces: `count { $p knows $f }`"),
    ("not exists { $p knows $_ }", "`not { … }` alone says that there is no solution"),
    ("$p.age in [1 + 1]", "a list holds literals only"),
    ("$p.age in [1, $p.age]", "a list of other values is a parameter"),
    ('$p.born in ["2020-01-01"]', 'write `date("…")`'),
    ("$p.born in $l", "declare `$l: [Date]`"),
    ('$p.tags in ["a"]', "with `contains`"),
    ("$p.age = 1 or $p in $t", "a traversal over `In` stands alone"),
    ("(p:Person)-[:KNOWS]->(f)", "a node is bound by `$p: Person { x: 1 }`"),
    ("$q: Person (age: 3)", "a node is bound by `$p: Person { x: 1 }`"),
    ("$q: Person { age = 3 }", "a colon stands between a property and its value"),
    ("$p knows $f, $f knows $g", "without commas"),
    ("size($p.tags) > 1", "write `length(x)`"),
    ('id($p) = "a"', "the variable itself: `$p`"),
]
WHERES = [
    ('name = "a" AND age = 1', "joined by `and`", "one after the other"),
    ('name = "a" && age = 1', "joined by `and`", "one after the other"),
    ('name = "a", age = 1', "joined by `and`", "expected one of"),
    ('name = "a" OR age = 1', "joined by `or`", "traversals"),
    ("age IS NULL", "`x is null`", "$p"),
    ("age IN (1, 2)", '`x in ["a", "b"]`', "$p"),
    ("age in (1, 2)", "`x in [1, 2]`", "$p"),
    ("age NOT IN (1)", "did you mean `not in`?", "$p"),
    ("NOT (age = 1)", "`not (x = 1)`", "`match`"),
    ("not age = 1", "`not (x = 1)`", "clauses"),
    ('name contains "x"', "takes no `contains`", "expected one of"),
    ('name starts_with "x"', "a prefix is a range", "expected one of"),
    ('name LIKE "x%"', "a prefix is a range", "`starts_with"),
    ("age between 1 and 2", "and x <= 10", "$p"),
    ("age + 1 = 2", "as they are", "expected one of"),
    ("count { $p knows $_ } > 1", "looks at one row", "expected one of"),
    ('search(name, "x")', "looks at one row", "expected one of"),
    ("$p.age = 1", "a property of the row is written alone: `age`", "starts with `$`"),
    ("age = 1 or p.age = 2", "a property of the row is written alone: `age`", "`$`"),
    ("alive", "a value is compared: `alive = true`", "expected one of"),
    ("not (alive)", "a value is compared: `alive = true`", "expected one of"),
    ("true", "`where x = 1`", "true = true"),
    ("1 < age < 3", "write two: `3 < x and x < 5`", "expected one of"),
    ("{ age: 1 }", "`where x = 1`", "`match`"),
    ("", "`where x = 1`", "`match`"),
]
STATEMENTS = [
    ('insert Person { name: "x" } if absent', "`insert Person if absent { … }`"),
    ('insert if absent Person { name: "x" }', "`insert Person if absent { … }`"),
    ('insert Person (name: "x")', "values stand in braces"),
    ('insert Person { name = "x" }', "a colon stands between"),
    ("update Person set { age = age + 1 } where age = 1", "a colon stands between"),
    ("update Person set { age += 1 } where age = 1", "a colon stands between"),
    ('insert Person { name: "a" || "b" }', "texts are joined by `+`"),
]
TAILS = [
    ("return { not ($p.age > 3) as v }", "`if(condition, a, b)`"),
    ("return { $p.age is null as v }", "`if(condition, a, b)`"),
    ("return { $p.age > 3 }", "`if(condition, a, b)`"),
    ("return { $p.age not in [1] as v }", "`if(condition, a, b)`"),
    ("return { $p.age } order { $p.age is null }", "`if(condition, a, b)`"),
    ("return { coalesce(null, 1) as v }", "`null` is no value of its own"),
    ("return { if($p.age > 3, 1, null) as v }", "`null` is no value of its own"),
    ("return { count(*) }", "count a variable"),
    ("return { $p.* }", "name each column"),
    ("return { distinct $p.name }", "`return distinct { … }`"),
    ("return { not true }", "`if(not ($p.x = 1), true, false)`"),
    ('return { $p.name || "x" }', "texts are joined by `+`"),
    ('return { concat($p.name, "x") }', "texts are joined by `+`"),
    ("return { shortestPath($p, $p) }", "write `path($a, $b)`"),
    ("return { substring($p.name, 1) }", "known are `now`"),
    ("return { [$p.age] }", "a list holds literals only"),
    ("return { $p } limit $n", "without `?`; `$n` is I32?"),
    ("return { COUNT($p) }", "`count`"),
    ("return { p.name }", "starts with `$`: `$p.…`"),
    ("return { $p.name } order by $p.name", "order { $p.x desc }"),
    ("return { $p.name } ORDER { $p.name }", "did you mean `order`"),
    ("return { $p.name } limit 5 order { $p.name }", "before `limit`"),
    ("return { $p.name } offset 3 limit 5", "`offset n` stands last"),
    ("return { $p.name } limit 5 skip 3", "`offset n`"),
    ("return { $p.name };", "remove it"),
    ("return { exists { $p knows $_ } as v }", "`if(count { $p knows $_ } > 0, 1, 0)`"),
    ("return { $p.name } limit -1", "a whole number or a parameter"),
    ("return { $p.name } limit 1.5", "a whole number or a parameter"),
    ("return { $p.name } limit 5, 10", "`limit 10 offset $skipped`"),
    ("return { $p.name } limit 5 offset 2 + 1", "`offset` takes a whole number"),
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
        compile_query(CATALOG, f"query q($s: String, $l: [String], $n: I32?) {{ {body} }}")
    return caught.value.message


@pytest.mark.parametrize(("clause", "hint"), CLAUSES)
def test_a_habit_in_match_gets_a_hint(clause: str, hint: str) -> None:
    assert hint in _query_message(f"match {{ $p: Person {clause} }} return {{ $p }}")


@pytest.mark.parametrize(("tail", "hint"), TAILS)
def test_a_habit_after_match_gets_a_hint(tail: str, hint: str) -> None:
    assert hint in _query_message(f"match {{ $p: Person }} {tail}")


@pytest.mark.parametrize(("where", "hint", "misleading"), WHERES)
def test_a_hint_in_where_proposes_what_where_takes(where: str, hint: str, misleading: str) -> None:
    update = f"update Person set {{ age: 1 }} where {where}"  # noqa: S608 - not SQL
    message = _query_message(update).splitlines()[0]
    assert hint in message
    assert misleading not in message


@pytest.mark.parametrize(("statement", "hint"), STATEMENTS)
def test_a_habit_in_a_statement_gets_a_hint(statement: str, hint: str) -> None:
    assert hint in _query_message(statement)


def test_a_choice_with_too_few_values_is_told_once() -> None:
    message = _query_message("match { $p: Person } return { if($p.age > 3, 1) }")
    assert "`if` takes 3 arguments, got 2" in message
    assert message.count("Q000") == 1


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
