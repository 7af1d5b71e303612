"""Findings as the errors that callers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import ConstraintViolation, InternalError, KeyConflict, LoadRejected
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
        LoadRejected: it is any other. Both with details `total`, `counts` by code, `violations`,
            and `halved_to` where fewer violations are kept than were asked for.
    """
    total = findings.total
    if not total:
        return
    first = findings.first
    if first is None:
        raise InternalError(f"none of {total:,} violations was kept; please report this")
    details: dict[str, JsonValue] = {
        "total": total,
        "counts": {code.value: count for code, count in sorted(findings.counts.items())},
        "violations": [violation.to_dict() for violation in findings.violations],
    }
    kept = ""
    if findings.halved_to is not None:
        details["halved_to"] = findings.halved_to
        kept = (
            "; they are too many or too large to list, so the list was halved to the first"
            f" {findings.halved_to:,}"
        )
    counted = "1 violation" if total == 1 else f"{total:,} violations, the first"
    remedy = "; the mode `merge` replaces what exists" if first.code is Code.KEY_CONFLICT else ""
    message = f"load refused: {counted}: {_place(first)}{first.message}{remedy}{kept}"
    raise _error(first, message, details, otherwise=LoadRejected)


def _place(first: Violation) -> str:
    """Where it is; of an edge without its node also the type, which its message leaves out."""
    line, source = first.subject.input_line, first.subject.source
    parts = [] if line is None else [f"{first.subject.unit} {line}"]
    if parts and source is not None:
        parts.insert(0, source)
    if first.code is Code.ORPHAN_EDGE:
        parts.append(f"edge {first.type}")
    return f"{', '.join(parts)}: " if parts else ""


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
