"""The one body of every error, as the OpenAPI document describes it.

`envelope_of` makes these bodies; the models say what a client may find in them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from omnigraph.server.bodies.model import AnswerBody, Omitted

EntityKind = Literal["node", "edge"]


class ErrorCode(StrEnum):
    """The closed set of codes; `reason` names the error itself."""

    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    TOO_MANY_REQUESTS = "too_many_requests"
    INTERNAL = "internal"


class MergeConflictOutput(AnswerBody):
    """One reason why a merge was refused."""

    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    kind: str
    message: str


class ManifestConflictOutput(AnswerBody):
    """A table that moved meanwhile."""

    table_key: str
    expected: Any
    actual: Any


class PublishedDatasetVersionConflictOutput(AnswerBody):
    """A version of a table that is not the expected one."""

    entity_kind: Omitted[EntityKind] = None
    type_name: Omitted[str] = None
    expected_published_dataset_version: Omitted[int] = None
    actual_published_dataset_version: Omitted[int] = None


class ReadSetConflictOutput(AnswerBody):
    """What a prepared write had read and somebody changed."""

    member: Omitted[str] = None
    expected: Any = None
    actual: Any = None


class KeyConflictOutput(AnswerBody):
    """An entity that is there already."""

    entity_kind: Omitted[EntityKind] = None
    type_name: Omitted[str] = None
    entity_id: Omitted[str] = None


class ChangeDiffRefusalOutput(AnswerBody):
    """Why there is no diff of a commit."""

    reason: Literal["parentless_commit", "schema_boundary"]
    graph_commit_id: Omitted[str] = None
    type_name: Omitted[str] = None


class ChangeFeedGapOutput(AnswerBody):
    """History that was cleaned up."""

    cursor: Omitted[str] = None
    first_unreadable_commit_id: Omitted[str] = None


class PreconditionFailureOutput(AnswerBody):
    """A head that is not the expected one."""

    expected: Omitted[str] = None
    actual: Omitted[str] = None


class ResourceLimitOutput(AnswerBody):
    """A budget, and what would have been used of it."""

    resource: str
    limit: int
    actual: Omitted[int] = None


class BlobRangeOutput(AnswerBody):
    """A range that a value does not have; its end is not part of it."""

    start: int | None = None
    end: int | None = None
    length: int


class ExternalBlobSourceOutput(AnswerBody):
    """A source that could not be read."""

    uri: str
    reason: str


class RecoveryRequiredOutput(AnswerBody):
    """A write whose end has to be settled first."""

    operation_id: Omitted[str] = None


class RepairRequiredOutput(AnswerBody):
    """A table that something outside has moved."""

    type_name: Omitted[str] = None


class NamesOutput(AnswerBody):
    """What stands in the way."""

    names: list[str]


class SchemaApplyBlockedOutput(AnswerBody):
    """Branches that stand in the way of a schema change."""

    branches: list[str]


class IdempotencyKeyReusedOutput(AnswerBody):
    """The commit that has the key already."""

    key: str
    graph_commit_id: Omitted[str] = None


class SchemaDivergedOutput(AnswerBody):
    """Where two branches have different schemas."""

    source_commit: Omitted[str] = None
    target_commit: Omitted[str] = None


class SnapshotReclaimedOutput(AnswerBody):
    """A version that was cleaned up."""

    graph_commit_id: Omitted[str] = None
    type_name: Omitted[str] = None


class DeadlineExceededOutput(AnswerBody):
    """The time that there was, and what took too long."""

    limit_ms: int
    phase: Omitted[str] = None


class ViolationsOutput(AnswerBody):
    """Rules of the schema that a write breaks: how many times, and the first of them."""

    total: int
    items: list[dict[str, Any]]


class InvalidArgumentOutput(AnswerBody):
    """Which argument is wrong."""

    argument: Omitted[str] = None


class ParameterErrorOutput(AnswerBody):
    """Which parameter of a query is wrong, and how."""

    reason: Omitted[str] = None
    parameter: Omitted[str] = None


class QuerySelectionOutput(AnswerBody):
    """Why no query of a source was chosen."""

    reason: Omitted[str] = None
    name: Omitted[str] = None


class ErrorOutput(AnswerBody):
    """Every error: a sentence, a code, the reason, and what belongs to that reason."""

    error: str
    code: Omitted[ErrorCode] = None
    reason: str
    diagnostics: Omitted[list[dict[str, Any]]] = None
    violations: Omitted[ViolationsOutput] = None
    merge_conflicts: Omitted[list[MergeConflictOutput]] = None
    manifest_conflict: Omitted[ManifestConflictOutput] = None
    published_dataset_version_conflict: Omitted[PublishedDatasetVersionConflictOutput] = None
    read_set_conflict: Omitted[ReadSetConflictOutput] = None
    key_conflict: Omitted[KeyConflictOutput] = None
    change_diff_refusal: Omitted[ChangeDiffRefusalOutput] = None
    change_feed_gap: Omitted[ChangeFeedGapOutput] = None
    precondition_failure: Omitted[PreconditionFailureOutput] = None
    resource_limit: Omitted[ResourceLimitOutput] = None
    blob_range: Omitted[BlobRangeOutput] = None
    external_blob_source: Omitted[ExternalBlobSourceOutput] = None
    recovery_required: Omitted[RecoveryRequiredOutput] = None
    repair_required: Omitted[RepairRequiredOutput] = None
    branch_descendants: Omitted[NamesOutput] = None
    branch_tags: Omitted[NamesOutput] = None
    schema_apply_blocked: Omitted[SchemaApplyBlockedOutput] = None
    idempotency_key_reused: Omitted[IdempotencyKeyReusedOutput] = None
    schema_diverged: Omitted[SchemaDivergedOutput] = None
    snapshot_reclaimed: Omitted[SnapshotReclaimedOutput] = None
    deadline_exceeded: Omitted[DeadlineExceededOutput] = None
    invalid_argument: Omitted[InvalidArgumentOutput] = None
    parameter_error: Omitted[ParameterErrorOutput] = None
    query_selection: Omitted[QuerySelectionOutput] = None
    details: Omitted[dict[str, Any]] = None
    """What else is known, such as the names that were asked for."""
