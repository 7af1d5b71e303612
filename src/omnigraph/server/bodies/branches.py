"""Bodies of branches and merges."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from omnigraph.server.bodies.commits import CommitOutput
from omnigraph.server.bodies.model import AnswerBody, BranchField, Omitted, RequestBody


class BranchListOutput(AnswerBody):
    """The names of live branches, sorted."""

    branches: list[str]


class BranchCreateRequest(RequestBody):
    """A branch to fork."""

    name: BranchField
    from_: BranchField | None = Field(default=None, alias="from")


class BranchDeleteOutput(AnswerBody):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None


class BranchCreateOutput(AnswerBody):
    """A branch that was forked."""

    uri: str
    from_: str = Field(alias="from")
    name: str
    actor_id: str | None


class BranchMergeRequest(RequestBody):
    """Two branches, and what becomes of conflicts and of the source."""

    source: BranchField
    target: BranchField | None = None
    delete_branch: bool = False
    strategy: Literal["fail", "ours", "theirs"] = "fail"
    resolutions: list[dict[str, Any]] | None = None
    if_commit: str | None = None
    """Merge only while this commit is the head of the target."""


class BranchMergePlanRequest(RequestBody):
    """Two branches, and how conflicts would be decided."""

    source: BranchField
    target: BranchField | None = None
    strategy: Literal["fail", "ours", "theirs"] = "fail"
    resolutions: list[dict[str, Any]] | None = None


class BranchMergePlanOutput(AnswerBody):
    """What a merge would do; conflicts are the first 10,000."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    source_commit_id: str
    target_commit_id: str
    base_commit_id: str | None
    tables: dict[str, dict[str, int]]
    conflict_count: int
    conflicts: list[dict[str, Any]]


class BranchMergeOutput(AnswerBody):
    """How a merge ended."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    actor_id: str | None
    branch_deleted: Omitted[bool] = None
    branch_delete_error: Omitted[str] = None
    commit: CommitOutput | None
