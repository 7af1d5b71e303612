"""The exit codes, in one table keyed by the code of an error.

Scripts branch on these numbers, so they follow the retry class of the error: 75 means that the same
command may be sent again, 7 that nobody knows yet whether the write happened, 4 and 6 are the two
refusals that a script handles on its own. A wrong command line is 2, an interrupt 130, every other
failure 1.
"""

from collections.abc import Mapping
from typing import Final

from omnigraph.errors import OmnigraphError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LOST_RACE: Final = 4
REJECTED_ROWS: Final = 6
OUTCOME_UNKNOWN: Final = 7
TRY_AGAIN: Final = 75
INTERRUPTED: Final = 130

_BY_EXIT_CODE: Final[Mapping[int, tuple[str, ...]]] = {
    FAILED: (
        "schema_invalid",
        "query_invalid",
        "query_selection",
        "parameter_error",
        "invalid_argument",
        "route_not_found",
        "method_not_allowed",
        "unsupported_media_type",
        "invalid_branch_name",
        "constraint_violation",
        "schema_refused",
        "change_cursor_rejected",
        "invalid_query_vector",
        "embedding_unavailable",
        "embedding_invalid",
        "embedding_model_mismatch",
        "numeric_overflow",
        "external_blob_denied",
        "blob_range",
        "resource_limit",
        "source_error",
        "not_served",
        "graph_not_found",
        "branch_not_found",
        "commit_not_found",
        "tag_not_found",
        "stored_query_not_found",
        "blob_not_found",
        "snapshot_reclaimed",
        "change_feed_gap",
        "read_set_conflict",
        "published_dataset_version_conflict",
        "blob_precondition",
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
        "graph_exists",
        "root_not_empty",
        "init_in_progress",
        "unauthenticated",
        "policy_denied",
        "read_only",
        "storage_denied",
        "policy_invalid",
        "policy_evaluation",
        "policy_untranslatable",
        "recovery_blocked",
        "repair_required",
        "external_blob_source",
        "spark_not_installed",
        "executor_mismatch",
        "pipeline_task_error",
        "storage_unsupported",
        "storage_version_too_old",
        "storage_version_too_new",
        "storage_version_missing",
        "manifest_corrupt",
        "storage_internal",
        "cluster_refused",
        "internal",
    ),
    USAGE: ("usage", "setting_invalid"),
    LOST_RACE: ("precondition_failure",),
    REJECTED_ROWS: ("load_rejected",),
    OUTCOME_UNKNOWN: ("recovery_required", "outcome_unknown"),
    TRY_AGAIN: (
        "input_changed",
        "branch_busy",
        "fenced",
        "deadline_exceeded",
        "too_many_requests",
        "server_unavailable",
        "storage_unavailable",
        "embedding_failed",
        "audit_unavailable",
        "spark_unavailable",
    ),
    INTERRUPTED: ("cancelled",),
}

EXIT_CODES: Final[Mapping[str, int]] = {
    code: exit_code for exit_code, codes in _BY_EXIT_CODE.items() for code in codes
}


def exit_code_of(error: OmnigraphError, *, is_repeatable: bool = False) -> int:
    """The number that the process ends with.

    A command with an idempotency key is repeatable: sending it again is safe also while nobody
    knows whether it happened.
    """
    code = EXIT_CODES[error.code]
    return TRY_AGAIN if is_repeatable and code == OUTCOME_UNKNOWN else code
