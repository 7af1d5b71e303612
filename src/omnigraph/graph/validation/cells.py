"""Check 1, cell by cell: what was given does not fit its type, or a required value is missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from omnigraph.graph.validation.columns import unpacked
from omnigraph.graph.validation.findings import Findings, gather, masked_findings
from omnigraph.graph.validation.violation import (
    Code,
    Subject,
    Violation,
    cut_value,
    kind_of,
    place_of,
)
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, describe_json, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.graph.arrays import Column, Mask
    from omnigraph.graph.validation.findings import Rows
    from omnigraph.lang.catalog import EdgeType, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A value that its type cannot hold."""

    reason: str
    value: JsonValue


Explain: TypeAlias = "Callable[[int], Unfit]"


def cell_findings(
    item: NodeType | EdgeType,
    name: str,
    kind: PropType,
    cells: tuple[Explain, Mask, Mask],
    rows: Rows,
    *,
    limit: int,
) -> Findings:
    """Violations of one column; `cells`: why a value is unfit, what is unfit, what is missing."""
    explain, unfit, missing = cells
    kind = kind.as_nullable(nullable=False)

    def type_error(at: int, subject: Subject) -> Violation:
        return _cell(item, name, Code.TYPE_ERROR, explain(at), subject)

    def required_missing(_: int, subject: Subject) -> Violation:
        absent = Unfit(reason=f"expected {kind}, got null", value=None)
        return _cell(item, name, Code.REQUIRED_MISSING, absent, subject)

    return gather(
        (
            masked_findings(Code.TYPE_ERROR, unfit, rows, type_error, limit=limit),
            masked_findings(Code.REQUIRED_MISSING, missing, rows, required_missing, limit=limit),
        ),
        limit=limit,
    )


def explain_arrow(given: Column, kind: PropType) -> Explain:
    """Why cells of an Arrow column do not fit."""
    kind = kind.as_nullable(nullable=False)

    def explain(at: int) -> Unfit:
        value = unpacked(given.slice(at, 1))[0]
        return Unfit(reason=why_unfit(value, kind), value=_json_form(_held(value)))

    return explain


def explain_json(values: Sequence[object], reasons: Mapping[int, str]) -> Explain:
    """Why JSON values do not fit."""
    return lambda at: Unfit(reason=reasons[at], value=_json_form(values[at]))


def empty_id(item: NodeType | EdgeType, subject: Subject) -> Violation:
    """An id that was given as the empty text."""
    return Violation(
        code=Code.TYPE_ERROR,
        message=f'{item.name}.id: expected a text that is not empty, got string ""',
        kind=kind_of(item),
        type=item.name,
        properties=("id",),
        subject=subject,
        value="",
    )


def why_unfit(value: pa.Scalar[pa.DataType], kind: PropType) -> str:
    """Why a given Arrow value is none of `kind`, in the words that JSON input gets."""
    held = _held(value)
    if _is_time(value.type):
        is_far = kind.scalar is Scalar.DATETIME or pa.types.is_date32(value.type)
        years = " of the years 0001 to 9999" if is_far else ""
        return f"expected {kind}{years}, got {value.type} {held}"
    if held is None:
        is_text = kind.scalar is Scalar.STRING and not kind.is_list
        return f"expected {kind}, got {'text that is not UTF-8' if is_text else value.type}"
    if not isinstance(held, str):
        try:
            read_json(held, kind)
        except UnfitValue as error:
            return str(error)
    # JSON may write a number as text; a column of text is never one of numbers.
    return f"expected {kind}, got {describe_json(held)}"


def _held(value: pa.Scalar[pa.DataType]) -> object:
    """The Python value; a moment as the number that Arrow holds, None if Python cannot hold it."""
    if _is_time(value.type):
        width = pa.int32() if pa.types.is_date32(value.type) else pa.int64()
        return pa.array([value], value.type).view(width)[0].as_py()
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return None


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _cell(
    item: NodeType | EdgeType,
    name: str,
    code: Code,
    unfit: Unfit,
    subject: Subject,
) -> Violation:
    return Violation(
        code=code,
        message=f"{item.name}.{name}: {unfit.reason}",
        kind=kind_of(item),
        type=item.name,
        properties=(name,),
        subject=subject,
        value=unfit.value,
        place=place_of(item, name),
    )


def _json_form(held: object) -> JsonValue:
    match held:
        case bool() | int() | None:
            return held
        case float():
            return held if math.isfinite(held) else str(held)
        case str():
            return cut_value(held)
        case _:
            return None
