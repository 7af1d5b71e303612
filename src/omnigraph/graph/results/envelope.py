"""The body of a failure, which the command line and the server share.

`error` in one line, `code` out of a closed set (left out where the contract has none), `reason`
with the slug of the class, the detail object that belongs to it, `diagnostics` for sources, and
in `details` what else the error knows in the words of a graph.
Statuses and exit codes are not here: each front end has its own table.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import (
    AccessError,
    ConflictError,
    InputError,
    NotFoundError,
    OmnigraphError,
    StorageError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP_CODES: Final[Mapping[type[OmnigraphError], str | None]] = {
    InputError: "bad_request",
    NotFoundError: "not_found",
    ConflictError: "conflict",
    AccessError: "forbidden",
    UnavailableError: None,
    StorageError: "internal",
}
_CODES: Final[Mapping[str, str | None]] = {
    "route_not_found": "not_found",
    "method_not_allowed": "method_not_allowed",
    "snapshot_reclaimed": None,
    "change_feed_gap": None,
    "precondition_failure": None,
    "unauthenticated": "unauthorized",
    "storage_denied": "internal",
    "policy_invalid": "bad_request",
    "policy_evaluation": "internal",
    "policy_untranslatable": "internal",
    "too_many_requests": "too_many_requests",
    "cluster_refused": "bad_request",
    "internal": "internal",
}


_REFUSAL_FIELDS: Final = {
    "reason": "code",
    "graph_commit_id": "graph_commit_id",
    "type_name": "type_name",
}
_DETAILS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "precondition_failure": (
        "precondition_failure",
        {"expected": "expected", "actual": "actual"},
    ),
    "read_set_conflict": (
        "read_set_conflict",
        {"member": "member", "expected": "expected", "actual": "actual"},
    ),
    "key_conflict": (
        "key_conflict",
        {"entity_kind": "kind", "type_name": "type", "entity_id": "entity_id"},
    ),
    "idempotency_key_reused": (
        "idempotency_key_reused",
        {"key": "idempotency_key", "graph_commit_id": "graph_commit_id"},
    ),
    "schema_diverged": (
        "schema_diverged",
        {"source_commit": "source_commit", "target_commit": "target_commit"},
    ),
    "schema_apply_blocked_by_branches": ("schema_apply_blocked", {"branches": "branches"}),
    "branch_has_descendants": ("branch_descendants", {"names": "descendants"}),
    "branch_has_tags": ("branch_tags", {"names": "tags"}),
    "fenced": ("recovery_required", {"operation_id": "operation_id"}),
    "recovery_required": ("recovery_required", {"operation_id": "operation_id"}),
    "recovery_blocked": ("recovery_required", {"operation_id": "operation_id"}),
    "resource_limit": (
        "resource_limit",
        {"resource": "resource", "limit": "limit", "actual": "actual"},
    ),
    "published_dataset_version_conflict": (
        "published_dataset_version_conflict",
        {
            "entity_kind": "kind",
            "type_name": "type",
            "expected_published_dataset_version": "expected",
            "actual_published_dataset_version": "actual",
        },
    ),
    "snapshot_reclaimed": (
        "snapshot_reclaimed",
        {"graph_commit_id": "graph_commit_id", "type_name": "type"},
    ),
    "change_feed_gap": (
        "change_feed_gap",
        {"cursor": "cursor", "first_unreadable_commit_id": "first_unreadable_commit_id"},
    ),
    "parentless_commit": ("change_diff_refusal", _REFUSAL_FIELDS),
    "schema_boundary": ("change_diff_refusal", _REFUSAL_FIELDS),
    "repair_required": ("repair_required", {"type_name": "type"}),
    "blob_range": ("blob_range", {"start": "start", "end": "end", "length": "length"}),
    "external_blob_source": ("external_blob_source", {"uri": "uri", "reason": "reason"}),
    "deadline_exceeded": ("deadline_exceeded", {"limit_ms": "timeout_ms", "phase": "phase"}),
    "invalid_argument": ("invalid_argument", {"argument": "argument"}),
    "parameter_error": ("parameter_error", {"reason": "reason", "parameter": "parameter"}),
    "query_selection": ("query_selection", {"reason": "reason", "name": "name"}),
}
"""Code to the detail object of the contract, and its fields with the names they have in ours."""


_TOLD: Final = frozenset(
    {
        "action",
        "actor",
        "actual",
        "attempts",
        "base",
        "branch",
        "column",
        "counts",
        "embedder",
        "entity_id",
        "etag",
        "expected",
        "first_committed_at",
        "got",
        "graph_commit_id",
        "graph_id",
        "halved_to",
        "input_line",
        "kind",
        "key",
        "last_committed_at",
        "limit",
        "line",
        "mistakes",
        "name",
        "names",
        "operation",
        "position",
        "property",
        "provider",
        "reason",
        "recorded",
        "rule",
        "scope",
        "seq",
        "status",
        "table",
        "tag",
        "target_branch",
        "type",
        "type_name",
        "uri",
        "where",
    }
)
"""Details that every reader of an error may have: none of them tells where something is stored."""
_APART: Final = frozenset(
    {"violations", "total", "merge_conflicts", "rejects_uri", "diagnostics", "path"}
)
"""Details that have a place of their own in the body."""
_AS_THEY_ARE: Final = ("merge_conflicts", "rejects_uri")
"""Details that stand in the body under their own names, unless they are empty."""
_LINES_SHOWN: Final = 20


_OPTIONAL_DETAILS: Final = ("invalid_argument", "parameter_error", "query_selection")
"""Detail objects that are left out where they would say nothing."""


def envelope_of(error: OmnigraphError) -> dict[str, object]:
    """The error body of the HTTP contract."""
    envelope: dict[str, object] = {"error": _summary(error)}
    if (code := public_code(error)) is not None:
        envelope["code"] = code
    envelope["reason"] = error.code
    if error.code in _DETAILS:
        name, fields = _DETAILS[error.code]
        known = _known(error)
        details = {field: known[ours] for field, ours in fields.items() if ours in known}
        if details or name not in _OPTIONAL_DETAILS:
            envelope[name] = details
    if (table := _table_in_conflict(error)) is not None:
        versions = {name: error.details.get(name) for name in ("expected", "actual")}
        envelope["manifest_conflict"] = {"table_key": table, **versions}
    if "violations" in error.details:
        envelope["violations"] = {
            "total": error.details["total"],
            "items": error.details["violations"],
        }
    envelope |= {name: error.details[name] for name in _AS_THEY_ARE if error.details.get(name)}
    envelope |= {
        name: error.details[name] for name in ("diagnostics", "path") if name in error.details
    }
    if others := _other_details(error):
        envelope["details"] = others
    return envelope


def _other_details(error: OmnigraphError) -> dict[str, object]:
    """What no other part of the body has."""
    _, fields = _DETAILS.get(error.code, ("", {}))
    sent = _APART.union(fields.values())
    return {
        name: value for name, value in error.details.items() if name in _TOLD and name not in sent
    }


def bad_lines(violations: object, total: object) -> str:
    """The bad lines of a load after the first one, and how many more there are."""
    if not isinstance(violations, list):
        return ""
    shown = [
        f"{item.get('input_unit', 'line')} {item['input_line']}: {item['message']}"
        for item in violations[1:_LINES_SHOWN]
        if isinstance(item, dict) and item.get("input_line") is not None
    ]
    if not shown:
        return ""
    count = total if isinstance(total, int) else len(violations)
    more = count - len(shown) - 1
    return "; ".join(["", *shown, *([f"and {more:,} more"] if more > 0 else [])])


def error_of(status: int, body: Mapping[str, Any]) -> OmnigraphError:
    """The error that a body stands for: the class that `reason` names, with its details.

    A reason that this version does not know becomes the group of errors that fits the status.
    """
    reason = body.get("reason")
    kind = _classes().get(str(reason))
    if kind is None:
        groups = (group for most, group in _STATUS_GROUPS.items() if status <= most)
        kind = next(groups, OmnigraphError)
    details = _details_of(body)
    text = str(body.get("error") or f"the server answered {status}")
    lines = bad_lines(details.get("violations"), details.get("total"))
    return kind(text.removesuffix(lines), **details)


def _details_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """What `envelope_of` took from the details of an error, under their own names."""
    name, fields = _DETAILS.get(str(body.get("reason")), ("", {}))
    sent = body.get(name)
    details = (
        {ours: sent[field] for field, ours in fields.items() if field in sent and ours != "code"}
        if isinstance(sent, dict)
        else {}
    )
    if isinstance(violations := body.get("violations"), dict):
        details |= {"total": violations.get("total"), "violations": violations.get("items", [])}
    conflicts = body.get("merge_conflicts")
    if isinstance(conflicts, list):
        details |= {"merge_conflicts": conflicts, "total": len(conflicts)}
    details |= {
        given: body[given] for given in ("rejects_uri", "diagnostics", "path") if given in body
    }
    others = body.get("details")
    return details | others if isinstance(others, dict) else details


_STATUS_GROUPS: Final[Mapping[int, type[OmnigraphError]]] = {
    400: InputError,
    403: AccessError,
    404: NotFoundError,
    405: InputError,
    409: ConflictError,
    410: NotFoundError,
    412: ConflictError,
    423: InputError,
    424: UnavailableError,
    428: InputError,
    499: UnavailableError,
    500: OmnigraphError,
    599: UnavailableError,
}
"""The highest status to the group of errors that the statuses up to it stand for."""


@cache
def _classes() -> Mapping[str, type[OmnigraphError]]:
    """Every class of errors by its slug."""
    found: dict[str, type[OmnigraphError]] = {}
    groups: list[type[OmnigraphError]] = [OmnigraphError]
    while groups:
        group = groups.pop()
        groups += group.__subclasses__()
        if "code" in vars(group) and group is not OmnigraphError:
            found[group.code] = group
    return found


def _known(error: OmnigraphError) -> dict[str, object]:
    """The details of an error, its code, and the kind and name of the table that it is about."""
    known: dict[str, object] = {"code": error.code, **error.details}
    table = error.details.get("table")
    if isinstance(table, str):
        kind, _, name = table.partition(":")
        known = {"kind": kind, "type": name, **known}
    if known.get("cursor", "") is None:
        del known["cursor"]
    return known


def _table_in_conflict(error: OmnigraphError) -> str | None:
    """The table that moved under a write, if that is why it failed."""
    if error.code == "published_dataset_version_conflict":
        return str(error.details.get("table"))
    member = error.details.get("member") if error.code == "read_set_conflict" else None
    return member if isinstance(member, str) and ":" in member else None


def public_code(error: OmnigraphError) -> str | None:
    """The member of the closed set that stands for this error, or None where it has none."""
    groups = (code for group, code in _GROUP_CODES.items() if isinstance(error, group))
    return _CODES.get(error.code, next(groups, "internal"))


def _summary(error: OmnigraphError) -> str:
    diagnostics = error.details.get("diagnostics")
    if not diagnostics:
        return one_line(error.message)
    first = error.message.splitlines()[0]
    total = error.details.get("total")
    return f"{first} (and {total - 1} more)" if isinstance(total, int) and total > 1 else first


def one_line(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(line.strip() for line in text.splitlines())
