"""The schema hash stands for the declared meaning: layout and order do not count, all else does."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import many, more, quick
from tests.property.strategies import GeneratedSchema, schemas

from omnigraph.lang import compile_schema
from omnigraph.lang import schema_ast as ast
from omnigraph.lang.schema_printer import print_schema

_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|->|-?[0-9]+\.[0-9]+|\.\.|-?[A-Za-z0-9_-]+|\S', re.DOTALL
)
_GAPS = (" ", "\n", "\t\r\n", " /* node X { */ ", " // a } comment\n", "/**/")


@st.composite
def _relaid(draw: st.DrawFn, text: str) -> str:
    """The same tokens with other blanks and comments between them."""
    parts = [
        part for token in _TOKEN.findall(text) for part in (token, draw(st.sampled_from(_GAPS)))
    ]
    return draw(st.sampled_from(("", "\ufeff", *_GAPS))) + "".join(parts)


def _shuffled_names(draw: st.DrawFn, item: ast.Constraint) -> ast.Constraint:
    if isinstance(item, ast.RangeConstraint | ast.CheckConstraint):
        return item
    return replace(item, names=tuple(draw(st.permutations(item.names))))


def _shuffled_property(draw: st.DrawFn, item: ast.PropertyDecl) -> ast.PropertyDecl:
    return replace(item, annotations=tuple(draw(st.permutations(item.annotations))))


@st.composite
def _reordered(
    draw: st.DrawFn, declarations: tuple[ast.Declaration, ...]
) -> tuple[ast.Declaration, ...]:
    """The same declarations with every order changed that carries no meaning."""
    out: list[ast.Declaration] = []
    for item in draw(st.permutations(declarations)):
        properties = tuple(
            _shuffled_property(draw, found) for found in draw(st.permutations(item.properties))
        )
        if isinstance(item, ast.InterfaceDecl):
            out.append(replace(item, properties=properties))
            continue
        constraints = tuple(
            _shuffled_names(draw, found) for found in draw(st.permutations(item.constraints))
        )
        shuffled = replace(
            item,
            annotations=tuple(draw(st.permutations(item.annotations))),
            properties=properties,
            constraints=constraints,
        )
        if isinstance(shuffled, ast.NodeDecl):
            shuffled = replace(
                shuffled, implements=tuple(draw(st.permutations(shuffled.implements)))
            )
        out.append(shuffled)
    return tuple(out)


_relaid_schemas = schemas().flatmap(
    lambda schema: st.tuples(st.just(schema), _relaid(schema.source))
)
_reordered_schemas = schemas().flatmap(
    lambda schema: st.tuples(st.just(schema), _reordered(schema.declarations))
)


@quick(10)
@given(_relaid_schemas)
def test_layout_and_comments_do_not_change_the_hash(pair: tuple[GeneratedSchema, str]) -> None:
    schema, text = pair
    assert compile_schema(text) == schema.catalog


@more(40)
@given(_relaid_schemas)
def test_layout_and_comments_never_change_the_hash(pair: tuple[GeneratedSchema, str]) -> None:
    schema, text = pair
    assert compile_schema(text) == schema.catalog


@quick(15)
@given(_reordered_schemas)
def test_order_does_not_change_the_hash(
    pair: tuple[GeneratedSchema, tuple[ast.Declaration, ...]],
) -> None:
    schema, declarations = pair
    assert compile_schema(print_schema(declarations)).canonical_json() == (
        schema.catalog.canonical_json()
    )


@many
@given(_reordered_schemas)
def test_order_never_changes_the_hash(
    pair: tuple[GeneratedSchema, tuple[ast.Declaration, ...]],
) -> None:
    schema, declarations = pair
    assert compile_schema(print_schema(declarations)) == schema.catalog


_BASE = """
interface Named { name: String @index }
node A @description("a") implements Named {
  k: String @key  x: I32?  y: F64  e: enum(red, green)?  t: String  v: Vector(3)? @embed(t)
  l: [I32]?  d: Bool @default(true)  @range(x, 0..9)  @check(t, "^a")  @unique(x, y)  @index(y)
}
node B {}
edge E: A -> B @card(0..2) { w: F32?  @unique(src, dst) }
"""
_CHANGES = [
    ("x: I32?", "x: I64?"),
    ("x: I32?", "x: I32"),
    ("x: I32?", 'z: I32? @rename_from("x")  x: I32?'),
    ("y: F64 ", "y: F32 "),
    ("enum(red, green)", "enum(red, green, blue)"),
    ("enum(red, green)", "enum(red, Green)"),
    ("enum(red, green)?", "String?"),
    ("Vector(3)", "Vector(4)"),
    ("@embed(t)", '@embed(t, model="m")'),
    ("@embed(t)", "@embed(k)"),
    ("@embed(t)", ""),
    ("l: [I32]?", "l: [I64]?"),
    ("l: [I32]?", "l: I32?"),
    ("@default(true)", "@default(false)"),
    ("@default(true)", ""),
    ("@range(x, 0..9)", "@range(x, 0..10)"),
    ("@range(x, 0..9)", "@range(x, 0..)"),
    ("@range(x, 0..9)", "@range(x, ..9)"),
    ("@range(x, 0..9)", "@range(y, 0..9)"),
    ("@range(x, 0..9)", ""),
    ('@check(t, "^a")', '@check(t, "^b")'),
    ('@check(t, "^a")', '@check(k, "^a")'),
    ("@unique(x, y)", "@unique(x)"),
    ("@unique(x, y)", "@unique(x) @unique(y)"),
    ("@index(y)", "@index(x)"),
    ("@index(y)", ""),
    ("k: String @key", "k: String @unique"),
    ("k: String @key", 'k: String @key @description("d")'),
    ('@description("a")', '@description("b")'),
    ('@description("a")', '@instruction("a")'),
    ('@description("a")', '@description("a") @note'),
    ('@description("a")', '@description("a") @note(1)'),
    ("implements Named", ""),
    ("name: String @index", "name: String"),
    ("node B {}", "node B { extra: I32? }"),
    ("node B {}", "node B {} node C {}"),
    ("E: A -> B", "E: B -> A"),
    ("E: A -> B", "F: A -> B"),
    ("@card(0..2)", "@card(1..2)"),
    ("@card(0..2)", "@card(0..)"),
    ("@unique(src, dst)", "@unique(src)"),
    ("@unique(src, dst)", "@index(src, dst)"),
    ("w: F32?", "w: F32? @pii(true)"),
]


@pytest.mark.parametrize(("old", "new"), _CHANGES)
def test_a_change_of_meaning_changes_the_hash(old: str, new: str) -> None:
    assert _BASE.count(old) >= 1
    changed = compile_schema(_BASE.replace(old, new, 1))
    assert changed.schema_hash != compile_schema(_BASE).schema_hash


def test_changes_that_differ_have_hashes_that_differ() -> None:
    hashes = [compile_schema(_BASE.replace(old, new, 1)).schema_hash for old, new in _CHANGES]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("node A { x: I32 @index }", "node A { x: I32 @index(x) }"),
        ("node A { x: I32 @index }", "node A { x: I32 @index @index(x) }"),
        ("node A { x: I32 @key }", "node A { x: I32 @key(x) @index(x) }"),
        ("node A { x: F64 @range(x, 1..2) }", "node A { x: F64 @range(x, 1.0..2.00) }"),
        ("node A {} edge E: A -> A", "node A {} edge E: A -> A @card(0..) {}"),
        ("node A { x: enum(a, b) }", "node A { x: enum(b, a) }"),
        (
            "node A { t: String v: Vector(2) @embed(t) }",
            'node A { t: String v: Vector(2) @embed("t") }',
        ),
    ],
)
def test_two_spellings_of_one_meaning_have_one_hash(one: str, other: str) -> None:
    assert compile_schema(one) == compile_schema(other)


@quick(10)
@given(schemas(), st.data())
def test_a_new_nullable_property_changes_the_hash(
    schema: GeneratedSchema, data: st.DataObject
) -> None:
    _check_extended(schema, data)


@more(40)
@given(schemas(), st.data())
def test_a_new_nullable_property_always_changes_the_hash(
    schema: GeneratedSchema, data: st.DataObject
) -> None:
    _check_extended(schema, data)


def _check_extended(schema: GeneratedSchema, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(schema.declarations) - 1))
    item = schema.declarations[at]
    name = data.draw(st.sampled_from(("extra", "node", "true", "limit")))
    extra = ast.PropertyDecl(name=name, type=replace(_STRING, nullable=True))
    changed = replace(item, properties=(*item.properties, extra))
    declarations = (*schema.declarations[:at], changed, *schema.declarations[at + 1 :])
    assert compile_schema(print_schema(declarations)) != schema.catalog


_STRING = compile_schema("node A { x: String }").node_types["A"].properties["x"].type
