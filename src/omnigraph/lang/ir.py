"""The IR: what a checked query means, for both executors.

Plain frozen values with names resolved and types attached; no reference to the syntax tree. Every
node turns into JSON with `to_dict`, where `node` names the class. Dates are epoch days, date-times
epoch milliseconds, and `now()` is the parameter `__now`. A variable whose name starts with `#` is
hidden: lowering made it.
"""

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
    IN = "in"
    """The left side is an item of the list on the right; unknown if either is null."""


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
    COLLECT = "collect"


class ValueFunc(StrEnum):
    """What computes a value from others."""

    ADD = "add"
    SUBTRACT = "subtract"
    MULTIPLY = "multiply"
    DIVIDE = "divide"
    REMAINDER = "remainder"
    NEGATIVE = "negative"
    CONCAT = "concat"
    COALESCE = "coalesce"
    LOWER = "lower"
    UPPER = "upper"
    TRIM = "trim"
    LENGTH = "length"
    ABS = "abs"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


class WalkProperty(StrEnum):
    """What a walk tells of itself."""

    HOPS = "hops"
    PATH = "path"
    """The ids from the written left end to the right one."""
    PATH_BACK = "path_back"
    """The ids from the written right end to the left one."""


def walk_var(left: str, right: str) -> str:
    """The hidden variable of the walk that was written between two variables."""
    return f"#{left},{right}"


def is_walk_var(name: str) -> bool:
    """A variable stands for a walk and not for an entity."""
    return name.startswith("#") and "," in name


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
    distinct: bool | None = None
    """Each value counts once."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A value computed from others of the same row."""

    func: ValueFunc
    args: "tuple[Expr, ...]"
    type: PropType


@dataclass(frozen=True, slots=True)
class If:
    """One of two values; the second where the condition is false or unknown."""

    condition: "Condition"
    then: "Expr"
    otherwise: "Expr"
    type: PropType


@dataclass(frozen=True, slots=True)
class TypeOf:
    """The name of the type of a bound node or edge variable; null where nothing is bound."""

    var: str
    name: str | None
    """None when the variable may be of several types: each entity tells its own."""


@dataclass(frozen=True, slots=True)
class CountOf:
    """How many rows the inner operators give for a row."""

    inner: "tuple[Op, ...]"
    outer_vars: tuple[str, ...]


TextCall = Search | MatchText | Fuzzy
Value = Computed | If | TypeOf | CountOf
"""What is computed for each row."""
Expr = Prop | NodeId | Param | Lit | Alias | Nearest | Bm25 | TextCall | Rrf | Agg | Value


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison; rows stay when it is true, not when it is unknown."""

    left: Expr
    op: FilterOp
    right: Expr


@dataclass(frozen=True, slots=True)
class NullTest:
    """The value is null; never unknown."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if every part is true, false if some part is false, else unknown."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if some part is true, false if every part is false, else unknown."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Negated:
    """True if the part is false, false if it is true, unknown if it is unknown."""

    part: "Condition"


Condition = Filter | NullTest | AllOf | AnyOf | Negated
"""What keeps a row when it is true."""


@dataclass(frozen=True, slots=True)
class NodeScan:
    """All rows of a node type, or of several, that pass the filters."""

    var: str
    type: str
    """The node type, or the interface that `types` implement."""
    filters: tuple[Condition, ...] = ()
    types: tuple[str, ...] | None = None
    """In order of their names, when there are several."""


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
    dst_filters: tuple[Condition, ...] = ()
    edge_var: str | None = None
    edge_filters: tuple[Condition, ...] = ()
    """Of the edge variable alone."""
    min_param: Param | None = None
    """The parameter that gives `min_hops`, until it is bound."""
    max_param: Param | None = None
    walk_var: str | None = None
    """The hidden variable whose properties are those of `WalkProperty`, if something reads them."""
    is_turned: bool | None = None
    """The walk was written from `dst_var` to `src_var`."""


@dataclass(frozen=True, slots=True)
class Where:
    """Keep rows for which the filter is true."""

    filter: Condition


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """Keep rows for which the inner operators give no row."""

    inner: "tuple[Op, ...]"
    outer_vars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """Keep rows for which the inner operators give a row; none is multiplied."""

    inner: "tuple[Op, ...]"
    outer_vars: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """A row for each row that the inner operators give; without any, one with `vars` null."""

    inner: "tuple[Op, ...]"
    outer_vars: tuple[str, ...]
    vars: tuple[str, ...]
    """Variables that are first bound inside."""


Join = AntiJoin | SemiJoin | Optional
"""Operators that run others for each row."""

Op = NodeScan | Expand | Where | Join


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
    limit_param: Param | None = None
    """The parameter that gives `limit`, until it is bound."""
    offset: int | None = None
    offset_param: Param | None = None
    distinct: bool | None = None
    """Every row once; rows that tie are ordered by the columns."""
    having: tuple[Condition, ...] | None = None
    """What the columns of a group must be, over aliases."""

    @property
    def is_grouped(self) -> bool:
        """A row of the result stands for a group of rows of the match."""
        return bool(self.distinct) or any(isinstance(item.expr, Agg) for item in self.returns)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return _node_dict(self)


OWN_ROW = ""
"""The variable of the row that a mutation looks at."""


@dataclass(frozen=True, slots=True)
class Assign:
    """A property and its new value, over parameters and the properties of `OWN_ROW`."""

    property: str
    value: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """A new row, or an upsert for a keyed node; endpoints of an edge are `src` and `dst`."""

    kind: EntityKind
    type: str
    assignments: tuple[Assign, ...]
    if_absent: bool | None = None
    """A node that exists stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Set properties of the rows that the condition selects.

    The condition looks at the row itself: its properties are those of the variable `OWN_ROW`.
    """

    kind: EntityKind
    type: str
    assignments: tuple[Assign, ...]
    where: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the rows that the condition selects, as in `Update`; nodes with their edges."""

    kind: EntityKind
    type: str
    where: Condition


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
