"""Bodies of tags."""

from __future__ import annotations

from omnigraph.server.bodies.model import AnswerBody, BranchField, RequestBody


class TagCreateRequest(RequestBody):
    """A name for a commit: the head of a branch, or a state of it."""

    name: BranchField
    at: str | None = None
    branch: BranchField | None = None


class TagOutput(AnswerBody):
    """A live tag; `created_at` is microseconds since the epoch."""

    name: str
    graph_commit_id: str
    graph_branch: str
    graph_manifest_version: int
    created_at: int
    actor_id: str | None


class TagListOutput(AnswerBody):
    """Live tags, by name."""

    tags: list[TagOutput]


class TagDeleteOutput(AnswerBody):
    """A tag that is gone."""

    uri: str
    name: str
    actor_id: str | None
