"""Checking of expressions: from the syntax tree to typed IR.

A check that fails records its finding and yields None, so one mistake is reported once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.aggregates import check_aggregate
from omnigraph.lang.catalog import Catalog
from omnigraph.lang.checked import Block, Context, Scope, SearchUse, Typed
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.interfaces import is_beyond_interface
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.search_calls import check_search
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import BOOL, DATE, DATETIME, F64, I64, STRING, PropType, Scalar
from omnigraph.lang.walk_calls import check_walk_call

_I64_MAX = 2**63 - 1


Computing = ast.Arithmetic | ast.Negative | ast.If | ast.CountBlock | ast.Call
"""What computes a value."""


@dataclass(slots=True, kw_only=True)
class ExprChecker:
    """Checks expressions of one query; `scope` and `context` change as the check moves on."""

    catalog: Catalog
    findings: Findings
    scope: Scope
    check_computed: "CheckComputed"
    """Checks values that are computed from others; they may hold conditions and clauses."""
    context: Context = Context.MATCH
    aliases: dict[str, Typed | None] = field(default_factory=dict)
    """Projections by alias; None for one that has an error."""
    searches: list[SearchUse] = field(default_factory=list)
    null_negations: list[Extent] = field(default_factory=list)
    """Negated conditions that hold where a property is null."""
    counted: list[Block] = field(default_factory=list)
    """Blocks whose solutions are counted."""
    measured: frozenset[frozenset[str]] = frozenset()
    """Pairs of variables whose walk something asks about."""
    own_property: Callable[[ast.AliasRef], Typed | None] | None = None
    """In a mutation: what a bare name means, a property of the row; reports what means nothing."""

    def report(self, code: str, reason: str, detail: str, extent: Extent) -> None:
        """Record a finding."""
        self.findings.add(code, reason, detail, extent)

    def check(self, expr: ast.Expr) -> Typed | None:
        """The typed expression, or None when something in it is wrong."""
        match expr:
            case ast.Var():
                return self.check_var(expr)
            case ast.PropAccess():
                return self.check_property(expr)
            case ast.AliasRef():
                return self.check_alias(expr)
            case ast.Call():
                return self.check_call(expr)
            case ast.ListLit():
                return self.check_list(expr)
            case ast.Arithmetic() | ast.Negative() | ast.If() | ast.CountBlock():
                return self.check_computed(self, expr)
            case _:
                return scalar_literal(expr)

    def check_var(self, expr: ast.Var) -> Typed | None:
        """A parameter, or a node variable (its id)."""
        name = expr.name
        if name in self.scope.params:
            return self.readable_param(expr)
        if self.own_property is not None:
            self.not_a_parameter(expr)
            return None
        self.scope.mention(name)
        if self.scope.node(name) is not None:
            is_optional = self.scope.is_optional(name)
            return Typed(ir.NodeId(name), STRING.as_nullable(nullable=is_optional))
        if self.scope.edge(name) is not None:
            self.report(
                "T23",
                "edge_binding_alone",
                f"edge variable `${name}` cannot stand alone; read one of its properties "
                f"(`${name}.…`)",
                expr.extent,
            )
            return None
        self.unbound(name, expr.extent)
        return None

    def param(self, name: str) -> Typed | None:
        """The parameter, noted as used; None when its own declaration is wrong."""
        self.scope.used_params.add(name)
        if self.scope.is_broken(name):
            return None
        kind = self.scope.params[name]
        return Typed(ir.Param(name, kind), kind)

    def readable_param(self, expr: ast.Var) -> Typed | None:
        """A parameter as a value that a query reads: anything but a Blob."""
        typed = self.param(expr.name)
        if typed is not None and typed.type.scalar is Scalar.BLOB:
            self.report(
                "T24",
                "blob_read",
                f"`${expr.name}` is a Blob; it can be assigned, not read",
                expr.extent,
            )
            return None
        return typed

    def unbound(self, name: str, extent: Extent) -> None:
        """Report a variable that nothing binds."""
        if self.scope.is_broken(name):
            return
        if name == ast.ANONYMOUS:
            detail = "`$_` binds nothing and cannot be read; give the variable a name"
        else:
            known = (f"${known}" for known in self.scope.names())
            tail = did_you_mean(f"${name}", known, otherwise="bound here are")
            detail = f"variable `${name}` is not bound{tail}"
        self.report("T6", "unbound_variable", detail, extent)

    def check_property(self, expr: ast.PropAccess) -> Typed | None:
        """A property of a node or edge variable."""
        typed = self.resolve_property(expr)
        if typed is not None and typed.type.scalar is Scalar.BLOB:
            self.report(
                "T24",
                "blob_read",
                f"`${expr.var}.{expr.property}` is a Blob; a query cannot read it",
                expr.extent,
            )
            return None
        return typed

    def resolve_property(self, expr: ast.PropAccess) -> Typed | None:
        """A property of any type, Blob included."""
        if self.own_property is not None:
            self.report(
                "T14",
                "not_a_parameter",
                f"`{print_expr(expr)}`: a mutation has no variables; the property of its row is "
                f"written `{expr.property}`",
                expr.extent,
            )
            return None
        self.scope.mention(expr.var)
        node, edge = self.scope.node(expr.var), self.scope.edge(expr.var)
        if node is not None:
            type_name, properties = node, self.catalog.readable(node)
        elif edge is not None:
            type_name, properties = edge, self.catalog.edge_types[edge].properties
        elif self.scope.is_broken(expr.var):
            return None
        elif expr.var in self.scope.params:
            self.report(
                "T6",
                "unknown_property",
                f"`${expr.var}` is a parameter; it has no property `{expr.property}`",
                expr.extent,
            )
            return None
        else:
            self.unbound(expr.var, expr.extent)
            return None
        declared = properties.get(expr.property)
        if declared is None and is_beyond_interface(self, type_name, expr.property, expr.extent):
            return None
        if declared is None:
            if expr.property == "id" and node is not None:
                tail = f"; the id of a node is `${expr.var}` itself"
            else:
                tail = did_you_mean(expr.property, properties, otherwise="it has")
            self.report(
                "T6",
                "unknown_property",
                f"type `{type_name}` has no property `{expr.property}`{tail}",
                expr.extent,
            )
            return None
        kind = declared.type
        if self.scope.is_optional(expr.var):
            kind = kind.as_nullable(nullable=True)
        return Typed(ir.Prop(expr.var, expr.property, kind), kind)

    def check_alias(self, expr: ast.AliasRef) -> Typed | None:
        """The expression of an earlier projection, or a property of the row."""
        if self.own_property is not None:
            return self.own_property(expr)
        if expr.name == "null" and self.context is not Context.MATCH and "null" not in self.aliases:
            self.report("T30", "unknown_alias", NO_NULL, expr.extent)
            return None
        if self.context is Context.MATCH:
            detail = (
                "a comparison with null drops the row; test with `is null` or `is not null`"
                if expr.name == "null"
                else f"`{expr.name}` looks like an alias; aliases are not known in `match`, "
                'write the expression, or put text in double quotes: `"…"`'
            )
            self.report("T30", "alias_in_match", detail, expr.extent)
            return None
        if expr.name not in self.aliases:
            near = did_you_mean(expr.name, self.aliases, otherwise="aliases are")
            tail = _NO_ALIAS.get(expr.name) or near
            self.report(
                "T30",
                "unknown_alias",
                f"unknown alias `{expr.name}`{tail or '; give a column one with `as`'}",
                expr.extent,
            )
        return self.aliases.get(expr.name)

    def check_value(self, value: ast.Value) -> Typed | None:
        """A literal, a declared parameter or `now()`: what a match or a mutation takes."""
        match value:
            case ast.Var() if value.name in self.scope.params:
                return self.param(value.name)
            case ast.Var():
                self.not_a_parameter(value)
                return None
            case ast.Call():
                return NOW
            case ast.ListLit():
                return self.check_list(value)
            case _:
                return scalar_literal(value)

    def not_a_parameter(self, value: ast.Var) -> None:
        """Report a variable where only a parameter can stand."""
        known = (f"${name}" for name in self.scope.params)
        tail = did_you_mean(f"${value.name}", known, otherwise="declared are")
        self.report(
            "T14",
            "not_a_parameter",
            f"`${value.name}` is no declared parameter; a value here is a literal, a "
            f"parameter or `now()`{tail}",
            value.extent,
        )

    def check_list(self, expr: ast.ListLit) -> Typed | None:
        """A list of scalars of one kind; integers and floats may mix."""
        items: list[ir.Lit] = []
        for item in expr.items:
            if isinstance(item, ast.ListLit):
                detail = f"`{_short(expr)}`: a list cannot hold a list"
                self.report("T27", "list_nested", detail, item.extent)
                return None
            literal = scalar_literal(item).expr
            if isinstance(literal, ir.Lit):
                items.append(literal)
        kinds = {item.type.scalar for item in items}
        if kinds and kinds <= {Scalar.I64, Scalar.U64, Scalar.F64}:
            scalar = _widest(kinds)
        elif len(kinds) > 1:
            names = ", ".join(sorted(kind.value for kind in kinds))
            detail = f"`{_short(expr)}`: a list holds one kind, not {names}"
            self.report("T27", "list_mixed", detail, expr.extent)
            return None
        else:
            scalar = next(iter(kinds), Scalar.STRING)
        values = tuple(
            float(item.value)
            if scalar is Scalar.F64 and isinstance(item.value, int)
            else item.value
            for item in items
        )
        kind = PropType(scalar=scalar, is_list=True)
        return Typed(ir.Lit(values, kind), kind)

    def check_call(self, expr: ast.Call) -> Typed | None:
        """`now()`, a computed value, a search function or an aggregate."""
        if expr.function is ast.Function.NOW:
            return NOW
        is_value = expr.function in ast.VALUE_FUNCTIONS
        if self.own_property is not None and not (is_value and self.context is Context.ASSIGNMENT):
            self._report_call_in_mutation(expr)
            return None
        if is_value or expr.function is ast.Function.TYPE:
            return self.check_computed(self, expr)
        if expr.function in ast.WALK_CALLS:
            return check_walk_call(self, expr)
        if expr.function in ast.AGGREGATES:
            return check_aggregate(self, expr)
        return check_search(self, expr)

    def _report_call_in_mutation(self, expr: ast.Call) -> None:
        what = (
            "`where` compares properties as they are"
            if expr.function in ast.VALUE_FUNCTIONS
            else "it looks at properties of one row"
        )
        self.report(
            "T31",
            "search_misplaced",
            f"`{expr.function}` cannot stand in a mutation; {what}",
            expr.extent,
        )


def check_count(
    checker: ExprChecker, word: str, count: int | ast.Var | None
) -> int | ir.Param | None:
    """A limit, an offset or a hop bound; None, with a finding, for a parameter that cannot be."""
    if not isinstance(count, ast.Var):
        return count
    typed = checker.check_value(count)
    if typed is None or not isinstance(typed.expr, ir.Param):
        return None
    kind = typed.type
    if kind.is_list or kind.nullable or kind.scalar not in (Scalar.I32, Scalar.I64):
        checker.report(
            "T37",
            "operand_type",
            f"{word} takes a number or a parameter of type I32 or I64, without `?`; "
            f"`${count.name}` is {kind}",
            count.extent,
        )
        return None
    return typed.expr


CheckComputed = Callable[[ExprChecker, Computing], Typed | None]

_NO_ALIAS = {
    "distinct": "; write `return distinct { … }`, or `count(distinct $p.x)`",
    "not": "; `not` stands in conditions: `if(not ($p.x = 1), true, false)`",
}
"""What words of the language are meant for where they were read as aliases."""

NO_NULL = (
    "`null` is no value of its own; leave it out, as what may be null is null by itself: "
    "`coalesce($p.x, 0)`, `if($p.x is null, 0, $p.x)`"
)
NOW = Typed(ir.Param(ast.NOW_PARAM, DATETIME), DATETIME)


def scalar_literal(expr: ast.ScalarLit) -> Typed:
    """The typed constant of a scalar literal."""
    match expr:
        case ast.StringLit():
            kind = STRING
        case ast.IntLit():
            kind = I64 if expr.value <= _I64_MAX else PropType(scalar=Scalar.U64)
        case ast.FloatLit():
            kind = F64
        case ast.BoolLit():
            kind = BOOL
        case ast.DateLit():
            kind = DATE
        case ast.DateTimeLit():
            kind = DATETIME
        case _:
            assert_never(expr)
    return Typed(ir.Lit(expr.value, kind), kind)


def date_literal_hint(column: PropType, value: PropType) -> str:
    """A tail for a message about a text given where a date belongs."""
    is_date = column.scalar in (Scalar.DATE, Scalar.DATETIME) and value.is_text
    return f'; write `{column.scalar.lower()}("…")`' if is_date else ""


def _short(expr: ast.Expr) -> str:
    text = print_expr(expr)
    return text if len(text) <= 60 else text[:59] + "…"


def _widest(kinds: set[Scalar]) -> Scalar:
    if Scalar.F64 in kinds:
        return Scalar.F64
    return Scalar.U64 if Scalar.U64 in kinds else Scalar.I64
