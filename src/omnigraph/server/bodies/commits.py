"""Bodies of commits and of lists of them."""

from __future__ import annotations

from typing import Any

from omnigraph.server.bodies.model import AnswerBody, BranchField, Omitted, RequestBody


class CommitOutput(AnswerBody):
    """One commit; times are microseconds since the epoch."""

    graph_commit_id: str
    graph_branch: str | None
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    committed_at: int
    kind: str
    operation_id: str
    recovered: Omitted[bool] = None
    stats: Omitted[dict[str, Any]] = None
    """Rows changed by table, and where they came from; of a commit that is asked for by its id."""


class CommitListOutput(AnswerBody):
    """Commits, newest first."""

    commits: list[CommitOutput]
    next_cursor: Omitted[str] = None


class CommitRevertRequest(RequestBody):
    """The branch that gets the new commit, and its head if only that one will do."""

    branch: BranchField | None = None
    if_commit: str | None = None


class CommitRevertOutput(AnswerBody):
    """What was undone; `commit` is null when nothing of it was left."""

    reverted: str
    branch: str
    commit: CommitOutput | None
