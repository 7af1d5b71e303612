"""Checks 2 to 4, which look at one row alone: `@range`, `@check`, enums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column, contained, is_given, mask_of, texts
from omnigraph.graph.validation.findings import (
    REPORTED_VIOLATIONS,
    Findings,
    Rows,
    gather,
    masked_findings,
)
from omnigraph.graph.validation.spelling import show_value, stored_value
from omnigraph.graph.validation.violation import (
    Code,
    check_violation,
    enum_violation,
    range_violation,
)
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.ir import FilterOp
from omnigraph.lang.literals import Constant, fit_literal
from omnigraph.lang.types import PropType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Column, Mask
    from omnigraph.graph.validation.fitting import FittedRows
    from omnigraph.graph.validation.violation import Subject, Violation
    from omnigraph.lang.catalog import Check, Property, Range
    from omnigraph.lang.types import Scalar


def check_rows(rows: FittedRows, *, limit: int = REPORTED_VIOLATIONS) -> Findings:
    """What the input itself broke, and checks 1 to 4: all that needs no other row."""
    return gather((rows.findings, *_row_findings(rows, limit)), limit=limit)


def _row_findings(rows: FittedRows, limit: int) -> Iterator[Findings]:
    item, who = rows.item, Rows(ids=column(rows.table, "id"), lines=rows.lines)
    if isinstance(item, NodeType):
        for bounds in item.ranges:
            values = column(rows.table, bounds.property)
            yield from _range_findings(item, bounds, values, who, limit)
        for check in item.checks:
            values = column(rows.table, check.property)
            yield _check_findings(item, check, values, who, limit)
    for prop in item.properties.values():
        if prop.type.enum_values is not None:
            yield _enum_findings(rows, prop, who, limit)


def _range_findings(
    item: NodeType, bounds: Range, values: Column, who: Rows, limit: int
) -> Iterator[Findings]:
    kind = item.properties[bounds.property].type
    sides = (("min", bounds.low, FilterOp.LT), ("max", bounds.high, FilterOp.GT))
    for word, bound, op in sides:
        if bound is None:
            continue

        def broken(
            at: int, subject: Subject, bound: tuple[str, float] = (word, bound)
        ) -> Violation:
            value = show_value(stored_value(values, at, kind), kind)
            return range_violation(item, bounds.property, subject, value=value, bound=bound)

        failed = _compared(values, kind.scalar, op, bound)
        yield masked_findings(Code.RANGE_VIOLATION, failed, who, broken, limit=limit)


def _compared(values: Column, scalar: Scalar, op: FilterOp, bound: float) -> Mask:
    """Where the comparison with an exact number holds."""
    fitted = fit_literal(scalar, op, bound)
    if isinstance(fitted, Constant):
        return is_given(values) if fitted.truth else np.zeros(len(values), np.bool_)
    kind = arrow_type(PropType(scalar=fitted.scalar))
    compare = {
        FilterOp.LT: pc.less,
        FilterOp.LE: pc.less_equal,
        FilterOp.GT: pc.greater,
        FilterOp.GE: pc.greater_equal,
    }[fitted.op]
    return mask_of(compare(values.cast(kind), pa.scalar(fitted.value, kind)))


def _check_findings(
    item: NodeType, check: Check, values: Column, who: Rows, limit: int
) -> Findings:
    matches = mask_of(pc.match_substring_regex(values, check.pattern))
    return masked_findings(
        Code.CHECK_VIOLATION,
        is_given(values) & ~matches,
        who,
        lambda at, subject: check_violation(item, check, subject, value=values[at].as_py()),
        limit=limit,
    )


def _enum_findings(rows: FittedRows, prop: Property, who: Rows, limit: int) -> Findings:
    values = column(rows.table, prop.name)
    known = texts(prop.type.enum_values or ())
    return masked_findings(
        Code.ENUM_VIOLATION,
        is_given(values) & ~contained(values, known),
        who,
        lambda at, subject: enum_violation(rows.item, prop, subject, value=values[at].as_py()),
        limit=limit,
    )
