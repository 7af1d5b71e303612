"""The type checker of `.gq` queries (T1 to T39)."""

from contextlib import suppress

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import Catalog
from omnigraph.lang.checked import CheckedMutation, CheckedQuery, CheckedRead, Scope
from omnigraph.lang.computed import check_computed
from omnigraph.lang.diagnostics import Findings, FindingsFull
from omnigraph.lang.expressions import ExprChecker, check_count
from omnigraph.lang.foreign_syntax import suggest_type
from omnigraph.lang.match_check import check_block
from omnigraph.lang.mutation_check import check_mutation
from omnigraph.lang.return_check import check_having, check_order, check_returns
from omnigraph.lang.types import BASE_SCALARS, MAX_VECTOR_DIM, STRING, PropType, Scalar
from omnigraph.lang.walk_calls import measured_pairs

_RESERVED_PARAMS = frozenset({ast.NOW_PARAM, ast.ANONYMOUS})


def typecheck_query(catalog: Catalog, query: ast.Query, findings: Findings) -> CheckedQuery | None:
    """The checked query, or None when it has errors, which are then in `findings`."""
    before = len(findings)
    checked: CheckedQuery | None = None
    with suppress(FindingsFull):
        checked = _check(catalog, query, findings)
    return checked if len(findings) == before else None


def _check(catalog: Catalog, query: ast.Query, findings: Findings) -> CheckedQuery:
    """The checked query; meaningful only when no finding was recorded."""
    scope = Scope({})
    for param in query.params:
        kind, problem = _param_type(param)
        scope.params[param.name] = kind
        if problem is not None:
            reserved = param.name in _RESERVED_PARAMS
            extent = param.extent if reserved else param.type.extent
            findings.add("T26", "parameter_type", f"`${param.name}`: {problem}", extent)
            scope.mark_broken(param.name)
    checker = ExprChecker(
        catalog=catalog, findings=findings, scope=scope, check_computed=check_computed
    )
    typed_params = tuple(ir.Param(name, kind) for name, kind in scope.params.items())
    match query.body:
        case ast.ReadBody() as body:
            checker.measured = measured_pairs(body, findings.source.text)
            block = check_block(checker, body.clauses, query.extent)
            returned = check_returns(checker, body.projections, distinct=body.distinct)
            having = check_having(checker, body.having, returned)
            has_limit = body.limit is not None
            ordered = check_order(checker, body.order, returned, has_limit=has_limit)
            return CheckedRead(
                name=query.name,
                params=typed_params,
                block=block,
                returns=returned.returns,
                columns=returned.columns,
                order=ordered.order,
                limit=check_count(checker, "`limit`", body.limit),
                distinct=body.distinct,
                having=having,
                offset=check_count(checker, "`offset`", body.offset),
                used_params=frozenset(checker.scope.used_params),
                searches=tuple(checker.searches),
                worst_first=ordered.worst_first,
                null_negations=tuple(checker.null_negations),
                counted=tuple(checker.counted),
            )
        case ast.MutationBody() as body:
            return CheckedMutation(
                name=query.name,
                params=typed_params,
                ops=check_mutation(checker, query.name, body.statements, query.extent),
                used_params=frozenset(checker.scope.used_params),
            )


def _param_type(param: ast.Param) -> tuple[PropType, str | None]:
    """The type of a parameter, and what is wrong with it (the type is a stand-in then)."""
    written, dim = param.type, param.type.vector_dim
    if param.name in _RESERVED_PARAMS:
        return STRING, "the name is reserved; choose another"
    if written.name == Scalar.VECTOR.value and not written.is_list:
        if dim is None:
            return STRING, "`Vector` needs its dimension: `Vector(384)`"
        if not 1 <= dim <= MAX_VECTOR_DIM:
            return STRING, f"a vector has 1 to {MAX_VECTOR_DIM} dimensions, not {dim}"
        return PropType(scalar=Scalar.VECTOR, vector_dim=dim, nullable=written.nullable), None
    scalar = BASE_SCALARS.get(written.name)
    if scalar is not None and dim is not None:
        return STRING, f"`{written.name}` takes no size"
    if scalar is None:
        return STRING, f"unknown parameter type `{written.name}`{suggest_type(written.name)}"
    if written.is_list and scalar is Scalar.BLOB:
        return STRING, "a list cannot hold Blob"
    return PropType(scalar=scalar, is_list=written.is_list, nullable=written.nullable), None
