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
    filters: tuple[ir.Filter, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One clause list: the match body, or the body of a negation."""

    nodes: tuple[BoundNode, ...]
    walks: tuple[Walk, ...]
    filters: tuple[ir.Filter, ...]
    negations: "tuple[Block, ...]"
    outer_vars: tuple[str, ...] = ()
    """Variables bound outside that this block mentions, sorted."""
    extent: Extent = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchUse:
    """A search function used on a property, for lint and explain."""

    function: str
    type_name: str
    property: str
    extent: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRead:
    """A read query without errors."""

    name: str
    params: tuple[ir.Param, ...]
    block: Block
    returns: tuple[ir.Projection, ...]
    columns: tuple[ir.Column, ...]
    order: tuple[ir.Ordering, ...]
    limit: int | None
    used_params: frozenset[str]
    searches: tuple[SearchUse, ...] = ()
    worst_first: tuple[tuple[str, Extent], ...] = ()
    """Aliases of bm25 or rrf that the order sorts ascending."""


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


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its type."""

    expr: ir.Expr
    type: PropType


class Scope:
    """Variables visible at a place; a negation works on a scope of its own inside the outer one.

    Names are looked up from the inside out, at most `MAX_NESTING` levels.
    """

    __slots__ = ("_broken", "_edges", "_nodes", "_outer", "mentioned", "params", "used_params")

    def __init__(self, params: dict[str, PropType], outer: "Scope | None" = None) -> None:
        self.params = params
        self._outer = outer
        self._nodes: dict[str, str] = {}
        self._edges: dict[str, str] = {}
        self.mentioned: set[str] = set()
        """Outer names that this clause list mentions."""
        self.used_params: set[str] = set() if outer is None else outer.used_params
        self._broken: set[str] = set()

    def child(self) -> "Scope":
        """A scope for an inner clause list: sees everything, adds for itself only."""
        return Scope(self.params, self)

    def node(self, name: str) -> str | None:
        """The type of a node variable."""
        if self._outer is None or name in self._nodes:
            return self._nodes.get(name)
        return self._outer.node(name)

    def edge(self, name: str) -> str | None:
        """The type of an edge variable."""
        if self._outer is None or name in self._edges:
            return self._edges.get(name)
        return self._outer.edge(name)

    def bind_node(self, name: str, type_name: str) -> None:
        """Bind a node variable here, unless it is bound already."""
        if self.node(name) is None:
            self._nodes[name] = type_name

    def bind_edge(self, name: str, type_name: str) -> None:
        """Bind an edge variable here."""
        self._edges[name] = type_name

    def is_taken(self, name: str) -> bool:
        """The name is a parameter or bound."""
        return name in self.params or self.node(name) is not None or self.edge(name) is not None

    def mention(self, name: str) -> None:
        """Note the use of a variable, if it is bound outside, be it badly."""
        is_own = name in self._nodes or name in self._edges
        is_outer = self._outer is not None and self._outer.is_bound(name)
        if self.is_broken(name) or (is_outer and not is_own):
            self.mentioned.add(name)

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
        yield from self._edges
        yield from self.params if self._outer is None else self._outer.names()
