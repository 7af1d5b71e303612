"""Checked queries: what the type checker hands to lowering, lint and the descriptor.

Names are resolved and expressions are already IR; what is left to lowering is the order of work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.lang import ir
from omnigraph.lang.source import Extent
from omnigraph.lang.types import PropType


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundNode:
    """A node variable declared by binding clauses of one clause list."""

    var: str
    type_name: str
    types: tuple[str, ...]
    """The node types it may be of: several for an interface."""
    filters: tuple[ir.Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A traversal with its edge type and direction resolved; an end may be anonymous."""

    left: str
    right: str
    left_type: str
    right_type: str
    edge: str
    direction: ir.ExpandDirection
    min_hops: int
    max_hops: int
    edge_var: str | None
    min_param: ir.Param | None = None
    max_param: ir.Param | None = None
    walk_var: str | None = None
    """What `hops` and `path` of this walk are read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One clause list: the match body, or the body of an inner block."""

    nodes: tuple[BoundNode, ...]
    walks: tuple[Walk, ...]
    filters: tuple[ir.Condition, ...]
    negations: "tuple[Block, ...]"
    exists: "tuple[Block, ...]"
    optionals: "tuple[Block, ...]"
    outer_vars: tuple[str, ...] = ()
    """Variables bound outside that this block mentions, sorted."""
    bound_vars: tuple[str, ...] = ()
    """Variables first bound in this block or in optional blocks of it, sorted."""
    narrowed: tuple[tuple[str, str], ...] = ()
    """Variables of several types bound outside, and the type that a walk of this block asks for."""
    extent: Extent = (0, 0)

    @property
    def inner(self) -> "tuple[Block, ...]":
        """Blocks of this list."""
        return (*self.negations, *self.exists, *self.optionals)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchUse:
    """A search function used on a property, for lint and explain."""

    function: str
    type_name: str
    property: str
    extent: Extent


Count = int | ir.Param | None
"""A limit or an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRead:
    """A read query without errors."""

    name: str
    params: tuple[ir.Param, ...]
    block: Block
    returns: tuple[ir.Projection, ...]
    columns: tuple[ir.Column, ...]
    order: tuple[ir.Ordering, ...]
    limit: "Count"
    offset: "Count"
    distinct: bool
    having: tuple[ir.Condition, ...]
    used_params: frozenset[str]
    searches: tuple[SearchUse, ...] = ()
    worst_first: tuple[tuple[str, Extent], ...] = ()
    """Aliases of bm25 or rrf that the order sorts ascending."""
    null_negations: tuple[Extent, ...] = ()
    """Negated conditions that hold where a property is null, since a part is false there."""
    counted: tuple[Block, ...] = ()
    """Blocks whose solutions are counted, wherever they stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMutation:
    """A mutation without errors."""

    name: str
    params: tuple[ir.Param, ...]
    ops: tuple[ir.MutationOp, ...]
    used_params: frozenset[str]


CheckedQuery = CheckedRead | CheckedMutation


class Context(StrEnum):
    """Where an expression stands."""

    MATCH = "match"
    RETURN = "return"
    ORDER = "order"
    SELECTION = "selection"
    """`where` of a mutation."""
    ASSIGNMENT = "assignment"


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its type."""

    expr: ir.Expr
    type: PropType


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkEnds:
    """A walk between two variables; `var` is None where it has an edge variable."""

    left: str
    right: str
    edge: str
    var: str | None
    is_within_one_type: bool


class Scope:
    """Variables visible at a place; a negation works on a scope of its own inside the outer one.

    Names are looked up from the inside out, at most `MAX_NESTING` levels.
    """

    __slots__ = (
        "_broken",
        "_edges",
        "_nodes",
        "_optional",
        "_outer",
        "_types",
        "_walks",
        "mentioned",
        "params",
        "used_params",
    )

    def __init__(self, params: dict[str, PropType], outer: "Scope | None" = None) -> None:
        self.params = params
        self._outer = outer
        self._nodes: dict[str, str] = {}
        self._types: dict[str, tuple[str, ...]] = {}
        """What of an interface a variable may be, here and inside."""
        self._edges: dict[str, str] = {}
        self.mentioned: set[str] = set()
        """Outer names that this clause list mentions."""
        self.used_params: set[str] = set() if outer is None else outer.used_params
        self._broken: set[str] = set()
        self._optional: set[str] = set()
        self._walks: list[WalkEnds] = []

    def child(self) -> "Scope":
        """A scope for an inner clause list: sees everything, adds for itself only."""
        return Scope(self.params, self)

    def node(self, name: str) -> str | None:
        """The type of a node variable, or the interface that it was bound with."""
        if self._outer is None or name in self._nodes:
            return self._nodes.get(name)
        return self._outer.node(name)

    def types(self, name: str) -> tuple[str, ...]:
        """The node types that a node variable may be of, in order of their names."""
        if name in self._types:
            return self._types[name]
        if name in self._nodes:
            return (self._nodes[name],)
        return () if self._outer is None else self._outer.types(name)

    def type_of(self, name: str) -> ir.TypeOf:
        """The name of the type of a node variable."""
        types = self.types(name)
        return ir.TypeOf(name, types[0] if len(types) == 1 else None)

    def edge(self, name: str) -> str | None:
        """The type of an edge variable."""
        if self._outer is None or name in self._edges:
            return self._edges.get(name)
        return self._outer.edge(name)

    def bind_node(self, name: str, type_name: str, types: tuple[str, ...] = ()) -> None:
        """Bind a node variable here, unless it is bound already; `types` are of an interface."""
        if self.node(name) is None:
            self._nodes[name] = type_name
            if types:
                self._types[name] = types

    def narrow(self, name: str, type_name: str) -> None:
        """From here on, and inside, a variable of an interface is of this type."""
        self._types[name] = (type_name,)

    def bind_edge(self, name: str, type_name: str) -> None:
        """Bind an edge variable here."""
        self._edges[name] = type_name

    def bind_walk(self, ends: "WalkEnds") -> None:
        """Note a walk whose distance or path something asks for."""
        self._walks.append(ends)
        if ends.var is not None:
            self._edges[ends.var] = ends.edge

    def walks_between(self, one: str, other: str) -> "list[WalkEnds]":
        """The walks that join two variables, in either direction."""
        outer = [] if self._outer is None else self._outer.walks_between(one, other)
        return outer + [each for each in self._walks if {each.left, each.right} == {one, other}]

    def leave_optional(self) -> None:
        """Hand what this list binds to the one around it; there may be nothing behind it."""
        if self._outer is None:
            return
        for name, kind in self._nodes.items():
            self._outer.bind_node(name, kind, self._types.get(name, ()))
        for name, kind in self._edges.items():
            self._outer.bind_edge(name, kind)
        for ends in self._walks:
            self._outer.bind_walk(ends)
        self._outer.mark_optional(*self.own)
        self._outer.mark_broken(*self._broken)

    def mark_optional(self, *names: str) -> None:
        """Note names that may be bound to nothing."""
        self._optional.update(names)

    def is_optional(self, name: str) -> bool:
        """The variable may be bound to nothing."""
        return name in self._optional or (self._outer is not None and self._outer.is_optional(name))

    @property
    def own(self) -> tuple[str, ...]:
        """What this clause list binds, sorted."""
        return tuple(sorted({*self._nodes, *self._edges}))

    def is_taken(self, name: str) -> bool:
        """The name is a parameter or bound."""
        return name in self.params or self.node(name) is not None or self.edge(name) is not None

    def mention(self, name: str) -> None:
        """Note the use of a variable, if it is bound outside, be it badly."""
        is_own = name in self._nodes or name in self._edges
        is_outer = self._outer is not None and self._outer.is_bound(name)
        if self.is_broken(name) or (is_outer and not is_own):
            self.mentioned.add(name)

    def is_own(self, name: str) -> bool:
        """This clause list binds the node variable."""
        return name in self._nodes

    def is_bound(self, name: str) -> bool:
        """The name is a node or edge variable."""
        return self.node(name) is not None or self.edge(name) is not None

    def mark_broken(self, *names: str) -> None:
        """Note names whose own clause has an error; uses of them are not reported again."""
        self._broken.update(names)

    def is_broken(self, name: str) -> bool:
        """The clause that should bind the name has an error."""
        return name in self._broken or (self._outer is not None and self._outer.is_broken(name))

    def names(self) -> Iterator[str]:
        """Everything a `$name` may refer to, innermost first."""
        yield from self._nodes
        yield from (name for name in self._edges if not name.startswith("#"))
        yield from self.params if self._outer is None else self._outer.names()
