"""The status of every error, in one table keyed by its code.

Codes under 500 are not shown to a client: it gets a fixed sentence and the request id. What cannot
happen in a served request stands there too, because if it does, a promise of ours is broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_ERROR: Final = 500

_BY_STATUS: Final[Mapping[int, tuple[str, ...]]] = {
    400: (
        "schema_invalid",
        "query_invalid",
        "query_selection",
        "parameter_error",
        "invalid_argument",
        "invalid_branch_name",
        "constraint_violation",
        "load_rejected",
        "schema_refused",
        "change_cursor_rejected",
        "invalid_query_vector",
        "embedding_unavailable",
        "embedding_invalid",
        "embedding_model_mismatch",
        "numeric_overflow",
        "external_blob_denied",
    ),
    401: ("unauthenticated",),
    403: ("policy_denied", "read_only"),
    404: (
        "route_not_found",
        "graph_not_found",
        "branch_not_found",
        "commit_not_found",
        "tag_not_found",
        "stored_query_not_found",
        "blob_not_found",
    ),
    405: ("method_not_allowed",),
    409: (
        "read_set_conflict",
        "published_dataset_version_conflict",
        "merge_conflicts",
        "key_conflict",
        "idempotency_key_reused",
        "branch_exists",
        "branch_has_descendants",
        "branch_has_tags",
        "tag_exists",
        "schema_diverged",
        "schema_apply_blocked_by_branches",
        "parentless_commit",
        "schema_boundary",
        "cluster_managed",
    ),
    410: ("snapshot_reclaimed", "change_feed_gap"),
    412: ("precondition_failure", "blob_precondition"),
    413: ("resource_limit",),
    415: ("unsupported_media_type",),
    416: ("blob_range",),
    424: ("external_blob_source",),
    429: ("too_many_requests",),
    499: ("cancelled",),
    500: (
        "storage_denied",
        "policy_evaluation",
        "policy_untranslatable",
        "storage_unsupported",
        "storage_version_too_old",
        "storage_version_too_new",
        "storage_version_missing",
        "manifest_corrupt",
        "storage_internal",
        "internal",
        # Never in a served request.
        "source_error",
        "input_changed",
        "setting_invalid",
        "usage",
        "not_served",
        "graph_exists",
        "root_not_empty",
        "init_in_progress",
        "policy_invalid",
        "outcome_unknown",
        "spark_unavailable",
        "spark_not_installed",
        "executor_mismatch",
        "pipeline_task_error",
        "cluster_refused",
    ),
    503: (
        "branch_busy",
        "fenced",
        "recovery_required",
        "recovery_blocked",
        "repair_required",
        "server_unavailable",
        "storage_unavailable",
        "embedding_failed",
        "audit_unavailable",
    ),
    504: ("deadline_exceeded",),
}

STATUSES: Final[Mapping[str, int]] = {
    code: status for status, codes in _BY_STATUS.items() for code in codes
}

RETRY_AFTER_S: Final[Mapping[str, int]] = {
    "branch_busy": 1,
    "fenced": 1,
    "storage_unavailable": 5,
    "embedding_failed": 5,
    "audit_unavailable": 5,
    "server_unavailable": 5,
    "too_many_requests": 60,
}
"""Codes that come with `Retry-After`; an error may carry its own time as `retry_after_s`."""
