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
_lists: st.SearchStrategy[q.ListLit | q.Var] = st.one_of(
    st.builds(q.ListLit, items=st.lists(literals, max_size=3).map(tuple)),
    st.builds(q.Var, name=n.names),
)
_now = st.just(q.Call(function=q.Function.NOW, args=()))
_values: st.SearchStrategy[q.Value] = st.one_of(literals, st.builds(q.Var, name=n.names), _now)


def _calls(args: st.SearchStrategy[q.Expr]) -> st.SearchStrategy[q.Call]:
    """Calls of any function with a number of arguments it takes; dates and `if` are no calls."""

    def call(function: q.Function) -> st.SearchStrategy[q.Call]:
        low, high = q.ARGUMENT_COUNTS[function]
        return st.builds(
            q.Call,
            function=st.just(function),
            args=st.lists(args, min_size=low, max_size=high).map(tuple),
            distinct=st.booleans() if function in q.DISTINCT_AGGREGATES else st.just(False),  # noqa: FBT003
        )

    written_otherwise = (q.Function.DATE, q.Function.DATETIME, q.Function.IF)
    functions = [item for item in q.Function if item not in written_otherwise]
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
    | {"or", "and", "is", "in"}
)
"""What may follow an expression, and so cannot be an alias that opens the next clause."""


def _is_written_so(clause: q.Comparison) -> bool:
    """False for a left side that reads as something else: `$a contains …`, `not = …`."""
    if isinstance(clause.left, q.Var):
        return clause.op not in (q.CompareOp.CONTAINS, q.CompareOp.STARTS_WITH)
    if isinstance(clause.left, q.Call) and clause.op is q.CompareOp.NOT_IN:
        return False
    return _opens_a_clause(clause.left)


def _opens_a_clause(expr: q.Expr) -> bool:
    return not isinstance(expr, q.AliasRef) or expr.name not in _ENDING_WORDS


_bindings = st.builds(
    q.Binding,
    var=n.names,
    type_name=n.type_names,
    matches=st.lists(
        st.one_of(
            st.builds(q.PropMatch, property=n.names, value=_values),
            st.builds(q.PropMatch, property=n.names, value=_lists, is_one_of=_YES),
        ),
        max_size=3,
    ).map(tuple),
)
_counts = n.naturals | st.builds(q.Var, name=n.names)
_traversals = st.builds(
    q.Traversal,
    left=n.names,
    right=n.names,
    edge_word=n.names,
    undirected=st.booleans(),
    min_hops=_counts,
    max_hops=st.none() | _counts,
    edge_var=st.none() | n.names,
)
_MEMBERSHIP = (q.CompareOp.IN, q.CompareOp.NOT_IN)
_comparisons = st.one_of(
    st.builds(
        q.Comparison,
        left=expressions,
        op=st.sampled_from(sorted(set(q.CompareOp) - {*_MEMBERSHIP})),
        right=expressions,
    ),
    st.builds(
        q.Comparison,
        left=expressions,
        op=st.sampled_from(_MEMBERSHIP),
        right=_lists | st.builds(q.PropAccess, var=n.names, property=n.names),
    ),
).filter(_is_written_so)
_null_tests = st.builds(q.NullTest, expr=expressions.filter(_opens_a_clause), negated=st.booleans())
_call_clauses = st.builds(
    q.CallClause, call=_calls(expressions).filter(lambda call: call.function != q.Function.NOW)
)


def _joined(inner: st.SearchStrategy[q.Condition]) -> st.SearchStrategy[q.Condition]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(q.NotCondition, part=inner),
        st.builds(q.AnyOf, parts=parts),
        st.builds(q.AllOf, parts=parts),
    )


_conditions: st.SearchStrategy[q.Condition] = st.recursive(
    st.one_of(_comparisons, _null_tests, _call_clauses), _joined, max_leaves=4
)
clauses: st.SearchStrategy[q.Clause] = st.recursive(
    st.one_of(_bindings, _traversals, _conditions),
    lambda inner: st.one_of(
        *(
            st.builds(block, clauses=st.lists(inner, min_size=1, max_size=3).map(tuple))
            for block in (q.Negation, q.Optional, q.Exists)
        )
    ),
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
    distinct=st.booleans(),
    having=st.lists(_conditions, max_size=2).map(tuple),
    order=st.lists(
        st.builds(
            q.Ordering, expr=expressions, direction=st.none() | st.sampled_from(q.Direction)
        ).filter(_takes_direction),
        max_size=3,
    ).map(tuple),
    limit=st.none() | _counts,
    offset=st.none() | _counts,
)
_assigned: st.SearchStrategy[q.Expr] = st.recursive(
    _values | st.builds(q.AliasRef, name=n.expression_names.filter(lambda name: name != "null")),
    lambda inner: st.one_of(
        st.builds(q.Arithmetic, left=inner, op=st.sampled_from(q.ArithmeticOp), right=inner),
        st.builds(q.Negative, value=inner),
        st.builds(
            q.Call,
            function=st.sampled_from(sorted(q.VALUE_FUNCTIONS - {q.Function.COALESCE})),
            args=st.tuples(inner),
        ),
    ),
    max_leaves=4,
)
_assignments = st.lists(
    st.builds(q.Assignment, property=n.names, value=st.one_of(_assigned, st.just(q.NullLit()))),
    max_size=3,
).map(tuple)
_own_names = st.builds(q.AliasRef, name=n.names)
_selections: st.SearchStrategy[q.Condition] = st.recursive(
    st.one_of(
        st.builds(
            q.Comparison,
            left=_own_names | _values.filter(lambda value: not isinstance(value, q.BoolLit)),
            op=st.sampled_from(
                sorted(
                    set(q.CompareOp) - {q.CompareOp.CONTAINS, q.CompareOp.STARTS_WITH, *_MEMBERSHIP}
                )
            ),
            right=_own_names.filter(lambda own: own.name not in ("null", "true", "false"))
            | _values,
        ),
        st.builds(
            q.Comparison,
            left=_own_names,
            op=st.sampled_from(_MEMBERSHIP),
            right=_lists | st.builds(q.Var, name=n.names),
        ),
        st.builds(q.NullTest, expr=_own_names, negated=st.booleans()),
    ),
    _joined,
    max_leaves=4,
)
_statements: st.SearchStrategy[q.Statement] = st.one_of(
    st.builds(
        q.InsertStmt,
        type_name=n.type_names,
        assignments=_assignments,
        if_absent=st.booleans(),
    ),
    st.builds(
        q.UpdateStmt, type_name=n.type_names, assignments=_assignments, selection=_selections
    ),
    st.builds(q.DeleteStmt, type_name=n.type_names, selection=_selections),
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
