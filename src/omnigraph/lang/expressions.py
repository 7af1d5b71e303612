"""Checking of expressions: from the syntax tree to typed IR.

A check that fails records its finding and yields None, so one mistake is reported once.
"""

from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import Catalog
from omnigraph.lang.checked import Context, Scope, SearchUse, Typed
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.search_calls import check_search, is_nested_aggregate
from omnigraph.lang.source import Extent
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import BOOL, DATE, DATETIME, F64, I64, STRING, PropType, Scalar

_I64_MAX = 2**63 - 1
_EQUALITY = frozenset({ast.CompareOp.EQ, ast.CompareOp.NE})
COMPARE_OPS = {
    ast.CompareOp.EQ: ir.FilterOp.EQ,
    ast.CompareOp.NE: ir.FilterOp.NE,
    ast.CompareOp.LT: ir.FilterOp.LT,
    ast.CompareOp.LE: ir.FilterOp.LE,
    ast.CompareOp.GT: ir.FilterOp.GT,
    ast.CompareOp.GE: ir.FilterOp.GE,
}


@dataclass(slots=True, kw_only=True)
class ExprChecker:
    """Checks expressions of one query; `scope` and `context` change as the check moves on."""

    catalog: Catalog
    findings: Findings
    scope: Scope
    context: Context = Context.MATCH
    aliases: dict[str, Typed | None] = field(default_factory=dict)
    """Projections by alias; None for one that has an error."""
    searches: list[SearchUse] = field(default_factory=list)

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
            case _:
                return scalar_literal(expr)

    def check_var(self, expr: ast.Var) -> Typed | None:
        """A parameter, or a node variable (its id)."""
        name = expr.name
        if name in self.scope.params:
            return self.readable_param(expr)
        self.scope.mention(name)
        if self.scope.node(name) is not None:
            return Typed(ir.NodeId(name), STRING)
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
        self.scope.mention(expr.var)
        node, edge = self.scope.node(expr.var), self.scope.edge(expr.var)
        if node is not None:
            type_name, properties = node, self.catalog.node_types[node].properties
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
        return Typed(ir.Prop(expr.var, expr.property, declared.type), declared.type)

    def check_alias(self, expr: ast.AliasRef) -> Typed | None:
        """The expression of an earlier projection."""
        if self.context is Context.MATCH:
            detail = (
                "there is no test for `null`; a comparison with null drops the row"
                if expr.name == "null"
                else f"`{expr.name}` looks like an alias; aliases are not known in `match`, "
                'write the expression, or put text in double quotes: `"…"`'
            )
            self.report("T30", "alias_in_match", detail, expr.extent)
            return None
        if expr.name not in self.aliases:
            tail = did_you_mean(expr.name, self.aliases, otherwise="aliases are")
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
                known = (f"${name}" for name in self.scope.params)
                tail = did_you_mean(f"${value.name}", known, otherwise="declared are")
                self.report(
                    "T14",
                    "not_a_parameter",
                    f"`${value.name}` is no declared parameter; a value here is a literal, a "
                    f"parameter or `now()`{tail}",
                    value.extent,
                )
                return None
            case ast.Call():
                return NOW
            case ast.ListLit():
                return self.check_list(value)
            case _:
                return scalar_literal(value)

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
        """`now()`, a search function or an aggregate."""
        if expr.function is ast.Function.NOW:
            return NOW
        if expr.function in ast.AGGREGATES:
            return self.check_aggregate(expr)
        return check_search(self, expr)

    def check_aggregate(self, expr: ast.Call) -> Typed | None:
        """An aggregate over a suitable expression."""
        if self.context is Context.MATCH:
            self.report(
                "T29",
                "aggregate_in_match",
                f"aggregate `{expr.function}` cannot stand in `match`; use it in `return`",
                expr.extent,
            )
            return None
        arg = self.check_aggregate_argument(expr)
        if arg is None:
            return None
        func = ir.AggFunc(expr.function.value)
        kind = _aggregate_type(func, arg.type)
        if kind is None:
            self.report(
                "T8",
                "aggregate_type",
                f"`{func}` cannot take `{print_expr(expr.args[0])}` of type {arg.type}; "
                f"it takes {_AGGREGATE_TAKES[func]}",
                expr.extent,
            )
            return None
        return Typed(ir.Agg(func, arg.expr), kind)

    def check_aggregate_argument(self, expr: ast.Call) -> Typed | None:
        """The argument, which may hold neither an aggregate nor a search function."""
        arg_expr = expr.args[0]
        if is_nested_aggregate(self, expr, arg_expr):
            return None
        arg = self.check(arg_expr)
        match arg:
            case None:
                return None
            case Typed(expr=ir.Agg()):
                self.report(
                    "T29",
                    "aggregate_nested",
                    f"`{print_expr(arg_expr)}` is an aggregate already",
                    arg_expr.extent,
                )
                return None
            case Typed(
                expr=ir.Nearest() | ir.Bm25() | ir.Rrf() | ir.Search() | ir.MatchText() | ir.Fuzzy()
            ):
                self.report(
                    "T31",
                    "search_misplaced",
                    f"a search function cannot stand inside `{expr.function}`",
                    arg_expr.extent,
                )
                return None
        return arg

    def check_comparison(
        self, left: ast.Expr, op: ast.CompareOp, right: ast.Expr, extent: Extent
    ) -> ir.Filter | None:
        """A filter of two comparable operands."""
        typed_left, typed_right = self.check(left), self.check(right)
        if typed_left is None or typed_right is None:
            return None
        match op:
            case ast.CompareOp.CONTAINS:
                return self.check_contains(typed_left, typed_right, extent)
            case ast.CompareOp.STARTS_WITH:
                if typed_left.type.is_text and typed_right.type.is_text:
                    return ir.Filter(typed_left.expr, ir.FilterOp.STARTS_WITH, typed_right.expr)
                self.incomparable(op, typed_left, typed_right, extent)
                return None
            case _:
                return self.check_compare(typed_left, op, typed_right, extent)

    def check_compare(
        self, left: Typed, op: ast.CompareOp, right: Typed, extent: Extent
    ) -> ir.Filter | None:
        """An equality or order comparison of two plain scalars."""
        plain = left.type.is_plain and right.type.is_plain
        if not plain or not left.type.is_compatible_with(right.type):
            self.incomparable(op, left, right, extent)
            return None
        if op in _EQUALITY:
            for column, value in ((left, right), (right, left)):
                if not self.in_enum(column.type, value, extent):
                    return None
        return ir.Filter(left.expr, COMPARE_OPS[op], right.expr)

    def check_contains(self, left: Typed, right: Typed, extent: Extent) -> ir.Filter | None:
        """List membership, or substring."""
        if left.type.is_list and right.type.is_plain:
            is_empty = isinstance(left.expr, ir.Lit) and left.expr.value == ()
            if is_empty or left.type.item.is_compatible_with(right.type):
                return ir.Filter(left.expr, ir.FilterOp.LIST_CONTAINS, right.expr)
        elif left.type.is_text and right.type.is_text:
            return ir.Filter(left.expr, ir.FilterOp.STR_CONTAINS, right.expr)
        self.incomparable(ast.CompareOp.CONTAINS, left, right, extent)
        return None

    def in_enum(self, column: PropType, value: Typed, extent: Extent) -> bool:
        """False, with T3, when a string literal is outside the enum it is compared with."""
        match value.expr:
            case ir.Lit(value=str() as text) if column.enum_values is not None:
                if text not in column.enum_values:
                    self.report(
                        "T3",
                        "enum_value",
                        f'"{text}" is not a value of {column}'
                        f"{did_you_mean(text, column.enum_values)}",
                        extent,
                    )
                    return False
        return True

    def incomparable(self, op: ast.CompareOp, left: Typed, right: Typed, extent: Extent) -> None:
        """Report operands that `op` cannot take."""
        if op is ast.CompareOp.CONTAINS and left.type.is_list:
            hint = f"; its items are {left.type.item.as_nullable(nullable=False)}"
        elif left.type.is_list or right.type.is_list:
            hint = "; test a list with `contains`"
        elif Scalar.VECTOR in (left.type.scalar, right.type.scalar):
            hint = "; rank vectors with `nearest`"
        else:
            hint = _date_hint(left, right)
        self.report(
            "T7",
            "incomparable",
            f"`{op}` cannot compare {left.type} with {right.type}{hint}",
            extent,
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


def _date_hint(left: Typed, right: Typed) -> str:
    """What to write when a date meets something that is none."""
    for date_side, other in ((left, right), (right, left)):
        kind = date_side.type.scalar
        if kind not in (Scalar.DATE, Scalar.DATETIME):
            continue
        match other.expr:
            case ir.Lit(value=str()):
                return f'; write `{kind.lower()}("…")`'
            case ir.Param(name=name) if other.expr != NOW.expr:
                return f"; declare `${name}: {kind}`"
            case _ if other.type.scalar in (Scalar.DATE, Scalar.DATETIME):
                return "; a Date and a DateTime are never compared"
    return ""


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


_AGGREGATE_TAKES = {
    ir.AggFunc.COUNT: "anything",
    ir.AggFunc.SUM: "a number",
    ir.AggFunc.AVG: "a number",
    ir.AggFunc.MIN: "a number, String, Date or DateTime",
    ir.AggFunc.MAX: "a number, String, Date or DateTime",
}


def _aggregate_type(func: ir.AggFunc, kind: PropType) -> PropType | None:
    match func:
        case ir.AggFunc.COUNT:
            return I64
        case ir.AggFunc.SUM | ir.AggFunc.AVG:
            numeric = not kind.is_list and kind.scalar.is_numeric
            return F64.as_nullable(nullable=True) if numeric else None
        case ir.AggFunc.MIN | ir.AggFunc.MAX:
            ordered = kind.is_plain and kind.scalar is not Scalar.BOOL
            return kind.as_nullable(nullable=True) if ordered else None
