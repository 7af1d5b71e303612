"""`hops($a, $b)` and `path($a, $b)`: what the one walk between two variables tells of itself.

Only a walk that something asks about is measured. Such a walk binds a hidden variable, `#a,b`,
whose properties are the answers; everything after that treats them as any property.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.checked import Typed, WalkEnds
from omnigraph.lang.types import I64, PropType, Scalar

if TYPE_CHECKING:
    from omnigraph.lang.expressions import ExprChecker

_IDS = PropType(scalar=Scalar.STRING, is_list=True)


def measured_pairs(body: ast.ReadBody, text: str) -> frozenset[frozenset[str]]:
    """The pairs of variables that some `hops` or `path` of a query with this text names."""
    if not any(function in text for function in ast.WALK_CALLS):
        return frozenset()
    return frozenset(
        frozenset(arg.name for arg in call.args if isinstance(arg, ast.Var))
        for call in _walk_calls(body)
    )


def _walk_calls(item: object) -> Iterator[ast.Call]:
    match item:
        case ast.ListLit():
            return
        case tuple():
            for each in item:
                yield from _walk_calls(each)
        case _ if is_dataclass(item):
            if isinstance(item, ast.Call) and item.function in ast.WALK_CALLS:
                yield item
            for each in fields(item):
                yield from _walk_calls(getattr(item, each.name))


def bind_walk(checker: "ExprChecker", clause: ast.Traversal, edge: EdgeType) -> str | None:
    """The hidden variable of a traversal that some call asks about; None if none does."""
    if frozenset((clause.left, clause.right)) not in checker.measured:
        return None
    is_told = clause.edge_var in (None, ast.ANONYMOUS)
    name = ir.walk_var(clause.left, clause.right)
    while checker.scope.edge(name) is not None:
        name += "'"
    checker.scope.bind_walk(
        WalkEnds(
            left=clause.left,
            right=clause.right,
            edge=edge.name,
            var=name if is_told else None,
            is_within_one_type=edge.from_type == edge.to_type,
        )
    )
    return name if is_told else None


def check_walk_call(checker: "ExprChecker", call: ast.Call) -> Typed | None:
    """The distance or the path of the walk between two variables, or None with T35."""
    ends = [arg for arg in call.args if isinstance(arg, ast.Var)]
    typed = [checker.check(arg) for arg in call.args]
    if None in typed:
        return None
    if len(ends) < len(call.args) or not all(
        isinstance(each.expr, ir.NodeId) for each in typed if each is not None
    ):
        _report(checker, call, "it takes two node variables, the ends of a traversal")
        return None
    first, second = (end.name for end in ends)
    walks = checker.scope.walks_between(first, second)
    if len(walks) != 1:
        found = "no traversal joins" if not walks else f"{len(walks)} traversals join"
        tail = f"; write one: `${first} knows{{1,4}} ${second}`" if not walks else ""
        _report(checker, call, f"{found} `${first}` and `${second}` here, one must{tail}")
        return None
    (walk,) = walks
    if walk.var is None:
        _report(checker, call, "a traversal with an edge variable is one edge, and has no distance")
        return None
    checker.scope.mention(walk.var)
    is_optional = checker.scope.is_optional(walk.var)
    if call.function is ast.Function.HOPS:
        kind, name = I64, ir.WalkProperty.HOPS
    elif not walk.is_within_one_type:
        _report(checker, call, f"it needs an edge within one type, and `{walk.edge}` joins two")
        return None
    else:
        is_forward = first == walk.left
        kind, name = _IDS, ir.WalkProperty.PATH if is_forward else ir.WalkProperty.PATH_BACK
    kind = kind.as_nullable(nullable=is_optional)
    return Typed(ir.Prop(walk.var, name.value, kind), kind)


def _report(checker: "ExprChecker", call: ast.Call, detail: str) -> None:
    checker.report("T35", "no_single_walk", f"`{call.function}`: {detail}", call.extent)
