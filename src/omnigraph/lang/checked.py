"""Checked queries: what the type checker hands to lowering, lint and the descriptor.

Names are resolved and expressions are already IR; what is left to lowering is the order of work.
"""

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its type."""

    expr: ir.Expr
    type: PropType


@dataclass(slots=True, kw_only=True)
class Scope:
    """Variables visible at a place; a negation works on a child scope."""

    params: dict[str, PropType]
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    outer: frozenset[str] = frozenset()
    """Names bound outside the current clause list."""
    mentioned: set[str] = field(default_factory=set)
    """Outer names that this clause list mentions."""
    used_params: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    """Variables whose own clause has an error; uses of them are not reported again."""

    def child(self) -> "Scope":
        """A scope for an inner clause list: sees everything, adds for itself only."""
        return Scope(
            params=self.params,
            nodes=dict(self.nodes),
            edges=dict(self.edges),
            outer=frozenset(self.nodes) | frozenset(self.edges),
            used_params=self.used_params,
            broken=set(self.broken),
        )

    def mention(self, name: str) -> None:
        """Note the use of a variable bound outside."""
        if name in self.outer:
            self.mentioned.add(name)

    def bound_names(self) -> list[str]:
        """Everything a `$name` may refer to."""
        return [*self.params, *self.nodes, *self.edges]
