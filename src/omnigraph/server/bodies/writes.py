"""Bodies of mutations and loads."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from omnigraph.graph.jobs.report import LoadMode
from omnigraph.server.bodies.commits import CommitOutput
from omnigraph.server.bodies.model import AnswerBody, BranchField, Omitted, Params, RequestBody


class ChangeRequest(RequestBody):
    """A mutation."""

    query: str = Field(validation_alias=AliasChoices("query", "query_source"))
    name: str | None = Field(default=None, validation_alias=AliasChoices("name", "query_name"))
    params: Params | None = None
    branch: BranchField | None = None


class ChangeOutput(AnswerBody):
    """The receipt of a mutation; without a commit nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: CommitOutput | None
    warnings: Omitted[list[str]] = None


def _mode(value: object) -> object:
    """A mode by its name; what is no text stays, and is refused as such.

    Raises:
        InvalidArgument: it is no mode.
    """
    return LoadMode.parse(value) if isinstance(value, str) else value


class IngestRequest(RequestBody):
    """Lines of the graph format as one text."""

    data: str
    branch: BranchField | None = None
    from_: BranchField | None = Field(default=None, alias="from")
    mode: Annotated[LoadMode, BeforeValidator(_mode)] = LoadMode.MERGE


class GraphBatchDeclarationOutput(AnswerBody):
    """What a load brought to one type."""

    name: str
    entities_loaded: int


class GraphBatchLoadOutput(AnswerBody):
    """The receipt of a load; without a commit nothing changed."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: LoadMode
    nodes: list[GraphBatchDeclarationOutput]
    edges: list[GraphBatchDeclarationOutput]
    total_entities: int
    actor_id: str | None
    commit: CommitOutput | None
    report: dict[str, Any]
    """Rows by table, stages with their times, warnings: the receipt of the load in full."""


class IngestOutput(GraphBatchLoadOutput):
    """The receipt of a load, and the graph that got it."""

    uri: str
