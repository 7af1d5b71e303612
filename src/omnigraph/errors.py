"""Every error a caller may see.

Each class has a stable `code`: the slug that a server sends, that a client turns back into the
class, and that the errors page of the docs uses as an anchor. `retry` says whether sending the same
call again can help. An error pickles with its details, because executors are other processes.

No class knows a transport: the server maps `code` to a status and the command line maps it to an
exit code, each in one table of its own. Raise a leaf. The classes one level up are there for
`except`; a client uses one only for an answer whose code it does not know.

    OmnigraphError
    +-- InputError                what was asked is wrong
    |   +-- SchemaInvalid, QueryInvalid, QuerySelectionError, ParameterError, InvalidArgument
    |   +-- RouteNotFound, MethodNotAllowed, UnsupportedMediaType
    |   +-- InvalidBranchName, ConstraintViolation, LoadRejected, SchemaRefused
    |   +-- ChangeCursorRejected, InvalidQueryVector, NumericOverflow
    |   +-- EmbeddingUnavailable, EmbeddingInvalid, EmbeddingModelMismatch
    |   +-- ExternalBlobDenied, BlobRangeError, ResourceLimit
    |   +-- SourceError, InputChanged, SettingInvalid, UsageError, NotServed
    +-- NotFoundError             it is not there, or not any more
    |   +-- GraphNotFound, BranchNotFound, CommitNotFound, TagNotFound
    |   +-- StoredQueryNotFound, BlobNotFound, SnapshotReclaimed, ChangeFeedGap
    +-- ConflictError             somebody or something else is in the way
    |   +-- ReadSetChanged, ExpectedVersionMismatch, PreconditionFailed, BlobPreconditionFailed
    |   +-- MergeConflicts, KeyConflict, IdempotencyKeyReused
    |   +-- BranchExists, BranchHasDescendants, BranchHasTags, TagExists
    |   +-- SchemaDiverged, SchemaApplyBlocked, CommitHasNoParent, ChangeSchemaBoundary
    |   +-- ClusterManaged, GraphExists, RootNotEmpty, InitInProgress
    +-- AccessError               not allowed
    |   +-- Unauthenticated, PolicyError, ReadOnlyGraph, StorageDenied
    |   +-- PolicyInvalid, PolicyEvaluationError, PolicyUntranslatable
    +-- UnavailableError          not now, or not known
    |   +-- BranchBusy, Fenced, RecoveryRequired, RecoveryBlocked, DriftNeedsRepair
    |   +-- DeadlineExceeded, Cancelled, AdmissionRejected, ServerUnavailable, OutcomeUnknown
    |   +-- StorageUnavailable, EmbeddingFailed, ExternalBlobSource, AuditUnavailable
    |   +-- SparkUnavailable, SparkNotInstalled, ExecutorMismatch, PipelineTaskError
    +-- StorageError              what is stored cannot be used
    |   +-- StorageUnsupported, StorageVersionTooOld, StorageVersionTooNew, StorageVersionMissing
    |   +-- ManifestCorrupt, StorageInternalError
    +-- ClusterRefused
    +-- InternalError
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)


class Retry(StrEnum):
    """What sending the call again can do."""

    NEVER = "never"
    """The same call fails again until input, rights or the graph is changed by somebody."""

    REBASE = "rebase"
    """Nothing happened; the graph moved. Read again, decide, send a new request."""

    AS_IS = "as_is"
    """Nothing happened; send the same again after a pause."""

    UNKNOWN = "unknown"
    """The write may have happened. Look for its operation id in the history."""


class OmnigraphError(Exception):
    """Base of every error a caller may see."""

    code: ClassVar[str] = "internal"
    retry: ClassVar[Retry] = Retry.NEVER

    def __init__(self, message: str, /, **details: JsonValue) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[object, ...]:
        # The inherited form calls cls(*args), which loses the details of every class.
        return _rebuild, (type(self), self.message, self.details)


def _rebuild(
    cls: type[OmnigraphError], message: str, details: Mapping[str, JsonValue]
) -> OmnigraphError:
    return cls(message, **details)


class InputError(OmnigraphError):
    """What was asked is wrong."""


class SchemaInvalid(InputError):
    """A `.pg` source does not compile; details `diagnostics`."""

    code = "schema_invalid"


class QueryInvalid(InputError):
    """A `.gq` source does not parse or does not check; details `diagnostics`."""

    code = "query_invalid"


class QuerySelectionError(InputError):
    """No query of the source can be chosen; details `reason`."""

    code = "query_selection"


class ParameterError(InputError):
    """A parameter is missing, null, unknown, reserved or of the wrong type; details `reason`."""

    code = "parameter_error"


class InvalidArgument(InputError):
    """Any other bad value or combination of values."""

    code = "invalid_argument"


class RouteNotFound(InputError):
    """The server has no such path."""

    code = "route_not_found"


class MethodNotAllowed(InputError):
    """The server has the path, not the method."""

    code = "method_not_allowed"


class UnsupportedMediaType(InputError):
    """The server does not read this content type."""

    code = "unsupported_media_type"


class InvalidBranchName(InputError):
    """The name breaks the rule for names of branches and tags, or `main` was to be deleted."""

    code = "invalid_branch_name"


class ConstraintViolation(InputError):
    """A mutation breaks a rule of the schema; details `violations`."""

    code = "constraint_violation"


class LoadRejected(InputError):
    """A load has bad records and nothing was committed; details `counts`, `violations`."""

    code = "load_rejected"


class SchemaRefused(InputError):
    """The new schema cannot be applied to this graph; details `diagnostics`."""

    code = "schema_refused"


class ChangeCursorRejected(InputError):
    """A cursor or page token is damaged, or belongs to another graph, branch, filter or kind."""

    code = "change_cursor_rejected"


class InvalidQueryVector(InputError):
    """A query vector is zero or not finite."""

    code = "invalid_query_vector"


class EmbeddingUnavailable(InputError):
    """Text to embed, and no embedder, no key, or a refusal; details `provider`, `status`."""

    code = "embedding_unavailable"


class EmbeddingInvalid(InputError):
    """Empty text, or a vector of the wrong dimension, not finite, or zero."""

    code = "embedding_invalid"


class EmbeddingModelMismatch(InputError):
    """The embedder's model is not the one that `@embed` records."""

    code = "embedding_model_mismatch"


class NumericOverflow(InputError):
    """A sum or a computed value leaves the range."""

    code = "numeric_overflow"


class ExternalBlobDenied(InputError):
    """A blob URI lies outside the allowed bases, or links lead out of them."""

    code = "external_blob_denied"


class BlobRangeError(InputError):
    """The range lies outside the blob."""

    code = "blob_range"


class ResourceLimit(InputError):
    """A budget is exceeded, before any durable effect; details `resource`, `limit`, `actual`."""

    code = "resource_limit"


class SourceError(InputError):
    """A load input is missing, unreadable, or of an unknown format, column or column type."""

    code = "source_error"


class InputChanged(InputError):
    """A source file changed while it was read."""

    code = "input_changed"
    retry = Retry.AS_IS


class SettingInvalid(InputError):
    """A malformed setting, configuration or pipeline file; the message names variable or key."""

    code = "setting_invalid"


class UsageError(InputError):
    """The command line cannot be understood."""

    code = "usage"


class NotServed(InputError):
    """The operation needs access to storage, and the graph is remote."""

    code = "not_served"


class NotFoundError(OmnigraphError):
    """It is not there, or not any more."""


class GraphNotFound(NotFoundError):
    """No graph at the path, or no served graph of that id."""

    code = "graph_not_found"


class BranchNotFound(NotFoundError):
    """No such branch; also a handle or cursor of a deleted one."""

    code = "branch_not_found"


class CommitNotFound(NotFoundError):
    """No such commit."""

    code = "commit_not_found"


class TagNotFound(NotFoundError):
    """No such tag."""

    code = "tag_not_found"


class StoredQueryNotFound(NotFoundError):
    """No such stored query, or none that this actor may invoke."""

    code = "stored_query_not_found"


class BlobNotFound(NotFoundError):
    """Unknown entity, or a null cell."""

    code = "blob_not_found"


class SnapshotReclaimed(NotFoundError):
    """Cleanup removed a version that this snapshot needs."""

    code = "snapshot_reclaimed"


class ChangeFeedGap(NotFoundError):
    """Cleanup removed what the next block of changes needs; take a baseline."""

    code = "change_feed_gap"


class ConflictError(OmnigraphError):
    """Somebody or something else is in the way."""


class ReadSetChanged(ConflictError):
    """The branch moved under a strict write or a run of a pipeline; details `member`."""

    code = "read_set_conflict"
    retry = Retry.REBASE


class ExpectedVersionMismatch(ConflictError):
    """A pinned table version differs at publish."""

    code = "published_dataset_version_conflict"
    retry = Retry.REBASE


class PreconditionFailed(ConflictError):
    """The commit given as `if_commit` is not the head."""

    code = "precondition_failure"
    retry = Retry.REBASE


class BlobPreconditionFailed(ConflictError):
    """The blob is not the one that `If-Match` names."""

    code = "blob_precondition"
    retry = Retry.REBASE


class MergeConflicts(ConflictError):
    """Both sides changed the same, or the merged image breaks a rule."""

    code = "merge_conflicts"
    retry = Retry.REBASE


class KeyConflict(ConflictError):
    """A strict insert of an id that exists; for a load also details `counts`, `violations`."""

    code = "key_conflict"


class IdempotencyKeyReused(ConflictError):
    """The idempotency key belongs to another request."""

    code = "idempotency_key_reused"


class BranchExists(ConflictError):
    """The branch to create exists."""

    code = "branch_exists"


class BranchHasDescendants(ConflictError):
    """The branch to delete has branches that grew from it."""

    code = "branch_has_descendants"


class BranchHasTags(ConflictError):
    """Tags name commits whose data the branch to delete holds; details `tags`."""

    code = "branch_has_tags"


class TagExists(ConflictError):
    """The tag exists, or a branch was to get its name."""

    code = "tag_exists"


class SchemaDiverged(ConflictError):
    """Branches to merge differ in schema, or it changed with or since a commit to undo."""

    code = "schema_diverged"


class SchemaApplyBlocked(ConflictError):
    """The schema cannot change while other branches live."""

    code = "schema_apply_blocked_by_branches"


class CommitHasNoParent(ConflictError):
    """The first commit has no changes to list."""

    code = "parentless_commit"


class ChangeSchemaBoundary(ConflictError):
    """No provable diff exists across a change of schema."""

    code = "schema_boundary"


class ClusterManaged(ConflictError):
    """`init` or schema apply on a graph that a cluster owns."""

    code = "cluster_managed"


class GraphExists(ConflictError):
    """`init` on a graph."""

    code = "graph_exists"


class RootNotEmpty(ConflictError):
    """`init`, or an export to files, on a folder with other objects in it."""

    code = "root_not_empty"


class InitInProgress(ConflictError):
    """Another `init` holds the claim; the message names its holder and `--force`."""

    code = "init_in_progress"


class AccessError(OmnigraphError):
    """Not allowed, or not decidable whether it is."""


class Unauthenticated(AccessError):
    """No token, or an unknown one."""

    code = "unauthenticated"


class PolicyError(AccessError):
    """A gate or a data rule says no, or there is no actor under a policy."""

    code = "policy_denied"


class ReadOnlyGraph(AccessError):
    """A write on a read-only handle."""

    code = "read_only"


class StorageDenied(AccessError):
    """The object store or the file system refuses the credentials."""

    code = "storage_denied"


class PolicyInvalid(AccessError):
    """The policy bundle does not load or does not compile."""

    code = "policy_invalid"


class PolicyEvaluationError(AccessError):
    """The policy engine failed or gave no decision."""

    code = "policy_evaluation"


class PolicyUntranslatable(AccessError):
    """A residual of the policy has a shape that cannot become a filter."""

    code = "policy_untranslatable"


class UnavailableError(OmnigraphError):
    """Not now, or not known."""


class BranchBusy(UnavailableError):
    """A lease was not free within the wait; details `scope`."""

    code = "branch_busy"
    retry = Retry.AS_IS


class Fenced(UnavailableError):
    """Others recovered this write; nothing of it is visible."""

    code = "fenced"
    retry = Retry.AS_IS


class RecoveryRequired(UnavailableError):
    """The write failed after an effect and so did its own recovery; the sidecar stays."""

    code = "recovery_required"
    retry = Retry.UNKNOWN


class RecoveryBlocked(UnavailableError):
    """A sidecar that recovery may not settle, or not read; writes to its branch stop."""

    code = "recovery_blocked"


class DriftNeedsRepair(UnavailableError):
    """A table's head is above its pin and not ours; writes to the table stop."""

    code = "repair_required"


class DeadlineExceeded(UnavailableError):
    """The time budget is used up; a write had no effect."""

    code = "deadline_exceeded"
    retry = Retry.AS_IS


class Cancelled(UnavailableError):
    """Cancelled by the caller, before the first effect."""

    code = "cancelled"
    retry = Retry.AS_IS


class AdmissionRejected(UnavailableError):
    """Too many requests of this actor, or too many reads in the process."""

    code = "too_many_requests"
    retry = Retry.AS_IS


class ServerUnavailable(UnavailableError):
    """The server drains or cannot be reached, or the answer to a read was cut off."""

    code = "server_unavailable"
    retry = Retry.AS_IS


class OutcomeUnknown(UnavailableError):
    """The connection was lost after a write was sent."""

    code = "outcome_unknown"
    retry = Retry.UNKNOWN


class StorageUnavailable(UnavailableError):
    """The store does not answer after retries; no effect yet."""

    code = "storage_unavailable"
    retry = Retry.AS_IS


class EmbeddingFailed(UnavailableError):
    """No answer within the retries; details `provider`, `status`, `attempts`."""

    code = "embedding_failed"
    retry = Retry.AS_IS


class ExternalBlobSource(UnavailableError):
    """An allowed blob URI could not be probed."""

    code = "external_blob_source"


class AuditUnavailable(UnavailableError):
    """The strict audit sink is down."""

    code = "audit_unavailable"
    retry = Retry.AS_IS


class SparkUnavailable(UnavailableError):
    """The Spark session or Connect endpoint is lost or cannot be reached."""

    code = "spark_unavailable"
    retry = Retry.AS_IS


class SparkNotInstalled(UnavailableError):
    """No Java 17 or later, or no PySpark; the message says what to install."""

    code = "spark_not_installed"


class ExecutorMismatch(UnavailableError):
    """An executor has other versions, or cannot open the graph."""

    code = "executor_mismatch"


class PipelineTaskError(UnavailableError):
    """A task failed all its attempts; details `stage`, `partition`, `attempts`, `cause`."""

    code = "pipeline_task_error"


class StorageError(OmnigraphError):
    """What is stored, or the store itself, cannot be used."""


class StorageUnsupported(StorageError):
    """The file system has no hard links."""

    code = "storage_unsupported"


class StorageVersionTooOld(StorageError):
    """The graph's format is older than this release reads."""

    code = "storage_version_too_old"


class StorageVersionTooNew(StorageError):
    """The graph's format is newer than this release reads."""

    code = "storage_version_too_new"


class StorageVersionMissing(StorageError):
    """The graph carries no format version."""

    code = "storage_version_missing"


class ManifestCorrupt(StorageError):
    """Rows of the manifest contradict each other."""

    code = "manifest_corrupt"


class StorageInternalError(StorageError):
    """A native failure that nothing above explains; the message names operation and table."""

    code = "storage_internal"


class ClusterRefused(OmnigraphError):
    """A cluster declaration has error diagnostics; details `diagnostics`."""

    code = "cluster_refused"


class InternalError(OmnigraphError):
    """A broken promise of ours; the message says how to report it."""

    code = "internal"
