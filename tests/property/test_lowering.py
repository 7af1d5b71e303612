"""Lowering keeps every clause, reads nothing before it is bound, and moves filters without loss."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import many, quick
from tests.property.query_model import components, filter_count, infer, walk_key, walk_keys
from tests.property.strategies import (
    CATALOG,
    GeneratedQuery,
    QueryShape,
    reads,
    schemas,
    well_typed,
)

from omnigraph.lang import Catalog, compile_query, ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Block, CheckedRead

_WIDE = QueryShape(max_walks=6, max_negations=2, max_depth=3)


def _variables(node: object) -> set[str]:
    """Every variable that a piece of IR mentions, found by looking at all of its fields."""
    if isinstance(node, tuple):
        return {var for item in node for var in _variables(item)}
    if not is_dataclass(node):
        return set()
    found = {node.var} if hasattr(node, "var") else set()
    return found | {var for item in fields(node) for var in _variables(getattr(node, item.name))}


def _is_hidden(var: str) -> bool:
    return not (var[0].isalpha() or var[0] == "_")


def _join_of(op: ir.Op) -> tuple[str, str] | None:
    """Hidden variable and end, when the operator closes a walk between two bound ends."""
    match op:
        case ir.Where(ir.Filter(ir.NodeId(var=left), ir.FilterOp.EQ, ir.NodeId(var=right))):
            hidden = [var for var in (left, right) if _is_hidden(var)]
            if hidden:
                (end,) = {left, right} - set(hidden)
                return hidden[0], end
    return None


def _check_bound(ops: Sequence[ir.Op], outer: set[str]) -> set[str]:
    """Walk the operators in order; every variable is bound once, before it is read."""
    bound = set(outer)
    for op in ops:
        match op:
            case ir.NodeScan():
                assert op.var not in bound
                bound.add(op.var)
                assert _variables(op.filters) <= {op.var}
            case ir.Expand():
                assert op.src_var in bound
                new = {op.dst_var} | ({op.edge_var} if op.edge_var else set())
                assert not new & bound
                bound |= new
                assert _variables(op.dst_filters) <= {op.dst_var}
                assert _variables(op.edge_filters) <= {op.edge_var}
            case ir.Where():
                assert _variables(op.filter) <= bound
            case ir.AntiJoin():
                assert op.outer_vars
                assert list(op.outer_vars) == sorted(set(op.outer_vars))
                assert set(op.outer_vars) <= bound
                _check_bound(op.inner, bound)
                assert _free(op.inner) <= set(op.outer_vars)
    return bound


def _free(ops: Iterable[ir.Op]) -> set[str]:
    """Variables that operators read and do not bind themselves."""
    bound: set[str] = set()
    used: set[str] = set()
    for op in ops:
        match op:
            case ir.NodeScan():
                bound.add(op.var)
                used |= _variables(op.filters)
            case ir.Expand():
                used.add(op.src_var)
                bound |= {op.dst_var} | ({op.edge_var} if op.edge_var else set())
                used |= _variables((*op.dst_filters, *op.edge_filters))
            case ir.Where():
                used |= _variables(op.filter)
            case ir.AntiJoin():
                used |= _free(op.inner)
    return used - bound


def _check_walks(
    catalog: Catalog, ops: Sequence[ir.Op], clauses: Sequence[ast.Clause], outer: dict[str, str]
) -> None:
    """The operators of one list walk exactly the traversals written in it."""
    joins = dict(join for op in ops if (join := _join_of(op)) is not None)

    def shown(var: str) -> str:
        return joins.get(var, "_") if _is_hidden(var) else var

    emitted = Counter(
        walk_key(
            op.edge,
            (op.min_hops, op.max_hops),
            op.edge_var,
            op.direction.value,
            (shown(op.src_var), shown(op.dst_var)),
        )
        for op in ops
        if isinstance(op, ir.Expand)
    )
    assert emitted == walk_keys(catalog, clauses, outer)


def _check_scans(
    ops: Sequence[ir.Op], clauses: Sequence[ast.Clause], outer: dict[str, str]
) -> None:
    """One scan per group of joined variables that no outer variable reaches, at its root."""
    scans = [op.var for op in ops if isinstance(op, ir.NodeScan)]
    declared = [clause.var for clause in clauses if isinstance(clause, ast.Binding)]
    lefts = [clause.left for clause in clauses if isinstance(clause, ast.Traversal)]
    groups = [group for group in components(clauses) if not set(group) & set(outer)]
    assert len(scans) == len(groups)
    for group in groups:
        roots = [var for var in declared if var in group]
        if roots:
            assert roots[0] in scans
        else:
            # No binding: the left end of the first traversal, hidden when it is `$_`.
            assert sum(scan in group for scan in scans) <= 1
            assert any(scan in group or _is_hidden(scan) for scan in scans)
    assert all(scan in (*declared, *lefts) or _is_hidden(scan) for scan in scans)


def _filters(ops: Iterable[ir.Op]) -> list[ir.Condition]:
    """The filters of one list, without the joins that lowering adds."""
    found: list[ir.Condition] = []
    for op in ops:
        match op:
            case ir.NodeScan():
                found += op.filters
            case ir.Expand():
                found += (*op.dst_filters, *op.edge_filters)
            case ir.Where() if _join_of(op) is None:
                found.append(op.filter)
    return found


def _check_filters(
    ops: Sequence[ir.Op], clauses: Sequence[ast.Clause], block: Block, outer: set[str]
) -> None:
    """Every stated filter is there once, and stays apart only if it has no one home here."""
    found = _filters(ops)
    stated = [item for node in block.nodes for item in node.filters] + list(block.filters)
    assert len(found) == filter_count(clauses)
    assert Counter(map(repr, found)) == Counter(map(repr, stated))
    introduced = {op.var for op in ops if isinstance(op, ir.NodeScan)} | {
        var for op in ops if isinstance(op, ir.Expand) for var in (op.dst_var, op.edge_var)
    }
    for op in ops:
        if isinstance(op, ir.Where):
            mentioned = _variables(op.filter)
            assert len(mentioned) != 1 or mentioned <= outer or not mentioned <= introduced


def _check_directions(
    catalog: Catalog, block: Block, clauses: Sequence[ast.Clause], outer: dict[str, str]
) -> dict[str, str]:
    inferred, types = infer(catalog, clauses, outer)
    assert [
        (walk.edge, walk.direction.value, walk.left_type, walk.right_type) for walk in block.walks
    ] == [(item.edge, item.direction, item.left_type, item.right_type) for item in inferred]
    return types


def _check_list(
    catalog: Catalog,
    ops: Sequence[ir.Op],
    block: Block,
    clauses: Sequence[ast.Clause],
    outer: dict[str, str],
) -> None:
    """All promises for one clause list, then for the negations in it."""
    types = _check_directions(catalog, block, clauses, outer)
    _check_walks(catalog, ops, clauses, outer)
    _check_scans(ops, clauses, outer)
    outer_edges = {var for var in _free(ops) if var not in outer}
    _check_filters(ops, clauses, block, set(outer) | outer_edges)
    negations = [clause for clause in clauses if isinstance(clause, ast.Negation)]
    antis = [op for op in ops if isinstance(op, ir.AntiJoin)]
    for anti, inner, negation in zip(antis, block.negations, negations, strict=True):
        _check_list(catalog, anti.inner, inner, negation.clauses, types)


def _check(catalog: Catalog, generated: GeneratedQuery) -> None:
    compiled = compile_query(catalog, generated.source)
    body, lowered = generated.query.body, compiled.ir
    text = json.dumps(lowered.to_dict(), allow_nan=False)
    assert json.loads(text) == lowered.to_dict()
    if not isinstance(lowered, ir.QueryIR):
        assert isinstance(body, ast.MutationBody)
        assert len(lowered.ops) == len(body.statements)
        return
    assert isinstance(body, ast.ReadBody)
    assert isinstance(compiled.checked, CheckedRead)
    bound = _check_bound(lowered.ops, set())
    assert _variables((lowered.returns, lowered.order)) <= bound
    _check_list(catalog, lowered.ops, compiled.checked.block, body.clauses, {})


@quick(40)
@given(well_typed(CATALOG))
def test_lowering_keeps_its_promises_on_a_fixed_schema(generated: GeneratedQuery) -> None:
    _check(CATALOG, generated)


@quick(25)
@given(reads(CATALOG, _WIDE))
def test_lowering_keeps_its_promises_on_wide_reads(generated: GeneratedQuery) -> None:
    _check(CATALOG, generated)


_with_catalog = schemas(min_edges=1).flatmap(
    lambda schema: st.tuples(st.just(schema.catalog), well_typed(schema.catalog))
)


@quick(10)
@given(_with_catalog)
def test_lowering_keeps_its_promises_on_generated_schemas(
    pair: tuple[Catalog, GeneratedQuery],
) -> None:
    _check(*pair)


@many
@given(reads(CATALOG, _WIDE))
def test_lowering_always_keeps_its_promises(generated: GeneratedQuery) -> None:
    _check(CATALOG, generated)


@many
@given(_with_catalog)
def test_lowering_always_keeps_its_promises_on_generated_schemas(
    pair: tuple[Catalog, GeneratedQuery],
) -> None:
    _check(*pair)
