"""Strategies for syntax trees that the printers can be given: well-formed, not well-typed."""

from hypothesis import strategies as st
from tests.property import names as n

from omnigraph.lang import query_ast as q
from omnigraph.lang import schema_ast as s
from omnigraph.lang.types import BASE_SCALARS, MAX_VECTOR_DIM, PropType, Scalar

# --- .pg ---------------------------------------------------------------------------------------

_BARE_WORDS = frozenset({"key", "unique", "index", "range", "check", "card"})
_YES = st.sampled_from((True,))
_literal_values = st.one_of(n.texts, n.integers, n.floats, st.booleans())
_numbers = st.one_of(n.integers, n.floats)

property_types: st.SearchStrategy[PropType] = st.one_of(
    st.builds(PropType, scalar=st.sampled_from(sorted(BASE_SCALARS.values()))),
    st.builds(
        PropType,
        scalar=st.sampled_from(sorted(set(BASE_SCALARS.values()) - {Scalar.BLOB})),
        is_list=_YES,
    ),
    st.builds(PropType, scalar=st.just(Scalar.VECTOR), vector_dim=st.integers(1, MAX_VECTOR_DIM)),
    st.builds(
        PropType,
        scalar=st.just(Scalar.STRING),
        enum_values=st.sets(n.enum_values, min_size=1, max_size=4).map(sorted).map(tuple),
    ),
).flatmap(lambda kind: st.booleans().map(lambda null: kind.as_nullable(nullable=null)))


def _annotations(exclude: frozenset[str]) -> st.SearchStrategy[tuple[s.Annotation, ...]]:
    """Annotations, each of any name but the excluded ones; a constraint's word stands bare."""
    words = n.names.filter(lambda name: name not in exclude)
    keywords = st.dictionaries(n.expression_names, _literal_values, max_size=2).map(
        lambda found: tuple(sorted(found.items()))
    )
    valued = st.builds(
        s.Annotation,
        name=words.filter(lambda name: name not in _BARE_WORDS),
        value=st.one_of(_literal_values, st.builds(s.Name, text=n.expression_names)),
        keywords=keywords,
    )
    return st.lists(st.one_of(st.builds(s.Annotation, name=words), valued), max_size=3).map(tuple)


_property_names = st.lists(n.expression_names, min_size=1, max_size=3).map(tuple)
_constraints = st.lists(
    st.one_of(
        st.builds(s.KeyConstraint, names=_property_names),
        st.builds(s.UniqueConstraint, names=_property_names),
        st.builds(s.IndexConstraint, names=_property_names),
        st.builds(
            s.RangeConstraint,
            property=n.expression_names,
            low=st.none() | _numbers,
            high=st.none() | _numbers,
        ),
        st.builds(s.CheckConstraint, property=n.expression_names, pattern=n.texts),
    ),
    max_size=3,
).map(tuple)
_properties = st.lists(
    st.builds(
        s.PropertyDecl,
        name=n.names,
        type=property_types,
        annotations=_annotations(frozenset()),
    ),
    max_size=4,
).map(tuple)
_refs = st.builds(s.TypeRef, name=n.type_names)

declarations: st.SearchStrategy[s.Declaration] = st.one_of(
    st.builds(s.InterfaceDecl, name=n.type_names, properties=_properties),
    st.builds(
        s.NodeDecl,
        name=n.type_names,
        annotations=_annotations(frozenset()),
        implements=st.lists(_refs, max_size=2).map(tuple),
        properties=_properties,
        constraints=_constraints,
    ),
    st.builds(
        s.EdgeDecl,
        name=n.type_names,
        from_type=_refs,
        to_type=_refs,
        card=st.none() | st.builds(s.Card, low=n.naturals, high=st.none() | n.naturals),
        annotations=_annotations(frozenset({"card"})),
        properties=_properties,
        constraints=_constraints,
    ),
)
schema_trees: st.SearchStrategy[tuple[s.Declaration, ...]] = st.lists(declarations, max_size=4).map(
    tuple
)
"""Any tree that some `.pg` text has; most of these schemas mean nothing."""

# --- .gq ---------------------------------------------------------------------------------------

_scalars: st.SearchStrategy[q.ScalarLit] = st.one_of(
    st.builds(q.StringLit, value=n.texts),
    st.builds(q.IntLit, value=n.integers),
    st.builds(q.FloatLit, value=n.floats),
    st.builds(q.BoolLit, value=st.booleans()),
    st.builds(q.DateLit, value=n.days),
    st.builds(q.DateTimeLit, value=n.milliseconds),
)
literals: st.SearchStrategy[q.Literal] = st.recursive(
    _scalars,
    lambda inner: st.builds(q.ListLit, items=st.lists(inner, max_size=3).map(tuple)),
    max_leaves=6,
)
_now = st.just(q.Call(function=q.Function.NOW, args=()))
_values: st.SearchStrategy[q.Value] = st.one_of(literals, st.builds(q.Var, name=n.names), _now)


def _calls(args: st.SearchStrategy[q.Expr]) -> st.SearchStrategy[q.Call]:
    """Calls of any function with a number of arguments it takes; dates are literals."""

    def call(function: q.Function) -> st.SearchStrategy[q.Call]:
        low, high = q.ARGUMENT_COUNTS[function]
        return st.builds(
            q.Call,
            function=st.just(function),
            args=st.lists(args, min_size=low, max_size=high).map(tuple),
        )

    functions = [item for item in q.Function if item not in (q.Function.DATE, q.Function.DATETIME)]
    return st.sampled_from(functions).flatmap(call)


_leaves: st.SearchStrategy[q.Expr] = st.one_of(
    st.builds(q.Var, name=n.names),
    st.builds(q.PropAccess, var=n.names, property=n.names),
    st.builds(q.AliasRef, name=n.expression_names),
    literals,
)
expressions: st.SearchStrategy[q.Expr] = st.recursive(_leaves, _calls, max_leaves=5)


_ENDING_WORDS = frozenset(
    {"as", "asc", "desc", "contains", "starts_with", "not", "insert", "update", "delete"}
)
"""What may follow an expression, and so cannot be an alias that opens the next clause."""


def _is_written_so(clause: q.Comparison) -> bool:
    """False for a left side that reads as something else: `$a contains …`, `not = …`."""
    if isinstance(clause.left, q.Var):
        return clause.op not in (q.CompareOp.CONTAINS, q.CompareOp.STARTS_WITH)
    return not isinstance(clause.left, q.AliasRef) or clause.left.name not in _ENDING_WORDS


_bindings = st.builds(
    q.Binding,
    var=n.names,
    type_name=n.type_names,
    matches=st.lists(st.builds(q.PropMatch, property=n.names, value=_values), max_size=3).map(
        tuple
    ),
)
_traversals = st.builds(
    q.Traversal,
    left=n.names,
    right=n.names,
    edge_word=n.names,
    undirected=st.booleans(),
    min_hops=n.naturals,
    max_hops=st.none() | n.naturals,
    edge_var=st.none() | n.names,
)
_comparisons = st.builds(
    q.Comparison, left=expressions, op=st.sampled_from(q.CompareOp), right=expressions
).filter(_is_written_so)
_call_clauses = st.builds(
    q.CallClause, call=_calls(expressions).filter(lambda call: call.function != q.Function.NOW)
)
clauses: st.SearchStrategy[q.Clause] = st.recursive(
    st.one_of(_bindings, _traversals, _comparisons, _call_clauses),
    lambda inner: st.builds(q.Negation, clauses=st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=5,
)


def _takes_direction(ordering: q.Ordering) -> bool:
    """`nearest` in `order` is written without a direction."""
    expr = ordering.expr
    is_nearest = isinstance(expr, q.Call) and expr.function is q.Function.NEAREST
    return ordering.direction is None or not is_nearest


_reads = st.builds(
    q.ReadBody,
    clauses=st.lists(clauses, min_size=1, max_size=4).map(tuple),
    projections=st.lists(
        st.builds(q.Projection, expr=expressions, alias=st.none() | n.names),
        min_size=1,
        max_size=4,
    ).map(tuple),
    order=st.lists(
        st.builds(
            q.Ordering, expr=expressions, direction=st.none() | st.sampled_from(q.Direction)
        ).filter(_takes_direction),
        max_size=3,
    ).map(tuple),
    limit=st.none() | n.naturals,
)
_assignments = st.lists(
    st.builds(q.Assignment, property=n.names, value=st.one_of(_values, st.just(q.NullLit()))),
    max_size=3,
).map(tuple)
_predicates = st.builds(
    q.Predicate,
    property=n.names,
    op=st.sampled_from(sorted(set(q.CompareOp) - {q.CompareOp.CONTAINS, q.CompareOp.STARTS_WITH})),
    value=_values,
)
_statements: st.SearchStrategy[q.Statement] = st.one_of(
    st.builds(q.InsertStmt, type_name=n.type_names, assignments=_assignments),
    st.builds(
        q.UpdateStmt, type_name=n.type_names, assignments=_assignments, predicate=_predicates
    ),
    st.builds(q.DeleteStmt, type_name=n.type_names, predicate=_predicates),
)
_mutations = st.builds(
    q.MutationBody, statements=st.lists(_statements, min_size=1, max_size=3).map(tuple)
)
_param_types = st.one_of(
    st.builds(
        q.ParamType,
        name=n.type_names,
        nullable=st.booleans(),
        vector_dim=st.none() | n.naturals,
    ),
    st.builds(q.ParamType, name=n.type_names, is_list=_YES, nullable=st.booleans()),
)
queries: st.SearchStrategy[q.Query] = st.builds(
    q.Query,
    name=n.names,
    params=st.lists(
        st.builds(q.Param, name=n.names, type=_param_types),
        max_size=3,
        unique_by=lambda param: param.name,
    ).map(tuple),
    body=st.one_of(_reads, _mutations),
    description=st.none() | n.texts,
    instruction=st.none() | n.texts,
)
query_trees: st.SearchStrategy[tuple[q.Query, ...]] = st.lists(
    queries, max_size=3, unique_by=lambda query: query.name
).map(tuple)
"""Any tree that some `.gq` text has; most of these queries do not check."""
