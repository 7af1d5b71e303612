"""Values of the IR as Spark columns: constants, types, and what is computed from other values.

Nothing is cast without a word here saying so. What leaves the range of its type raises the error
that the engine raises, from the row that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph.errors import InternalError
from omnigraph.graph.query.compare import Const
from omnigraph.graph.query.overflow import value_overflow
from omnigraph.graph.query.text_functions import TEXT_FUNCTIONS
from omnigraph.lang.ir import ValueFunc
from omnigraph.lang.types import PropType, Scalar
from omnigraph.pipeline.spark.errors import describe_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

    from omnigraph.errors import OmnigraphError
    from omnigraph.lang import ir


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of each row."""

    column: Column
    type: PropType


Operand: TypeAlias = "Cell | Const"

_SPARK: Mapping[Scalar, str] = {
    Scalar.STRING: "string",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "bigint",
    Scalar.U32: "bigint",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
    Scalar.VECTOR: "array<float>",
    Scalar.BLOB: "double",
}

_LARGEST = 2**63 - 1


def spark_name(kind: PropType) -> str:
    """The type of Spark that holds values of a type, as DDL spells it."""
    name = _SPARK[kind.scalar]
    return f"array<{name}>" if kind.is_list else name


def literal(value: object, kind: PropType) -> Column:
    """A constant of a type."""
    if value is None:
        return F.lit(None).cast(spark_name(kind))
    if isinstance(value, list | tuple):
        item = PropType(scalar=Scalar.F32) if kind.scalar is Scalar.VECTOR else kind.item
        return F.array(*(literal(each, item) for each in value)).cast(spark_name(kind))
    match kind.scalar:
        case Scalar.DATE:
            return F.date_from_unix_date(F.lit(value))
        case Scalar.DATETIME:
            return F.timestamp_millis(F.lit(value).cast("bigint"))
        case Scalar.U64:
            return F.lit(Decimal(str(value))).cast("decimal(20,0)")
        case Scalar.F32 | Scalar.F64:
            return F.lit(float(str(value))).cast(spark_name(kind))
        case _:
            return F.lit(value).cast(spark_name(kind))


def column_of(operand: Operand) -> Column:
    """The operand as a column."""
    return literal(operand.value, operand.type) if isinstance(operand, Const) else operand.column


def failing(error: OmnigraphError) -> Column:
    """What raises this error for the row that evaluates it."""
    told = describe_failure(error, partition=0, attempt=1).to_exception()
    return F.raise_error(F.lit(str(told)))


def cast_value(operand: Operand, kind: PropType, expr: ir.Expr) -> Column:
    """The value in another type; whole numbers become floats by rounding, and never others."""
    column = column_of(operand)
    given, wanted = spark_name(operand.type), spark_name(kind)
    if given == wanted:
        return column
    if wanted == "bigint" and given == "decimal(20,0)":
        too_large = column > F.lit(Decimal(_LARGEST)).cast("decimal(20,0)")
        return F.when(too_large, failing(value_overflow(expr))).otherwise(column.cast("bigint"))
    return column.cast(wanted)


def computed(expr: ir.Computed, args: Sequence[Operand]) -> Column:
    """The value of a function of others."""
    func, kind = expr.func, expr.type
    if func is ValueFunc.COALESCE:
        return F.coalesce(*(cast_value(arg, kind, expr) for arg in args))
    if func is ValueFunc.REMAINDER:
        return _remainder(*(cast_value(arg, kind, expr) for arg in args))
    if func in _INTEGERS and kind.scalar.is_integer:
        return _checked(expr, [cast_value(arg, kind, expr) for arg in args])
    if func in _FLOATS:
        as_float = PropType(scalar=Scalar.F64)
        return _float_result(expr, [cast_value(arg, as_float, expr) for arg in args])
    return _of_one(expr, args)


def _of_one(expr: ir.Computed, args: Sequence[Operand]) -> Column:
    func, first = expr.func, column_of(args[0])
    match func:
        case ValueFunc.CONCAT:
            return F.concat(first, column_of(args[1]))
        case ValueFunc.LENGTH:
            if not args[0].type.is_list:
                return F.length(first).cast("bigint")
            return F.when(first.isNotNull(), F.size(first)).cast("bigint")
        case ValueFunc.HOUR:
            return _hour(F.unix_seconds(first)).cast("bigint")
        case ValueFunc.YEAR | ValueFunc.MONTH | ValueFunc.DAY:
            is_date = args[0].type.scalar is Scalar.DATE
            day = first if is_date else _date_of(F.unix_seconds(first))
            return _DATES[func](day).cast("bigint")
        case ValueFunc.LOWER | ValueFunc.UPPER | ValueFunc.TRIM:
            return _text_function(func)(first)
        case _:
            return _rounded(expr, first, args[0].type)


_INTEGERS: Mapping[ValueFunc, Callable[..., Column]] = {
    ValueFunc.ADD: F.try_add,
    ValueFunc.SUBTRACT: F.try_subtract,
    ValueFunc.MULTIPLY: F.try_multiply,
    ValueFunc.NEGATIVE: lambda value: F.try_subtract(F.lit(0).cast("bigint"), value),
}
_FLOATS: Mapping[ValueFunc, Callable[..., Column]] = {
    ValueFunc.ADD: lambda left, right: left + right,
    ValueFunc.SUBTRACT: lambda left, right: left - right,
    ValueFunc.MULTIPLY: lambda left, right: left * right,
    ValueFunc.DIVIDE: lambda left, right: F.when(right != 0.0, left / right),
    ValueFunc.NEGATIVE: lambda value: -value,
}
_DATES: Mapping[ValueFunc, Callable[[Column], Column]] = {
    ValueFunc.YEAR: F.year,
    ValueFunc.MONTH: F.month,
    ValueFunc.DAY: F.dayofmonth,
}
_DAY_S = 86_400


def _hour(seconds: Column) -> Column:
    """The hour of a moment in UTC, in whatever zone the session of a lazy frame is."""
    return F.floor(F.pmod(seconds, F.lit(_DAY_S)) / F.lit(3_600))


def _date_of(seconds: Column) -> Column:
    """The day of a moment, likewise."""
    days = (seconds - F.pmod(seconds, F.lit(_DAY_S))) / F.lit(_DAY_S)
    return F.date_from_unix_date(days.cast("int"))


def _checked(expr: ir.Computed, args: Sequence[Column]) -> Column:
    """A result of whole numbers; `try_` functions are null where it does not fit."""
    result = _INTEGERS[expr.func](*args)
    is_known = args[0].isNotNull()
    for arg in args[1:]:
        is_known = is_known & arg.isNotNull()
    return F.when(is_known & result.isNull(), failing(value_overflow(expr))).otherwise(result)


def _float_result(expr: ir.Computed, args: Sequence[Column]) -> Column:
    result = _FLOATS[expr.func](*args)
    # There is one zero.
    return F.when(_is_beyond(result), failing(value_overflow(expr))).otherwise(result + F.lit(0.0))


def _is_beyond(value: Column) -> Column:
    return F.isnan(value) | (F.abs(value) == F.lit(float("inf")))


def _remainder(left: Column, right: Column) -> Column:
    """What is left of whole numbers, with the sign of the first; of zero nothing is."""
    # By minus one everything is divided; the smallest number by it does not fit.
    return F.when(right == F.lit(-1), F.when(left.isNotNull(), F.lit(0).cast("bigint"))).otherwise(
        F.when(right != F.lit(0), left % right)
    )


def _rounded(expr: ir.Computed, value: Column, kind: PropType) -> Column:
    if kind.scalar.is_integer:
        if expr.func is not ValueFunc.ABS or kind.scalar in (Scalar.U32, Scalar.U64):
            return value
        least = F.lit(-(2**31) if kind.scalar is Scalar.I32 else -(2**63)).cast(spark_name(kind))
        return F.when(value == least, failing(value_overflow(expr))).otherwise(F.abs(value))
    exact = value.cast("double")
    near = F.rint(exact)
    one = F.lit(1.0)
    match expr.func:
        case ValueFunc.ABS:
            result = F.abs(exact)
        case ValueFunc.FLOOR:
            result = F.when(near > exact, near - one).otherwise(near)
        case ValueFunc.CEIL:
            result = F.when(near < exact, near + one).otherwise(near)
        case ValueFunc.ROUND:
            result = near
        case _:
            raise InternalError(f"no value is computed by {expr.func}; please report this")
    return (result + F.lit(0.0)).cast(spark_name(kind))


def _text_function(func: ValueFunc) -> Callable[[Column], Column]:
    """A function of texts as the engine has it: Java has other letters, and other spaces."""

    def change(texts: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark reads these hints
        changed: pa.Array[Any] = TEXT_FUNCTIONS[func](texts)  # Any: an array of texts
        return changed

    return _arrow_function(change, "string")


def is_member(values: pa.Array[Any]) -> Callable[[Column], Column]:  # Any: of any type
    """A function that tells whether a value is one of very many."""

    def look_up(cells: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark reads these hints
        kernel: Any = pc.is_in  # Any: the stubs do not know arrays of any type
        found: pa.Array[Any] = kernel(cells.cast(values.type), value_set=values)  # Any: booleans
        return found

    return _arrow_function(look_up, "boolean")


def _arrow_function(
    function: Callable[[pa.Array[Any]], pa.Array[Any]],  # Any: of any type
    returns: str,
) -> Callable[[Column], Column]:
    # Spark tells the kind of a function by its hints, as objects and not as texts.
    function.__annotations__ = dict.fromkeys(function.__annotations__, pa.Array)
    make: Any = vars(F)["arrow_udf"]  # Any: the types of PySpark leave it out
    made: Callable[[Column], Column] = make(function, returns)
    return made
