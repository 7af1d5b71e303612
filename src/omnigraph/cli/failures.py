"""How a failure looks from outside: the text or the envelope, and the exit code.

The one place that renders errors. The envelope is the error body of the HTTP contract: `error` in
one line, `code` out of a closed set (left out where the contract has none), `reason` with the slug
of the class, the detail object that belongs to it, and `diagnostics` for sources. A traceback
appears only on request.
"""

import contextlib
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Final

import typer

from omnigraph.cli.exit_codes import exit_code_of
from omnigraph.cli.output import Output
from omnigraph.errors import (
    AccessError,
    ConflictError,
    InputError,
    InternalError,
    InvalidArgument,
    NotFoundError,
    OmnigraphError,
    StorageError,
    UnavailableError,
    UsageError,
)
from omnigraph.graph.results.terminal_text import harmless

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
    "branch_has_descendants": ("branch_descendants", {"names": "descendants"}),
    "fenced": ("recovery_required", {"operation_id": "operation_id"}),
    "recovery_required": ("recovery_required", {"operation_id": "operation_id"}),
    "recovery_blocked": ("recovery_required", {"operation_id": "operation_id"}),
    "resource_limit": (
        "resource_limit",
        {"resource": "resource", "limit": "limit", "actual": "actual"},
    ),
    "blob_range": ("blob_range", {"start": "start", "end": "end", "length": "length"}),
    "external_blob_source": ("external_blob_source", {"uri": "uri", "reason": "reason"}),
    "deadline_exceeded": ("deadline_exceeded", {"limit_ms": "timeout_ms"}),
}
"""Code to the detail object of the contract, and its fields with the names they have in ours."""

_SHOWN_VIOLATIONS: Final = 20

_UNKNOWN_COMMAND: Final = re.compile(r"No such command '([^']+)'")
_PLANNED_COMMANDS: Final = frozenset(
    {
        "alias",
        "analytics",
        "apply",
        "cleanup",
        "cluster",
        "config",
        "embed",
        "graphs",
        "login",
        "logout",
        "optimize",
        "policy",
        "profile",
        "queries",
        "repair",
        "serve",
    }
)


def report(error: OmnigraphError, output: Output, *, is_repeatable: bool = False) -> int:
    """Show an error and return the exit code of the process.

    `is_repeatable`: the command has an idempotency key. The exit code stands even when nobody can
    be told: standard error may be closed or full.
    """
    with contextlib.suppress(OSError):
        if output.is_json:
            output.fail_json(envelope_of(error))
        elif "diagnostics" in error.details:
            output.fail(error.message)
        else:
            output.fail(harmless(_one_line(error.message)))
            for line in _further_violations(error):
                output.explain(f"  {harmless(_one_line(line))}")
    return exit_code_of(error, is_repeatable=is_repeatable)


def envelope_of(error: OmnigraphError) -> dict[str, object]:
    """The error body of the HTTP contract."""
    envelope: dict[str, object] = {"error": _summary(error)}
    if (code := public_code(error)) is not None:
        envelope["code"] = code
    envelope["reason"] = error.code
    if error.code in _DETAILS:
        name, fields = _DETAILS[error.code]
        envelope[name] = {
            field: error.details[ours] for field, ours in fields.items() if ours in error.details
        }
    if "violations" in error.details:
        envelope["violations"] = {
            "total": error.details["total"],
            "items": error.details["violations"],
        }
    if error.details.get("merge_conflicts"):
        envelope["merge_conflicts"] = error.details["merge_conflicts"]
    if error.details.get("rejects_uri") is not None:
        envelope["rejects_uri"] = error.details["rejects_uri"]
    if "diagnostics" in error.details:
        envelope["diagnostics"] = error.details["diagnostics"]
    if "path" in error.details:
        envelope["path"] = error.details["path"]
    return envelope


def public_code(error: OmnigraphError) -> str | None:
    """The member of the closed set that stands for this error, or None where it has none."""
    groups = (code for group, code in _GROUP_CODES.items() if isinstance(error, group))
    return _CODES.get(error.code, next(groups, "internal"))


def translate(error: Exception) -> OmnigraphError:
    """Our error for anything that ended a command: a wrong command line, a full disk, a bug."""
    if isinstance(error, OmnigraphError):
        return error
    if isinstance(error, typer.TyperException):
        return UsageError(_explain_usage(error))
    if isinstance(error, OSError) and error.filename is None:
        # Whoever reads or writes a file translates its failures, so this is one of our streams.
        return InvalidArgument(
            f"cannot write the output: {error.strerror}; free some space or redirect it elsewhere"
        )
    return InternalError(
        f"unexpected {type(error).__name__}: {error}; this is a bug in omnigraph, please report it "
        "with the output of the same command under --log-level debug"
    )


def render_traceback(error: Exception) -> str:
    """The way to an error, for `--log-level debug`."""
    return "".join(traceback.format_exception(error)).rstrip("\n")


def _further_violations(error: OmnigraphError) -> Iterator[str]:
    """What follows the message, which has the first violation; nothing if that was the only one."""
    violations = error.details.get("violations")
    if not isinstance(violations, list) or len(violations) < 2:
        return
    is_written = error.details.get("rejects_uri") is not None
    shown = violations[:_SHOWN_VIOLATIONS]
    if not is_written:
        yield from (_placed(violation) for violation in shown[1:] if isinstance(violation, dict))
    total, counts = error.details.get("total"), error.details.get("counts")
    if isinstance(total, int) and total > len(shown) and not is_written:
        yield f"and {total - len(shown):,} more"
    if isinstance(counts, dict):
        yield "in all: " + ", ".join(f"{code} {count:,}" for code, count in counts.items())


def _placed(violation: Mapping[str, object]) -> str:
    """A violation with the line of the input, or else the type, that it is about."""
    line, kind, source = (violation.get(name) for name in ("input_line", "type", "source"))
    parts = [] if line is None else [f"line {line}"]
    if parts and source is not None:
        parts.insert(0, f"{source}")
    if violation["code"] == "orphan_edge":
        # Its message names the node that is missing, not the edge that lacks it.
        parts.append(f"edge {kind}")
    elif line is None and kind is not None:
        parts.append(f"{kind}")
    message = f"{violation['message']}"
    return f"{', '.join(parts)}: {message}" if parts else message


def _explain_usage(error: typer.TyperException) -> str:
    message = _one_line(error.format_message()).rstrip(".")
    unknown = _UNKNOWN_COMMAND.match(message)
    if unknown is not None and unknown[1] in _PLANNED_COMMANDS:
        return f"'{unknown[1]}' is not in this version"
    context = getattr(error, "ctx", None)
    program = "omnigraph" if context is None else context.command_path
    return f"{message[:1].lower()}{message[1:]}; see '{program} --help'"


def _summary(error: OmnigraphError) -> str:
    diagnostics = error.details.get("diagnostics")
    if not diagnostics:
        return _one_line(error.message)
    first = error.message.splitlines()[0]
    total = error.details.get("total")
    return f"{first} (and {total - 1} more)" if isinstance(total, int) and total > 1 else first


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())
