"""What of each variable a query reads: its properties, and the calls that search them.

Blocks may give one name to different things; whoever binds a variable takes what its type has.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.lang import ir
from omnigraph.lang.ir_parts import counts_outside, filters_of, inner_ops, leaves_of, operands_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.lang import EdgeType, NodeType

SearchCall: TypeAlias = ir.Nearest | ir.Bm25 | ir.Search | ir.MatchText | ir.Fuzzy
Leaf: TypeAlias = ir.Prop | SearchCall
"""What is read of the row of one entity."""

Leaves: TypeAlias = "Mapping[str, frozenset[Leaf]]"


def leaves_by_variable(query: ir.QueryIR) -> Leaves:
    """What is read of each variable, wherever it is bound."""
    found: dict[str, set[Leaf]] = defaultdict(set)
    for expr in _exprs(query):
        for leaf in _parts(expr):
            if isinstance(leaf, Leaf):
                found[leaf.var].add(leaf)
    return {name: frozenset(leaves) for name, leaves in found.items()}


def leaves_of_type(
    leaves: Leaves, var: str, item: NodeType | EdgeType
) -> tuple[tuple[ir.Prop, ...], tuple[SearchCall, ...]]:
    """The properties of a variable of this type that are read, and the calls, in a fixed order."""
    own = [leaf for leaf in leaves.get(var, ()) if leaf.property in item.properties]
    own.sort(key=repr)
    props = tuple(leaf for leaf in own if isinstance(leaf, ir.Prop))
    return props, tuple(leaf for leaf in own if not isinstance(leaf, ir.Prop))


def _exprs(query: ir.QueryIR) -> Iterator[ir.Expr]:
    for projection in query.returns:
        yield projection.expr
    for ordering in query.order:
        yield ordering.expr
    for item in query.having or ():
        yield from operands_of(item)
    yield from _exprs_of(query.ops)
    for block in counts_outside(query):
        yield from _exprs_of(block.inner)


def _exprs_of(ops: Sequence[ir.Op]) -> Iterator[ir.Expr]:
    for op in ops:
        for item in filters_of(op):
            yield from operands_of(item)
        for inner in inner_ops(op):
            yield from _exprs_of(inner)


def _parts(expr: ir.Expr) -> Iterator[ir.Expr]:
    match expr:
        case ir.Agg(arg=arg):
            yield from _parts(arg)
        case ir.Rrf(first, second):
            yield first
            yield second
        case ir.Computed() | ir.If():
            for leaf in leaves_of(expr):
                yield from _parts(leaf)
        case _:
            yield expr
