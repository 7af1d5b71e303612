"""Bodies of queries, plans, snapshots and the schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field, model_validator

from omnigraph.server.bodies.model import (
    AnswerBody,
    BranchField,
    Omitted,
    Params,
    RequestBody,
)


class ReadTarget(RequestBody):
    """A branch or a snapshot, not both."""

    params: Params | None = None
    branch: BranchField | None = None
    snapshot: str | None = None

    @model_validator(mode="after")
    def _one_target(self) -> ReadTarget:
        if self.branch is not None and self.snapshot is not None:
            raise ValueError("give a branch or a snapshot, not both: a snapshot names its branch")
        return self


class QueryRequest(ReadTarget):
    """A read query."""

    query: str
    name: str | None = None


class ExplainRequest(QueryRequest):
    """A read query to look at; with `analyze` it runs."""

    analyze: bool = False


class ReadRequest(ReadTarget):
    """A read query, by the names of an earlier version."""

    query: str = Field(validation_alias=AliasChoices("query_source", "query"))
    name: str | None = Field(default=None, validation_alias=AliasChoices("query_name", "name"))


class ReadTargetOutput(AnswerBody):
    """What was read."""

    branch: str | None
    snapshot: str | None


class LegacyReadOutput(AnswerBody):
    """Rows of a query."""

    query_name: str
    target: ReadTargetOutput
    row_count: int
    columns: Omitted[list[str]] = None
    rows: list[dict[str, Any]]
    policy_filtered: Omitted[bool] = None


class ReadOutput(LegacyReadOutput):
    """Rows of a query, and the head that they were read from."""

    graph_commit_id: Omitted[str] = None


class ExplainOutput(AnswerBody):
    """How a query runs."""

    query_name: str
    target: ReadTargetOutput
    plan: dict[str, Any]
    graph_commit_id: Omitted[str] = None


class SnapshotDatasetOutput(AnswerBody):
    """One table of a snapshot."""

    entity_kind: Literal["node", "edge"]
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int


class SnapshotOutput(AnswerBody):
    """The tables of a branch's head."""

    graph_branch: str
    graph_manifest_version: int
    internal_schema_version: int
    datasets: list[SnapshotDatasetOutput]


class SchemaOutput(AnswerBody):
    """The schema of `main` as it was written."""

    schema_source: str
