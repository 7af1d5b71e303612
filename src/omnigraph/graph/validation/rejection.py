"""Findings as the errors that callers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ConstraintViolation, KeyConflict, LoadRejected
from omnigraph.graph.validation.violation import Code

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue, OmnigraphError
    from omnigraph.graph.validation.findings import Findings
    from omnigraph.graph.validation.violation import Violation


def refuse_mutation(findings: Findings) -> None:
    """Nothing when there are no findings.

    Raises:
        KeyConflict: the first violation is a strict insert of a committed id.
        ConstraintViolation: it is any other; details `total` and `violations`, the first one.
    """
    first = findings.first
    if first is None:
        return
    others = findings.total - 1
    tail = f" (and {others:,} more)" if others else ""
    details: dict[str, JsonValue] = {"total": findings.total, "violations": [first.to_dict()]}
    raise _error(first, first.message + tail, details, otherwise=ConstraintViolation)


def refuse_load(findings: Findings) -> None:
    """Nothing when there are no findings.

    Raises:
        KeyConflict: the first violation is a strict insert of a committed id.
        LoadRejected: it is any other. Both with details `total`, `counts` by code, `violations`.
    """
    first = findings.first
    if first is None:
        return
    total = findings.total
    at = "" if first.subject.input_line is None else f"line {first.subject.input_line}: "
    if at and first.subject.source is not None:
        at = f"{first.subject.source}, {at}"
    details: dict[str, JsonValue] = {
        "total": total,
        "counts": {code.value: count for code, count in sorted(findings.counts.items())},
        "violations": [violation.to_dict() for violation in findings.violations],
    }
    counted = "1 violation" if total == 1 else f"{total:,} violations, the first"
    remedy = "; the mode `merge` replaces what exists" if first.code is Code.KEY_CONFLICT else ""
    message = f"load refused: {counted}: {at}{first.message}{remedy}"
    raise _error(first, message, details, otherwise=LoadRejected)


def _error(
    first: Violation,
    message: str,
    details: dict[str, JsonValue],
    *,
    otherwise: type[OmnigraphError],
) -> OmnigraphError:
    if first.code is not Code.KEY_CONFLICT:
        return otherwise(message, **details)
    kind = None if first.kind is None else first.kind.value
    return KeyConflict(
        message, kind=kind, type=first.type, entity_id=first.subject.entity_id, **details
    )
