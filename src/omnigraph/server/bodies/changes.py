"""Bodies of changes: what commits did to entities, and streams of whole graphs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from omnigraph.server.bodies.model import AnswerBody, BranchField, Omitted, StrictRequestBody

EntityKindName = Literal["node", "edge"]
OperationName = Literal["insert", "update", "delete"]


class ChangeCauseOutput(AnswerBody):
    """The commit behind some changes."""

    graph_commit_id: str
    parent_commit_id: Omitted[str] = None
    merged_parent_commit_id: Omitted[str] = None
    authored_branch: str
    actor_id: Omitted[str] = None
    authored_at: int


class ChangeTypeOutput(AnswerBody):
    """A type, by what it keeps and by its name."""

    id: int
    name: str


class ChangeEndpointsOutput(AnswerBody):
    """The ends of an edge."""

    from_: str = Field(alias="from")
    to: str


class ChangeImageOutput(AnswerBody):
    """An entity at one moment."""

    properties: dict[str, Any]
    endpoints: Omitted[ChangeEndpointsOutput] = None


class EntityChangeOutput(AnswerBody):
    """What happened to one entity."""

    kind: EntityKindName
    type: ChangeTypeOutput
    id: str
    op: OperationName
    before: Omitted[ChangeImageOutput] = None
    after: Omitted[ChangeImageOutput] = None


class CommitChangesOutput(AnswerBody):
    """A page of what a commit changed."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    next_page_token: Omitted[str] = None


class ChangeBlockOutput(AnswerBody):
    """Changes of one commit."""

    cause: ChangeCauseOutput
    changes: list[EntityChangeOutput]
    cursor: Omitted[str] = None
    """Behind the commit, where that was asked for and this is the end of it."""


class DiffOutput(AnswerBody):
    """A page of what differs between two states, by their commits."""

    from_: str = Field(alias="from")
    to: str
    changes: list[EntityChangeOutput]
    next_page_token: Omitted[str] = None
    stats: Omitted[dict[str, dict[str, int]]] = None


class ChangeFeedOutput(AnswerBody):
    """A page of the changes of a branch."""

    blocks: list[ChangeBlockOutput]
    cursor: Omitted[str] = None
    next_page_token: Omitted[str] = None
    caught_up: Omitted[bool] = None


class ChangeBaselineRequest(StrictRequestBody):
    """A branch to take as the base of its change feed, through a filter."""

    branch: BranchField | None = None
    kind: list[EntityKindName] | None = None
    type: list[str] | None = None
    op: list[OperationName] | None = None


class ChangeBaselineOutput(AnswerBody):
    """The last record of a baseline; a stream without it is incomplete."""

    snapshot_commit_id: str
    resume_cursor: str


class ExportRequest(StrictRequestBody):
    """A branch or a snapshot, and the types of it to export; all types without any."""

    branch: BranchField | None = None
    snapshot: str | None = None
    type_names: list[str] | None = None
