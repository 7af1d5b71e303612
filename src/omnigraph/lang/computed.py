"""Checking of computed values: arithmetic, functions, `if`, `type` and `count { … }`.

Operands of the wrong types are T37, which names the operator or function, what it takes and what
it was given. A value inside a value is computed for each row: an aggregate, a text predicate or a
fused rank is none.
"""

from collections.abc import Sequence

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.checked import Context, Typed
from omnigraph.lang.conditions import check_condition
from omnigraph.lang.expressions import Computing, ExprChecker
from omnigraph.lang.ir import ValueFunc
from omnigraph.lang.lowering import lower_count
from omnigraph.lang.match_check import check_inner
from omnigraph.lang.query_printer import print_expr
from omnigraph.lang.source import Extent
from omnigraph.lang.types import F64, I64, STRING, PropType, Scalar

_ARITHMETIC = {
    ast.ArithmeticOp.ADD: ValueFunc.ADD,
    ast.ArithmeticOp.SUBTRACT: ValueFunc.SUBTRACT,
    ast.ArithmeticOp.MULTIPLY: ValueFunc.MULTIPLY,
    ast.ArithmeticOp.DIVIDE: ValueFunc.DIVIDE,
    ast.ArithmeticOp.REMAINDER: ValueFunc.REMAINDER,
}
_TEXT = frozenset({ast.Function.LOWER, ast.Function.UPPER, ast.Function.TRIM})
_NUMBER = frozenset({ast.Function.ABS, ast.Function.FLOOR, ast.Function.CEIL, ast.Function.ROUND})
_BY_ZERO = frozenset({ast.ArithmeticOp.DIVIDE, ast.ArithmeticOp.REMAINDER})


def check_computed(checker: ExprChecker, expr: Computing) -> Typed | None:
    """The typed value, or None with its findings."""
    match expr:
        case ast.Arithmetic():
            return _check_arithmetic(checker, expr)
        case ast.Negative():
            return _check_negative(checker, expr)
        case ast.If():
            return _check_if(checker, expr)
        case ast.CountBlock():
            return _check_count(checker, expr)
        case ast.Call(function=ast.Function.TYPE):
            return _check_type(checker, expr)
        case ast.Call(function=ast.Function.COALESCE):
            return _check_coalesce(checker, expr)
        case ast.Call():
            return _check_function(checker, expr)


def _check_count(checker: ExprChecker, expr: ast.CountBlock) -> Typed | None:
    if checker.own_property is not None:
        detail = "`count { … }` cannot stand in a mutation; it looks at properties of one row"
        checker.report("T31", "search_misplaced", detail, expr.extent)
        return None
    before, context = len(checker.findings), checker.context
    checker.context = Context.MATCH
    block = check_inner(checker, expr)
    checker.context = context
    checker.counted.append(block)
    return Typed(lower_count(block), I64) if len(checker.findings) == before else None


def _operands(
    checker: ExprChecker, owner: str, exprs: Sequence[ast.Expr]
) -> tuple[Typed, ...] | None:
    """The operands, if every one has a value for each row."""
    known: list[Typed] = []
    for expr in exprs:
        typed = _operand(checker, owner, expr)
        if typed is not None:
            known.append(typed)
    return tuple(known) if len(known) == len(exprs) else None


def _operand(checker: ExprChecker, owner: str, expr: ast.Expr) -> Typed | None:
    typed = checker.check(expr)
    match typed:
        case Typed(expr=ir.Agg()) if checker.context is not Context.ORDER:
            checker.report(
                "T29",
                "aggregate_nested",
                f"aggregate `{print_expr(expr)}` cannot stand inside `{owner}`; return it as a "
                "column of its own",
                expr.extent,
            )
            return None
        case Typed(expr=ir.Rrf() | ir.Search() | ir.MatchText() | ir.Fuzzy()):
            checker.report(
                "T31",
                "search_misplaced",
                f"a search function cannot stand inside `{owner}`",
                expr.extent,
            )
            return None
        case _:
            return typed


def _refuse(
    checker: ExprChecker, owner: str, takes: str, given: Sequence[Typed], extent: Extent
) -> None:
    kinds = " and ".join(str(item.type) for item in given)
    checker.report("T37", "operand_type", f"`{owner}` takes {takes}, not {kinds}", extent)


def _is_number(kind: PropType) -> bool:
    return not kind.is_list and kind.scalar.is_numeric


def _is_integer(kind: PropType) -> bool:
    return not kind.is_list and kind.scalar.is_integer


def _check_arithmetic(checker: ExprChecker, expr: ast.Arithmetic) -> Typed | None:
    operands = _operands(checker, expr.op, (expr.left, expr.right))
    if operands is None:
        return None
    kinds = [item.type for item in operands]
    func, nullable = _ARITHMETIC[expr.op], any(kind.nullable for kind in kinds)
    if expr.op is ast.ArithmeticOp.ADD and all(kind.is_text for kind in kinds):
        func, kind = ValueFunc.CONCAT, STRING
    elif expr.op is ast.ArithmeticOp.REMAINDER:
        if not all(map(_is_integer, kinds)):
            _refuse(checker, expr.op, "two integers", operands, expr.extent)
            return None
        kind = I64
    elif not all(map(_is_number, kinds)):
        takes = "two numbers or two Strings" if func is ValueFunc.ADD else "two numbers"
        _refuse(checker, expr.op, takes, operands, expr.extent)
        return None
    elif expr.op is ast.ArithmeticOp.DIVIDE:
        kind = F64
    else:
        kind = I64 if all(map(_is_integer, kinds)) else F64
    kind = kind.as_nullable(nullable=nullable or expr.op in _BY_ZERO)
    return Typed(ir.Computed(func, tuple(item.expr for item in operands), kind), kind)


def _check_negative(checker: ExprChecker, expr: ast.Negative) -> Typed | None:
    operands = _operands(checker, "-", (expr.value,))
    if operands is None:
        return None
    given = operands[0].type
    if not _is_number(given):
        _refuse(checker, "-", "a number", operands, expr.extent)
        return None
    kind = (I64 if given.scalar.is_integer else F64).as_nullable(nullable=given.nullable)
    return Typed(ir.Computed(ValueFunc.NEGATIVE, (operands[0].expr,), kind), kind)


def _check_function(checker: ExprChecker, expr: ast.Call) -> Typed | None:
    operands = _operands(checker, expr.function, expr.args)
    if operands is None:
        return None
    given = operands[0].type
    takes, kind = _function_type(expr.function, given)
    if kind is None:
        _refuse(checker, expr.function, takes, operands, expr.extent)
        return None
    kind = kind.as_nullable(nullable=given.nullable)
    func = ValueFunc(expr.function.value)
    return Typed(ir.Computed(func, (operands[0].expr,), kind), kind)


def _function_type(function: ast.Function, given: PropType) -> tuple[str, PropType | None]:
    """What a function of one value takes, and what it gives for this one."""
    if function in _TEXT:
        return "a String", STRING if given.is_text else None
    if function in _NUMBER:
        return "a number", given if _is_number(given) else None
    if function is ast.Function.LENGTH:
        return "a String or a list", I64 if given.is_text or given.is_list else None
    is_time = not given.is_list and given.scalar is Scalar.DATETIME
    if function is ast.Function.HOUR:
        return "a DateTime", I64 if is_time else None
    is_date = not given.is_list and given.scalar is Scalar.DATE
    return "a Date or a DateTime", I64 if is_date or is_time else None


def _check_coalesce(checker: ExprChecker, expr: ast.Call) -> Typed | None:
    operands = _operands(checker, expr.function, expr.args)
    kind = None if operands is None else _common(checker, expr.function, operands, expr.extent)
    if operands is None or kind is None:
        return None
    kind = kind.as_nullable(nullable=all(item.type.nullable for item in operands))
    args = tuple(item.expr for item in operands)
    return Typed(ir.Computed(ValueFunc.COALESCE, args, kind), kind)


def _check_if(checker: ExprChecker, expr: ast.If) -> Typed | None:
    condition = check_condition(checker, expr.condition)
    operands = _operands(checker, ast.Function.IF, (expr.then, expr.otherwise))
    if operands is None or condition is None:
        return None
    kind = _common(checker, ast.Function.IF, operands, expr.extent)
    if kind is None:
        return None
    kind = kind.as_nullable(nullable=any(item.type.nullable for item in operands))
    return Typed(ir.If(condition, operands[0].expr, operands[1].expr, kind), kind)


def _common(
    checker: ExprChecker, owner: str, operands: Sequence[Typed], extent: Extent
) -> PropType | None:
    """The type that holds the values of all; T37 when there is none."""
    kinds = [item.type for item in operands]
    scalars = {kind.scalar for kind in kinds}
    is_list = kinds[0].is_list
    fits = Scalar.VECTOR not in scalars and all(kind.is_list is is_list for kind in kinds)
    if fits and len(scalars) == 1:
        return PropType(scalar=kinds[0].scalar, is_list=is_list)
    if fits and not is_list and all(scalar.is_numeric for scalar in scalars):
        return I64 if all(scalar.is_integer for scalar in scalars) else F64
    _refuse(checker, owner, "values of one type", operands, extent)
    return None


def _check_type(checker: ExprChecker, expr: ast.Call) -> Typed | None:
    match expr.args[0]:
        case ast.Var(name=name) if name not in checker.scope.params:
            checker.scope.mention(name)
            edge = checker.scope.edge(name)
            if edge is None and checker.scope.node(name) is None:
                checker.unbound(name, expr.args[0].extent)
                return None
            kind = STRING.as_nullable(nullable=checker.scope.is_optional(name))
            told = checker.scope.type_of(name) if edge is None else ir.TypeOf(name, edge)
            return Typed(told, kind)
        case arg:
            detail = f"`type` takes a node or edge variable, not `{print_expr(arg)}`"
            checker.report("T37", "operand_type", detail, expr.extent)
            return None
