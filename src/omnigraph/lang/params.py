"""Binding of request parameters to what a query declares.

Strict: a typo is an error and never a null, a value of the wrong kind or range is an error,
numbers are read exactly. Besides JSON values Python callers may pass dates, date-times, bytes, and
NumPy or Arrow values.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime

from omnigraph.errors import ParameterError
from omnigraph.lang.ir import Param
from omnigraph.lang.query_ast import NOW_PARAM
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import (
    UnfitValue,
    date_days,
    datetime_ms,
    describe_json,
    format_date,
    format_datetime,
    read_json,
)
from omnigraph.limits import MAX_LIST_PARAMETER


def bind_params(
    values: Mapping[str, object] | None, declared: Iterable[Param]
) -> dict[str, object]:
    """A value for every declared parameter, as its type holds it; None is null.

    Raises:
        ParameterError: missing, null, unknown, reserved, or of the wrong type.
    """
    by_name = _named(values)
    params = {param.name: param.type for param in declared}
    for name in by_name:
        if name == NOW_PARAM:
            raise ParameterError(
                f"parameter `${name}` is reserved; leave it out",
                reason="reserved_parameter",
                parameter=name,
            )
        if name not in params:
            raise ParameterError(
                f"unknown parameter `${name}`"
                f"{did_you_mean(name, params, otherwise='the query declares')}",
                reason="parameter_unknown",
                parameter=name,
            )
    return {name: _bind(name, by_name, kind) for name, kind in params.items()}


def _named(values: Mapping[str, object] | None) -> dict[str, object]:
    """The given values by name, a leading `$` dropped."""
    out: dict[str, object] = {}
    for key, value in (values or {}).items():
        name = str(key).removeprefix("$")
        if name in out:
            raise ParameterError(
                f"parameter `${name}` is given twice, with and without `$`",
                reason="parameter_unknown",
                parameter=name,
            )
        out[name] = value
    return out


def _bind(name: str, values: Mapping[str, object], kind: PropType) -> object:
    value = _plain(values.get(name))
    if value is None:
        if kind.nullable:
            return None
        missing = name not in values
        raise ParameterError(
            f"parameter `${name}` of type {kind} is {'missing' if missing else 'null'}; "
            "give a value, or declare the type with `?`",
            reason="parameter_missing" if missing else "parameter_null",
            parameter=name,
            expected=str(kind),
        )
    if kind.is_list and isinstance(value, list) and len(value) > MAX_LIST_PARAMETER:
        raise ParameterError(
            f"parameter `${name}` has {len(value):,} values, more than {MAX_LIST_PARAMETER:,}; ask "
            "in several queries, or load the values and join them",
            reason="parameter_type",
            parameter=name,
            expected=f"at most {MAX_LIST_PARAMETER} values",
            got=f"{len(value)} values",
        )
    try:
        return read_json(_python_value(value, kind), kind, null_items=False)
    except UnfitValue as error:
        raise ParameterError(
            f"parameter `${name}` of type {kind}: {error}",
            reason="parameter_type",
            parameter=name,
            expected=str(kind),
            got=describe_json(value),
        ) from error


def _plain(value: object) -> object:
    """NumPy, Arrow and pandas values as Python ones, without importing any of them."""
    if isinstance(value, datetime) and value != value:  # only NaT differs from itself
        return None
    if str(getattr(value, "dtype", "")) == "datetime64[ns]":
        # In nanoseconds NumPy gives plain numbers, in milliseconds date-times.
        value = value.astype("datetime64[ms]")  # type: ignore[attr-defined]  # it has a dtype
    for method in ("as_py", "to_pylist", "tolist"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    return list(value) if isinstance(value, tuple) else value


def _python_value(value: object, kind: PropType) -> object:
    """Dates and date-times as the text that JSON would carry."""
    if (kind.is_list or kind.scalar is Scalar.VECTOR) and isinstance(value, list):
        return [_python_scalar(_plain(item), kind.scalar) for item in value]
    return _python_scalar(value, kind.scalar)


def _python_scalar(value: object, scalar: Scalar) -> object:
    match value:
        case datetime() if scalar is Scalar.DATETIME:
            return format_datetime(datetime_ms(value))
        case datetime():
            return value
        case date() if scalar is Scalar.DATE:
            return format_date(date_days(value))
        case _:
            return value
