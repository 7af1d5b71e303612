"""Printing and parsing are inverse, in both languages."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given
from tests.property.profiles import many, more, quick
from tests.property.strategies import (
    CATALOG,
    GeneratedQuery,
    GeneratedSchema,
    query_trees,
    schema_trees,
    schemas,
    well_typed,
)

from omnigraph.lang import query_ast, schema_ast
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.query_printer import print_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.schema_printer import print_schema
from omnigraph.lang.source import Source

_Tree = TypeVar("_Tree")


def _parse_schema(text: str) -> tuple[schema_ast.Declaration, ...]:
    return _parse(text, parse_schema)


def _parse_queries(text: str) -> tuple[query_ast.Query, ...]:
    return _parse(text, parse_queries)


def _parse(text: str, parse: Callable[[Findings], _Tree]) -> _Tree:
    findings = Findings(Source.decode(text))
    tree = parse(findings)
    assert not findings, (text, findings.sorted())
    return tree


def _check_schema(tree: tuple[schema_ast.Declaration, ...]) -> None:
    text = print_schema(tree)
    parsed = _parse_schema(text)
    # `==` takes 1, 1.0 and true for equal; their texts differ.
    assert repr(parsed) == repr(tree)
    assert print_schema(parsed) == text


def _check_queries(tree: tuple[query_ast.Query, ...]) -> None:
    text = print_queries(tree)
    parsed = _parse_queries(text)
    assert repr(parsed) == repr(tree)
    assert print_queries(parsed) == text


@quick(40)
@given(schema_trees)
def test_a_printed_schema_parses_to_the_same_tree(
    tree: tuple[schema_ast.Declaration, ...],
) -> None:
    _check_schema(tree)


@quick(12)
@given(query_trees)
def test_printed_queries_parse_to_the_same_trees(tree: tuple[query_ast.Query, ...]) -> None:
    _check_queries(tree)


@quick(12)
@given(schemas())
def test_a_valid_schema_prints_to_the_same_meaning(schema: GeneratedSchema) -> None:
    _check_schema(schema.declarations)


@more(40)
@given(schemas())
def test_a_valid_schema_always_prints_to_the_same_meaning(schema: GeneratedSchema) -> None:
    _check_schema(schema.declarations)


@quick(40)
@given(well_typed(CATALOG))
def test_a_well_typed_query_prints_to_the_same_meaning(generated: GeneratedQuery) -> None:
    _check_queries((generated.query,))


@many
@given(schema_trees)
def test_many_printed_schemas_parse_to_the_same_tree(
    tree: tuple[schema_ast.Declaration, ...],
) -> None:
    _check_schema(tree)


@many
@given(query_trees)
def test_many_printed_queries_parse_to_the_same_trees(tree: tuple[query_ast.Query, ...]) -> None:
    _check_queries(tree)
