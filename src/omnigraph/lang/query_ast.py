"""The syntax tree of `.gq` files.

Frozen values; two trees are equal when they mean the same text, so `extent` (character offsets)
takes no part in comparison. Dates are epoch days and date-times epoch milliseconds, as in storage.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.lang.source import Extent

ANONYMOUS = "_"
"""Name of the variable that matches anything and binds nothing."""

NOW_PARAM = "__now"
"""Reserved parameter that carries the request's time."""


class Function(StrEnum):
    """Every function name of the language."""

    NOW = "now"
    DATE = "date"
    DATETIME = "datetime"
    NEAREST = "nearest"
    SEARCH = "search"
    MATCH_TEXT = "match_text"
    FUZZY = "fuzzy"
    BM25 = "bm25"
    RRF = "rrf"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"
    COALESCE = "coalesce"
    IF = "if"
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
    TYPE = "type"
    HOPS = "hops"
    PATH = "path"


AGGREGATES = frozenset(
    {
        Function.COUNT,
        Function.SUM,
        Function.AVG,
        Function.MIN,
        Function.MAX,
        Function.COLLECT,
    }
)
DISTINCT_AGGREGATES = frozenset({Function.COUNT, Function.COLLECT})
"""Aggregates that may take each value once."""

TEXT_PREDICATES = frozenset({Function.SEARCH, Function.MATCH_TEXT, Function.FUZZY})

VALUE_FUNCTIONS = frozenset(
    {
        Function.COALESCE,
        Function.LOWER,
        Function.UPPER,
        Function.TRIM,
        Function.LENGTH,
        Function.ABS,
        Function.FLOOR,
        Function.CEIL,
        Function.ROUND,
        Function.YEAR,
        Function.MONTH,
        Function.DAY,
        Function.HOUR,
    }
)
"""Functions that compute one value from others."""

WALK_CALLS = frozenset({Function.HOPS, Function.PATH})
"""What a walk between two variables tells of itself."""

ARGUMENT_COUNTS: dict[Function, tuple[int, int | None]] = {
    Function.NOW: (0, 0),
    Function.DATE: (1, 1),
    Function.DATETIME: (1, 1),
    Function.NEAREST: (2, 2),
    Function.SEARCH: (2, 2),
    Function.MATCH_TEXT: (2, 2),
    Function.FUZZY: (2, 3),
    Function.BM25: (2, 2),
    Function.RRF: (2, 3),
    Function.COUNT: (1, 1),
    Function.SUM: (1, 1),
    Function.AVG: (1, 1),
    Function.MIN: (1, 1),
    Function.MAX: (1, 1),
    Function.COLLECT: (1, 1),
    Function.COALESCE: (2, None),
    Function.IF: (3, 3),
    Function.LOWER: (1, 1),
    Function.UPPER: (1, 1),
    Function.TRIM: (1, 1),
    Function.LENGTH: (1, 1),
    Function.ABS: (1, 1),
    Function.FLOOR: (1, 1),
    Function.CEIL: (1, 1),
    Function.ROUND: (1, 1),
    Function.YEAR: (1, 1),
    Function.MONTH: (1, 1),
    Function.DAY: (1, 1),
    Function.HOUR: (1, 1),
    Function.TYPE: (1, 1),
    Function.HOPS: (2, 2),
    Function.PATH: (2, 2),
}
"""The least and the most arguments of each function; None is any number."""


class CompareOp(StrEnum):
    """Comparison operators, spelled as in the source."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    IN = "in"
    NOT_IN = "not in"


class ArithmeticOp(StrEnum):
    """Operators between two values, spelled as in the source."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


class Direction(StrEnum):
    """Written direction of an ordering."""

    ASC = "asc"
    DESC = "desc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Var:
    """`$name`: a node variable or a parameter."""

    name: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropAccess:
    """`$var.property`."""

    var: str
    property: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRef:
    """A bare name: the alias of a projection, or in a mutation a property of the row."""

    name: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StringLit:
    """A quoted string, unescaped."""

    value: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntLit:
    """An integer between the smallest I64 and the largest U64."""

    value: int
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatLit:
    """A finite decimal."""

    value: float
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoolLit:
    """`true` or `false`."""

    value: bool
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateLit:
    """`date("…")` as days since the epoch."""

    value: int
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateTimeLit:
    """`datetime("…")` as milliseconds since the epoch."""

    value: int
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLit:
    """A list literal; kinds of items are checked later (T27)."""

    items: "tuple[Literal, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NullLit:
    """`null` as an assigned value."""

    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function call; never `date` or `datetime`, which are literals."""

    function: Function
    args: "tuple[Expr, ...]"
    distinct: bool = False
    """`count(distinct x)`: each value once."""
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """`left op right`."""

    left: "Expr"
    op: ArithmeticOp
    right: "Expr"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative:
    """`-value`; of a number as written it is a literal instead."""

    value: "Expr"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """`if(condition, value, value)`."""

    condition: "Condition"
    then: "Expr"
    otherwise: "Expr"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountBlock:
    """`count { … }`."""

    clauses: "tuple[Clause, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


ScalarLit = StringLit | IntLit | FloatLit | BoolLit | DateLit | DateTimeLit
Literal = ScalarLit | ListLit
Expr = Var | PropAccess | AliasRef | Literal | Call | Arithmetic | Negative | If | CountBlock
Value = Literal | Var | Call
"""What a property match may hold; a `Call` there is `now()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropMatch:
    """`name: value` inside a binding."""

    property: str
    value: Value
    is_one_of: bool = False
    """`name: in value`: the property is one of the values."""
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """`$p: Person { … }`."""

    var: str
    type_name: str
    matches: tuple[PropMatch, ...] = ()
    extent: Extent = field(default=(0, 0), compare=False, repr=False)
    type_extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """`$a $w:knows{1,3} $b`; `max_hops` None is an open upper bound."""

    left: str
    right: str
    edge_word: str
    undirected: bool = False
    min_hops: int | Var = 1
    max_hops: int | Var | None = 1
    edge_var: str | None = None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)
    left_extent: Extent = field(default=(0, 0), compare=False, repr=False)
    right_extent: Extent = field(default=(0, 0), compare=False, repr=False)
    edge_extent: Extent = field(default=(0, 0), compare=False, repr=False)
    edge_var_extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    """`not { … }`."""

    clauses: "tuple[Clause, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optional:
    """`optional { … }`."""

    clauses: "tuple[Clause, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists:
    """`exists { … }`."""

    clauses: "tuple[Clause, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


InnerBlock = Negation | Optional | Exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`expr op expr`."""

    left: Expr
    op: CompareOp
    right: Expr
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClause:
    """A call standing alone in `match`: short for `call = true`."""

    call: Call
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NullTest:
    """`expr is null`."""

    expr: Expr
    negated: bool = False
    """`expr is not null`."""
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Conditions joined by `or`."""

    parts: "tuple[Condition, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """Conditions joined by `and`."""

    parts: "tuple[Condition, ...]"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCondition:
    """`not ( condition )`."""

    part: "Condition"
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


Condition = Comparison | CallClause | NullTest | AnyOf | AllOf | NotCondition
Clause = Binding | Traversal | InnerBlock | Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """One entry of `return`."""

    expr: Expr
    alias: str | None = None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One entry of `order`; `direction` None when none is written."""

    expr: Expr
    direction: Direction | None = None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBody:
    """`match … return … having … order … limit … offset …`."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    having: tuple[Condition, ...] = ()
    order: tuple[Ordering, ...] = ()
    limit: int | Var | None = None
    offset: int | Var | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """`name: value` of an insert or update; a bare name in a value is a property of the row."""

    property: str
    value: Expr | NullLit
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStmt:
    """`insert Type { … }`."""

    type_name: str
    assignments: tuple[Assignment, ...]
    if_absent: bool = False
    """`insert Type if absent { … }`: a node with this key stays as it is."""
    extent: Extent = field(default=(0, 0), compare=False, repr=False)
    type_extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStmt:
    """`update Type set { … } where …`; a bare name in the condition is a property of the row."""

    type_name: str
    assignments: tuple[Assignment, ...]
    selection: Condition
    extent: Extent = field(default=(0, 0), compare=False, repr=False)
    type_extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStmt:
    """`delete Type where …`."""

    type_name: str
    selection: Condition
    extent: Extent = field(default=(0, 0), compare=False, repr=False)
    type_extent: Extent = field(default=(0, 0), compare=False, repr=False)


Statement = InsertStmt | UpdateStmt | DeleteStmt


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationBody:
    """One or more statements, run in order, committed once."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamType:
    """A written parameter type; the checker turns it into a `PropType` or T26."""

    name: str
    is_list: bool = False
    nullable: bool = False
    vector_dim: int | None = None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A declared parameter."""

    name: str
    type: ParamType
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One named query of a file."""

    name: str
    params: tuple[Param, ...]
    body: ReadBody | MutationBody
    description: str | None = None
    instruction: str | None = None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)

    @property
    def is_mutation(self) -> bool:
        """True for inserts, updates and deletes."""
        return isinstance(self.body, MutationBody)


def bare_names(item: "Condition | Expr") -> Iterator[str]:
    """The bare names in a condition or an expression."""
    if isinstance(item, AliasRef):
        yield item.name
    for part in _parts_of(item):
        yield from bare_names(part)


def _parts_of(item: "Condition | Expr") -> "tuple[Condition | Expr, ...]":
    """What a condition or an expression is directly made of; of blocks, nothing."""
    match item:
        case Comparison(left=left, right=right) | Arithmetic(left=left, right=right):
            return left, right
        case NullTest(expr=expr):
            return (expr,)
        case NotCondition(part=part):
            return (part,)
        case AnyOf(parts=parts) | AllOf(parts=parts):
            return parts
        case CallClause(call=call):
            return (call,)
        case Call(args=args):
            return args
        case Negative(value=value):
            return (value,)
        case If(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case _:
            return ()
