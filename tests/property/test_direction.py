"""Direction and T5 follow the rules of the language page on queries that need not be well-typed."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import many, quick
from tests.property.query_model import NotAnEndpoint, infer

from omnigraph.errors import QueryInvalid
from omnigraph.lang import compile_query, compile_schema
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import CheckedRead
from omnigraph.lang.query_printer import print_queries

_CATALOG = compile_schema(
    "node A {} node B {} node C {} "
    "edge Loop: A -> A  edge Ab: A -> B  edge Ba: B -> A  edge Bc: B -> C"
)
_variables = st.sampled_from(("a", "b", "c", "d", "_"))
_clauses = st.lists(
    st.one_of(
        st.builds(
            ast.Binding,
            var=_variables.filter(lambda name: name != "_"),
            type_name=st.sampled_from("ABC"),
        ),
        st.builds(
            ast.Traversal,
            left=_variables,
            right=_variables,
            edge_word=st.sampled_from(("loop", "ab", "aB", "ba", "bc")),
        ),
    ),
    min_size=1,
    max_size=6,
)


def _rebinds(clauses: list[ast.Binding | ast.Traversal]) -> bool:
    """T25 in the making: one variable bound to two types."""
    bound = {(item.var, item.type_name) for item in clauses if isinstance(item, ast.Binding)}
    return len({var for var, _ in bound}) < len(bound)


def _check(clauses: list[ast.Binding | ast.Traversal]) -> None:
    if _rebinds(clauses):
        return
    body = ast.ReadBody(
        clauses=tuple(clauses), projections=(ast.Projection(expr=ast.IntLit(value=1)),)
    )
    source = print_queries((ast.Query(name="q", params=(), body=body),))
    try:
        expected, _ = infer(_CATALOG, clauses, {})
    except NotAnEndpoint:
        expected = None
    try:
        checked = compile_query(_CATALOG, source).checked
    except QueryInvalid as error:
        diagnostics = error.details["diagnostics"]
        assert isinstance(diagnostics, list)
        assert {item["code"] for item in diagnostics} == {"T5"}
        assert expected is None, source
    else:
        assert expected is not None, source
        assert isinstance(checked, CheckedRead)
        assert [
            (walk.edge, walk.direction.value, walk.left_type, walk.right_type)
            for walk in checked.block.walks
        ] == [(item.edge, item.direction, item.left_type, item.right_type) for item in expected]


@quick(200)
@given(_clauses)
def test_direction_comes_from_types(clauses: list[ast.Binding | ast.Traversal]) -> None:
    _check(clauses)


@many
@given(_clauses)
def test_direction_always_comes_from_types(clauses: list[ast.Binding | ast.Traversal]) -> None:
    _check(clauses)
