"""Values of every shape: printed they parse to an equal tree, mutated they fail as typed."""

from contextlib import suppress
from random import Random  # noqa: TID251 - seeded

import pytest
from tests.extended import thinned

from omnigraph.errors import QueryInvalid
from omnigraph.lang import compile_query, compile_schema
from omnigraph.lang import query_ast as ast
from omnigraph.lang.compiler import parse_query_file
from omnigraph.lang.query_printer import print_queries

_CATALOG = compile_schema(
    "node Person { name: String @key  age: I32?  tags: [String]? } edge Knows: Person -> Person"
)
_OF_ONE = sorted(ast.VALUE_FUNCTIONS - {ast.Function.COALESCE})
_COMPARE = (ast.CompareOp.EQ, ast.CompareOp.LT, ast.CompareOp.GE, ast.CompareOp.CONTAINS)


def _value(rng: Random, depth: int) -> ast.Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(
            (
                ast.IntLit(value=rng.choice((0, 1, -1, 2**63))),
                ast.FloatLit(value=rng.choice((0.5, -2.25))),
                ast.StringLit(value=rng.choice(("", "a -1", "$x"))),
                ast.Var(name="n"),
                ast.PropAccess(var="p", property=rng.choice(("age", "name"))),
                ast.ListLit(items=(ast.IntLit(value=-1), ast.IntLit(value=2))),
            )
        )
    parts = [_value(rng, depth - 1) for _ in range(2)]
    match rng.randrange(7):
        case 0 | 1 | 2:
            op = rng.choice(list(ast.ArithmeticOp))
            return ast.Arithmetic(left=parts[0], op=op, right=parts[1])
        case 3:
            return ast.Negative(value=parts[0])
        case 4:
            return ast.Call(function=rng.choice(_OF_ONE), args=(parts[0],))
        case 5:
            condition = _condition(rng, depth - 1)
            return ast.If(condition=condition, then=parts[0], otherwise=parts[1])
        case _:
            walk = ast.Traversal(left="p", right="_", edge_word="knows")
            return ast.CountBlock(clauses=(walk, _condition(rng, depth - 1)))


def _condition(rng: Random, depth: int) -> ast.Condition:
    sides = [_value(rng, max(0, depth)) for _ in range(2)]
    match rng.randrange(4):
        case 0:
            parts = (_condition(rng, depth - 1), _condition(rng, depth - 1)) if depth > 0 else ()
            return ast.AnyOf(parts=parts) if parts else ast.NullTest(expr=sides[0])
        case 1:
            return ast.NotCondition(part=ast.NullTest(expr=sides[0], negated=True))
        case _:
            return ast.Comparison(left=sides[0], op=rng.choice(_COMPARE), right=sides[1])


def _query(seed: int) -> ast.Query:
    rng = Random(f"value {seed}")  # noqa: S311 - no secret
    kind = ast.ParamType(name="I64")
    binding = ast.Binding(var="p", type_name="Person")
    clauses = (binding, *(_condition(rng, 3) for _ in range(rng.randrange(3))))
    columns = tuple(
        ast.Projection(expr=_value(rng, 4), alias=rng.choice((None, f"c{number}")))
        for number in range(1, 3)
    )
    order = (ast.Ordering(expr=_value(rng, 2), direction=rng.choice((None, ast.Direction.DESC))),)
    body = ast.ReadBody(clauses=clauses, projections=columns, order=order)
    return ast.Query(name="q", params=(ast.Param(name="n", type=kind),), body=body)


@pytest.mark.parametrize("seeds", thinned([range(150), range(150, 1_000)], keep=1))
def test_printed_values_parse_to_the_same_tree(seeds: range) -> None:
    for seed in seeds:
        query = _query(seed)
        text = print_queries([query])
        assert parse_query_file(text) == (query,), f"seed {seed}\n{text}"


@pytest.mark.parametrize("seeds", thinned([range(100), range(100, 1_000)], keep=1))
def test_mutated_values_compile_or_are_refused(seeds: range) -> None:
    for seed in seeds:
        rng = Random(f"mutation {seed}")  # noqa: S311 - no secret
        text = print_queries([_query(seed)])
        for _ in range(rng.randrange(3)):
            at, end = sorted(rng.sample(range(len(text)), 2))
            put = rng.choice(("", *"()-+ {}$1,"))
            text = text[:at] + put + text[end if rng.random() < 0.5 else at + 1 :]
        with suppress(QueryInvalid):
            compile_query(_CATALOG, text)
