from __future__ import annotations

import inspect
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph import errors
from omnigraph.errors import JsonValue, OmnigraphError, Retry

# class, code, base, retry: the contract with clients, scripts and the docs.
CONTRACT = """
SchemaInvalid             schema_invalid                      InputError        never
QueryInvalid              query_invalid                       InputError        never
QuerySelectionError       query_selection                     InputError        never
ParameterError            parameter_error                     InputError        never
InvalidArgument           invalid_argument                    InputError        never
RouteNotFound             route_not_found                     InputError        never
MethodNotAllowed          method_not_allowed                  InputError        never
UnsupportedMediaType      unsupported_media_type              InputError        never
InvalidBranchName         invalid_branch_name                 InputError        never
ConstraintViolation       constraint_violation                InputError        never
LoadRejected              load_rejected                       InputError        never
SchemaRefused             schema_refused                      InputError        never
ChangeCursorRejected      change_cursor_rejected              InputError        never
InvalidQueryVector        invalid_query_vector                InputError        never
EmbeddingUnavailable      embedding_unavailable               InputError        never
EmbeddingInvalid          embedding_invalid                   InputError        never
EmbeddingModelMismatch    embedding_model_mismatch            InputError        never
NumericOverflow           numeric_overflow                    InputError        never
ExternalBlobDenied        external_blob_denied                InputError        never
BlobRangeError            blob_range                          InputError        never
ResourceLimit             resource_limit                      InputError        never
SourceError               source_error                        InputError        never
InputChanged              input_changed                       InputError        as_is
SettingInvalid            setting_invalid                     InputError        never
UsageError                usage                               InputError        never
NotServed                 not_served                          InputError        never
GraphNotFound             graph_not_found                     NotFoundError     never
BranchNotFound            branch_not_found                    NotFoundError     never
CommitNotFound            commit_not_found                    NotFoundError     never
TagNotFound               tag_not_found                       NotFoundError     never
StoredQueryNotFound       stored_query_not_found              NotFoundError     never
BlobNotFound              blob_not_found                      NotFoundError     never
SnapshotReclaimed         snapshot_reclaimed                  NotFoundError     never
ChangeFeedGap             change_feed_gap                     NotFoundError     never
ReadSetChanged            read_set_conflict                   ConflictError     rebase
ExpectedVersionMismatch   published_dataset_version_conflict  ConflictError     rebase
PreconditionFailed        precondition_failure                ConflictError     rebase
BlobPreconditionFailed    blob_precondition                   ConflictError     rebase
MergeConflicts            merge_conflicts                     ConflictError     rebase
KeyConflict               key_conflict                        ConflictError     never
IdempotencyKeyReused      idempotency_key_reused              ConflictError     never
BranchExists              branch_exists                       ConflictError     never
BranchHasDescendants      branch_has_descendants              ConflictError     never
BranchHasTags             branch_has_tags                     ConflictError     never
TagExists                 tag_exists                          ConflictError     never
SchemaDiverged            schema_diverged                     ConflictError     never
SchemaApplyBlocked        schema_apply_blocked_by_branches    ConflictError     never
CommitHasNoParent         parentless_commit                   ConflictError     never
ChangeSchemaBoundary      schema_boundary                     ConflictError     never
ClusterManaged            cluster_managed                     ConflictError     never
GraphExists               graph_exists                        ConflictError     never
RootNotEmpty              root_not_empty                      ConflictError     never
InitInProgress            init_in_progress                    ConflictError     never
Unauthenticated           unauthenticated                     AccessError       never
PolicyError               policy_denied                       AccessError       never
ReadOnlyGraph             read_only                           AccessError       never
StorageDenied             storage_denied                      AccessError       never
PolicyInvalid             policy_invalid                      AccessError       never
PolicyEvaluationError     policy_evaluation                   AccessError       never
PolicyUntranslatable      policy_untranslatable               AccessError       never
BranchBusy                branch_busy                         UnavailableError  as_is
Fenced                    fenced                              UnavailableError  as_is
RecoveryRequired          recovery_required                   UnavailableError  unknown
RecoveryBlocked           recovery_blocked                    UnavailableError  never
DriftNeedsRepair          repair_required                     UnavailableError  never
DeadlineExceeded          deadline_exceeded                   UnavailableError  as_is
Cancelled                 cancelled                           UnavailableError  as_is
AdmissionRejected         too_many_requests                   UnavailableError  as_is
ServerUnavailable         server_unavailable                  UnavailableError  as_is
OutcomeUnknown            outcome_unknown                     UnavailableError  unknown
StorageUnavailable        storage_unavailable                 UnavailableError  as_is
EmbeddingFailed           embedding_failed                    UnavailableError  as_is
ExternalBlobSource        external_blob_source                UnavailableError  never
AuditUnavailable          audit_unavailable                   UnavailableError  as_is
SparkUnavailable          spark_unavailable                   UnavailableError  as_is
SparkNotInstalled         spark_not_installed                 UnavailableError  never
ExecutorMismatch          executor_mismatch                   UnavailableError  never
PipelineTaskError         pipeline_task_error                 UnavailableError  never
StorageUnsupported        storage_unsupported                 StorageError      never
StorageVersionTooOld      storage_version_too_old             StorageError      never
StorageVersionTooNew      storage_version_too_new             StorageError      never
StorageVersionMissing     storage_version_missing             StorageError      never
ManifestCorrupt           manifest_corrupt                    StorageError      never
StorageInternalError      storage_internal                    StorageError      never
ClusterRefused            cluster_refused                     OmnigraphError    never
InternalError             internal                            OmnigraphError    never
"""
ROWS = [tuple(line.split()) for line in CONTRACT.strip().splitlines()]
BASES = {
    "InputError",
    "NotFoundError",
    "ConflictError",
    "AccessError",
    "UnavailableError",
    "StorageError",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def error_classes() -> dict[str, type[OmnigraphError]]:
    found = dict(inspect.getmembers(errors, inspect.isclass))
    return {name: cls for name, cls in found.items() if issubclass(cls, OmnigraphError)}


def leaf_class(name: str) -> type[OmnigraphError]:
    return error_classes()[name]


def test_the_module_holds_exactly_the_classes_of_the_contract() -> None:
    leaves = {row[0] for row in ROWS}
    assert set(error_classes()) == leaves | BASES | {"OmnigraphError"}


def test_no_two_classes_share_a_code() -> None:
    codes = [leaf_class(row[0]).code for row in ROWS]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(("name", "code", "base", "retry"), ROWS)
def test_each_class_has_the_code_base_and_retry_class_of_the_contract(
    name: str, code: str, base: str, retry: str
) -> None:
    cls = leaf_class(name)
    assert (cls.code, cls.__bases__[0].__name__, str(cls.retry)) == (code, base, retry)


@pytest.mark.parametrize("name", sorted(BASES))
def test_a_base_adds_no_code_of_its_own(name: str) -> None:
    assert leaf_class(name).__bases__ == (OmnigraphError,)
    assert leaf_class(name).code == OmnigraphError.code


@pytest.mark.parametrize("cls", error_classes().values())
def test_every_class_says_in_one_line_when_it_is_raised(cls: type[OmnigraphError]) -> None:
    assert cls.__doc__
    assert len(cls.__doc__.splitlines()) == 1


@pytest.mark.parametrize("cls", error_classes().values())
def test_every_class_survives_pickling_with_its_details(cls: type[OmnigraphError]) -> None:
    error = cls("branch 'x' is busy", scope="x", holders=[{"host": "a", "pid": 1}])
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is cls
    assert (copy.message, copy.details, str(copy)) == (error.message, error.details, str(error))


@given(message=st.text(), details=st.dictionaries(st.text(min_size=1), json_values, max_size=4))
@quick(100)
def test_any_json_details_survive_pickling_and_are_json(
    message: str, details: dict[str, JsonValue]
) -> None:
    error = errors.ResourceLimit(message, **details)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (copy.message, copy.details) == (message, details)
    assert json.loads(json.dumps(copy.details)) == details


def test_a_detail_may_be_called_like_a_parameter_of_the_constructor() -> None:
    error = errors.InvalidArgument("bad", message="m", self="s")
    assert error.details == {"message": "m", "self": "s"}


def test_a_retry_class_is_one_of_four_words() -> None:
    assert [str(retry) for retry in Retry] == ["never", "rebase", "as_is", "unknown"]


@pytest.mark.parametrize("base", sorted(BASES))
def test_a_leaf_is_caught_by_its_base(base: str) -> None:
    name = next(row[0] for row in ROWS if row[2] == base)
    with pytest.raises(leaf_class(base)):
        raise leaf_class(name)("why")


def test_the_module_docstring_draws_every_class() -> None:
    drawn = set(re.findall(r"\w+", errors.__doc__ or ""))
    assert set(error_classes()) <= drawn
