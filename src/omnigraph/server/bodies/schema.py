"""Bodies of changes of the schema."""

from __future__ import annotations

from typing import Any

from omnigraph.server.bodies.commits import CommitOutput
from omnigraph.server.bodies.model import AnswerBody, RequestBody


class SchemaApplyRequest(RequestBody):
    """The desired schema."""

    schema_source: str
    allow_data_loss: bool = False
    schema_from: str | None = None
    """The hash of the schema that a plan was made for; any, without it."""


class SchemaPlanRequest(RequestBody):
    """The desired schema."""

    schema_source: str
    allow_data_loss: bool = False


class SchemaPlanOutput(AnswerBody):
    """The steps to a schema, and the hash of the schema that they start from."""

    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    diagnostics: list[dict[str, Any]]
    schema_from: str | None


class SchemaApplyOutput(AnswerBody):
    """What was done; `commit` is null when nothing had to be."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    steps: list[dict[str, Any]]
    diagnostics: list[dict[str, Any]]
    kept_data: list[dict[str, Any]]
    commit: CommitOutput | None
    graph_manifest_version: int
