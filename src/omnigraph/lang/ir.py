"""The IR: what a checked query means, for both executors.

Plain frozen values with names resolved and types attached; no reference to the syntax tree. Every
node turns into JSON with `to_dict`, where `node` names the class. Dates are epoch days, date-times
epoch milliseconds, and `now()` is the parameter `__now`. A variable whose name starts with `#` is
hidden: lowering made it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum

from omnigraph.lang.types import PropType


class FilterOp(StrEnum):
    """Comparison of a filter, resolved by the types of its operands."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    LIST_CONTAINS = "list_contains"
    STR_CONTAINS = "str_contains"
    STARTS_WITH = "starts_with"


class ExpandDirection(StrEnum):
    """Which way edges are followed, seen from the source variable."""

    OUT = "out"
    IN = "in"
    BOTH = "both"

    @property
    def flipped(self) -> "ExpandDirection":
        """The same edges seen from the other end."""
        return _FLIPPED[self]


_FLIPPED = {
    ExpandDirection.OUT: ExpandDirection.IN,
    ExpandDirection.IN: ExpandDirection.OUT,
    ExpandDirection.BOTH: ExpandDirection.BOTH,
}


class AggFunc(StrEnum):
    """Aggregate functions."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class EntityKind(StrEnum):
    """Node or edge."""

    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True, slots=True)
class Prop:
    """A property of a bound node or edge variable."""

    var: str
    property: str
    type: PropType


@dataclass(frozen=True, slots=True)
class NodeId:
    """The id of a bound node variable."""

    var: str


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the request."""

    name: str
    type: PropType


@dataclass(frozen=True, slots=True)
class Lit:
    """A constant, as its type holds it; the value None is null."""

    value: object
    type: PropType


@dataclass(frozen=True, slots=True)
class Alias:
    """The value of an earlier projection, by its column name."""

    name: str


@dataclass(frozen=True, slots=True)
class Nearest:
    """Cosine distance of a vector property to a query vector or text."""

    var: str
    property: str
    query: Param | Lit


@dataclass(frozen=True, slots=True)
class Bm25:
    """BM25 score of a text property."""

    var: str
    property: str
    query: Param | Lit


@dataclass(frozen=True, slots=True)
class Search:
    """Any query token is in the field."""

    var: str
    property: str
    query: Param | Lit


@dataclass(frozen=True, slots=True)
class MatchText:
    """The query tokens occur as a phrase."""

    var: str
    property: str
    query: Param | Lit


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Some query token is within `max_edits` edits of a token of the field."""

    var: str
    property: str
    query: Param | Lit
    max_edits: Param | Lit


@dataclass(frozen=True, slots=True)
class Rrf:
    """Reciprocal rank fusion of two rankings of one variable."""

    first: Nearest | Bm25
    second: Nearest | Bm25
    k: Param | Lit


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate of an expression."""

    func: AggFunc
    arg: "Expr"


TextCall = Search | MatchText | Fuzzy
Expr = Prop | NodeId | Param | Lit | Alias | Nearest | Bm25 | TextCall | Rrf | Agg


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison; rows stay when it is true, not when it is unknown."""

    left: Expr
    op: FilterOp
    right: Expr


@dataclass(frozen=True, slots=True)
class NodeScan:
    """All rows of a node type that pass the filters."""

    var: str
    type: str
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """Follow an edge type from a bound variable to a new one."""

    src_var: str
    dst_var: str
    edge: str
    direction: ExpandDirection
    dst_type: str
    min_hops: int = 1
    max_hops: int = 1
    dst_filters: tuple[Filter, ...] = ()
    edge_var: str | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """Keep rows for which the filter is true."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep rows for which the inner operators give no row."""

    inner: "tuple[Op, ...]"
    outer_vars: tuple[str, ...]


Op = NodeScan | Expand | Where | AntiJoin


@dataclass(frozen=True, slots=True)
class Projection:
    """One result column."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """One sort key."""

    expr: Expr
    descending: bool


@dataclass(frozen=True, slots=True)
class Column:
    """Name and type of a result column."""

    name: str
    type: PropType


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryIR:
    """A read query: `ops` in order, starting from one row that binds nothing."""

    name: str
    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    returns: tuple[Projection, ...]
    order: tuple[Ordering, ...]
    limit: int | None
    result_schema: tuple[Column, ...]

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return _node_dict(self)


@dataclass(frozen=True, slots=True)
class Assign:
    """A property and its new value."""

    property: str
    value: Param | Lit


@dataclass(frozen=True, slots=True)
class Pred:
    """The one comparison that selects rows to update or delete."""

    property: str
    op: FilterOp
    value: Param | Lit


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """A new row, or an upsert for a keyed node; endpoints of an edge are `src` and `dst`."""

    kind: EntityKind
    type: str
    assignments: tuple[Assign, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Set properties of the node rows that the predicate selects."""

    type: str
    assignments: tuple[Assign, ...]
    pred: Pred


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the rows that the predicate selects, nodes with their edges."""

    kind: EntityKind
    type: str
    pred: Pred


MutationOp = Insert | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationIR:
    """A mutation: statements in order, one commit."""

    name: str
    params: tuple[Param, ...]
    ops: tuple[MutationOp, ...]

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return _node_dict(self)


def _node_dict(node: object) -> dict[str, object]:
    out: dict[str, object] = {"node": type(node).__name__}
    for item in fields(node):  # type: ignore[arg-type]  # every caller passes a dataclass of this module
        value = getattr(node, item.name)
        if value is not None or item.name == "value":
            out[item.name] = _json(value)
    return out


def _json(value: object) -> object:
    match value:
        case PropType():
            return value.to_dict()
        case StrEnum():
            return value.value
        case tuple() | list():
            return [_json(item) for item in value]
        case None | str() | bool() | int() | float():
            return value
        case _:
            return _node_dict(value)


def variables_of(clauses: Iterable[Filter]) -> set[str]:
    """Node and edge variables that filters mention."""
    names: set[str] = set()
    for clause in clauses:
        for expr in (clause.left, clause.right):
            names |= expr_variables(expr)
    return names


def expr_variables(expr: Expr) -> set[str]:
    """Node and edge variables that an expression mentions."""
    match expr:
        case (
            Prop(var=var)
            | NodeId(var=var)
            | Nearest(var=var)
            | Bm25(var=var)
            | Search(var=var)
            | MatchText(var=var)
            | Fuzzy(var=var)
        ):
            return {var}
        case Rrf(first=first, second=second):
            return {first.var, second.var}
        case Agg(arg=arg):
            return expr_variables(arg)
        case Param() | Lit() | Alias():
            return set()
