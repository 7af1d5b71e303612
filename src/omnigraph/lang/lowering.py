"""Lowering: from a checked query to the IR, then pushdown of single-variable filters.

Per clause list: variables joined by traversals form components; each component has a root that is
scanned, unless it is bound outside; traversals follow in written order from whatever is bound.
Every traversal is emitted; one that cannot be reached is a bug of ours.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import count

from omnigraph.errors import InternalError
from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Block, CheckedMutation, CheckedQuery, CheckedRead, Count, Walk
from omnigraph.lang.ir_parts import variables_of
from omnigraph.lang.types import STRING
from omnigraph.lang.variable_groups import BoundNames, Groups


def lower_query(checked: CheckedQuery) -> ir.QueryIR | ir.MutationIR:
    """The IR of a checked query."""
    match checked:
        case CheckedMutation():
            return ir.MutationIR(name=checked.name, params=checked.params, ops=checked.ops)
        case CheckedRead():
            hidden = (f"#{number}" for number in count())
            return ir.QueryIR(
                name=checked.name,
                params=checked.params,
                ops=_lower_block(checked.block, BoundNames(None), hidden),
                returns=checked.returns,
                order=checked.order,
                limit=_number(checked.limit),
                result_schema=checked.columns,
                limit_param=_param(checked.limit),
                offset=_number(checked.offset),
                offset_param=_param(checked.offset),
                distinct=checked.distinct or None,
                having=checked.having or None,
            )


def _number(count: Count) -> int | None:
    return count if isinstance(count, int) else None


def _param(count: Count) -> ir.Param | None:
    return count if isinstance(count, ir.Param) else None


def lower_count(block: Block) -> ir.CountOf:
    """The number of solutions of a block; hidden names inside are its own."""
    outer = BoundNames(None, block.outer_vars)
    hidden = (f"#count{number}" for number in count())
    return ir.CountOf(_lower_block(block, outer, hidden), block.outer_vars)


def _lower_block(block: Block, outer: BoundNames, hidden: Iterator[str]) -> tuple[ir.Op, ...]:
    walks = [_name_ends(walk, hidden) for walk in block.walks]
    matches = {node.var: node.filters for node in block.nodes}
    lowering = _Lowering(matches=matches, hidden=hidden, bound=BoundNames(outer))
    for component in _components(block, walks, outer):
        lowering.emit_component(component)
    if lowering.emitted != len(walks):
        raise InternalError(
            "a traversal of the query was not reached by lowering; please report this query"
        )
    # A binding inside a negation that repeats an outer variable filters that variable.
    repeated = [item for node in block.nodes if node.var in outer for item in node.filters]
    # What mentions an optional variable waits until the block that binds it has run.
    late = {name for inner in block.optionals for name in inner.bound_vars}
    filters = [*repeated, *block.filters]
    ops = [*lowering.ops, *(ir.Where(item) for item in filters if not variables_of([item]) & late)]
    ops = [*(_of_type(*item) for item in block.narrowed), *_push_down(ops, outer)]
    tests: list[tuple[type[ir.AntiJoin | ir.SemiJoin], Block]] = [
        *((ir.AntiJoin, inner) for inner in block.negations),
        *((ir.SemiJoin, inner) for inner in block.exists),
    ]
    for join, inner in tests:
        if not late & {*inner.outer_vars}:
            ops.append(join(_lower_block(inner, lowering.bound, hidden), inner.outer_vars))
    for inner in block.optionals:
        inner_ops = _lower_block(inner, lowering.bound, hidden)
        ops.append(ir.Optional(inner_ops, inner.outer_vars, inner.bound_vars))
        for name in inner.bound_vars:
            lowering.bound.add(name)
    ops += [ir.Where(item) for item in filters if variables_of([item]) & late]
    for join, inner in tests:
        if late & {*inner.outer_vars}:
            ops.append(join(_lower_block(inner, lowering.bound, hidden), inner.outer_vars))
    return tuple(ops)


def _of_type(var: str, type_name: str) -> ir.Where:
    """Keep the rows whose variable, of several types, is of this one."""
    told, wanted = ir.TypeOf(var, None), ir.Lit(type_name, STRING)
    return ir.Where(ir.Filter(told, ir.FilterOp.EQ, wanted))


def _name_ends(walk: Walk, hidden: Iterator[str]) -> Walk:
    """Give anonymous ends hidden names, each its own."""
    if walk.left == ast.ANONYMOUS:
        walk = replace(walk, left=next(hidden))
    if walk.right == ast.ANONYMOUS:
        walk = replace(walk, right=next(hidden))
    return walk


@dataclass(slots=True, kw_only=True)
class _Component:
    """Variables joined by traversals, and those traversals in written order."""

    root: str
    root_type: str
    root_types: tuple[str, ...]
    """The node types to scan: several for an interface."""
    walks: list[Walk] = field(default_factory=list)


def _components(block: Block, walks: list[Walk], outer: BoundNames) -> list[_Component]:
    """Components in root order: with an outer variable, by declaration, then the rest."""
    groups = Groups()
    for walk in walks:
        groups.join(walk.left, walk.right)
    components: dict[str, _Component] = {}
    roots: Iterable[tuple[str, str, tuple[str, ...]]] = (
        *((name, kind, (kind,)) for walk in walks for name, kind in _ends(walk) if name in outer),
        *((node.var, node.type_name, node.types) for node in block.nodes if node.var not in outer),
        *((walk.left, walk.left_type, (walk.left_type,)) for walk in walks),
    )
    for name, type_name, types in roots:
        root = _Component(root=name, root_type=type_name, root_types=types)
        components.setdefault(groups.find(name), root)
    for walk in walks:
        components[groups.find(walk.left)].walks.append(walk)
    return list(components.values())


def _ends(walk: Walk) -> tuple[tuple[str, str], tuple[str, str]]:
    return (walk.left, walk.left_type), (walk.right, walk.right_type)


@dataclass(slots=True, kw_only=True)
class _Lowering:
    matches: Mapping[str, tuple[ir.Condition, ...]]
    """Property matches of the variables that this clause list binds."""
    hidden: Iterator[str]
    bound: BoundNames
    ops: list[ir.Op] = field(default_factory=list)
    emitted: int = 0

    def emit_component(self, component: _Component) -> None:
        if component.root not in self.bound:
            types, matches = component.root_types, self.matches.get(component.root, ())
            self.ops.append(
                ir.NodeScan(component.root, types[0], matches)
                if len(types) == 1
                else ir.NodeScan(component.root, component.root_type, matches, types)
            )
            self.bound.add(component.root)
        # Always the first traversal, in written order, that has a bound end.
        walks = component.walks
        by_end: dict[str, list[int]] = {}
        for position, walk in enumerate(walks):
            for end in {walk.left, walk.right}:
                by_end.setdefault(end, []).append(position)
        ready = [at for end, positions in by_end.items() if end in self.bound for at in positions]
        heapify(ready)
        done: set[int] = set()
        while ready:
            position = heappop(ready)
            if position in done:
                continue
            done.add(position)
            walk = walks[position]
            self.emit_walk(walk)
            for end in (walk.left, walk.right):
                for reached in by_end.pop(end, ()):
                    heappush(ready, reached)

    def emit_walk(self, walk: Walk) -> None:
        self.emitted += 1
        if walk.left in self.bound and walk.right in self.bound:
            target = next(self.hidden)
            self.expand(walk, target)
            self.ops.append(
                ir.Where(ir.Filter(ir.NodeId(target), ir.FilterOp.EQ, ir.NodeId(walk.right)))
            )
        elif walk.left in self.bound:
            self.expand(walk, walk.right)
        else:
            turned = replace(
                walk,
                left=walk.right,
                right=walk.left,
                left_type=walk.right_type,
                right_type=walk.left_type,
                direction=walk.direction.flipped,
            )
            self.expand(turned, walk.left, is_turned=True)

    def expand(self, walk: Walk, target: str, *, is_turned: bool = False) -> None:
        self.ops.append(
            ir.Expand(
                src_var=walk.left,
                dst_var=target,
                edge=walk.edge,
                direction=walk.direction,
                dst_type=walk.right_type,
                min_hops=walk.min_hops,
                max_hops=walk.max_hops,
                min_param=walk.min_param,
                max_param=walk.max_param,
                dst_filters=self.matches.get(target, ()),
                edge_var=walk.edge_var,
                walk_var=walk.walk_var,
                is_turned=True if is_turned and walk.walk_var is not None else None,
            )
        )
        self.bound.add(target)
        for name in (walk.edge_var, walk.walk_var):
            if name is not None:
                self.bound.add(name)


def _push_down(ops: list[ir.Op], outer: BoundNames) -> list[ir.Op]:
    """Move each filter on one variable to the operator that introduces the variable."""
    homes: set[str | None] = set()
    for op in ops:
        if isinstance(op, ir.NodeScan):
            homes.add(op.var)
        elif isinstance(op, ir.Expand):
            homes |= {op.dst_var, op.edge_var}
    moved: dict[str, list[ir.Condition]] = {}
    kept: list[ir.Op] = []
    for op in ops:
        variables = variables_of([op.filter]) if isinstance(op, ir.Where) else set()
        var = next(iter(variables)) if len(variables) == 1 else None
        if isinstance(op, ir.Where) and var is not None and var in homes and var not in outer:
            moved.setdefault(var, []).append(op.filter)
        else:
            kept.append(op)
    return [_with_filters(op, moved) for op in kept]


def _with_filters(op: ir.Op, moved: Mapping[str, list[ir.Condition]]) -> ir.Op:
    match op:
        case ir.NodeScan() if op.var in moved:
            return replace(op, filters=(*op.filters, *moved[op.var]))
        case ir.Expand() if op.dst_var in moved or op.edge_var in moved:
            of_edge = () if op.edge_var is None else tuple(moved.get(op.edge_var, ()))
            return replace(
                op,
                dst_filters=(*op.dst_filters, *moved.get(op.dst_var, ())),
                edge_filters=(*op.edge_filters, *of_edge),
            )
        case _:
            return op
