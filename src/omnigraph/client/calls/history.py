"""Requests for the history: commits, what they changed, feeds, differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.client import decoding
from omnigraph.client.call import Call
from omnigraph.client.calls.requests import (
    branch_name,
    commit_part,
    filter_parameters,
    get,
    parameters,
    post,
    state_text,
)
from omnigraph.graph.changes.change_pages import DEFAULT_PAGE
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.changes.change_pages import ChangePage, CommitChanges, DiffPage
    from omnigraph.graph.history.commit import Commit, CommitPage
    from omnigraph.graph.history.targets import ReadTarget


def list_commits(
    *,
    branch: str = MAIN_BRANCH,
    actor: str | None = None,
    kind: str | None = None,
    operation: str | None = None,
    all: bool = False,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[CommitPage]:
    """A page of the history."""
    return get(
        "commits",
        decoding.commit_page,
        branch=branch_name(branch),
        actor=actor,
        kind=kind,
        operation=operation,
        all="true" if all else None,
        limit=str(limit),
        cursor=cursor,
    )


def get_commit(commit: ReadTarget) -> Call[Commit]:
    """One commit."""
    return get(
        f"commits/{commit_part(commit)}",
        lambda answer: decoding.commit(answer.json()),
    )


def commit_changes(
    commit: ReadTarget,
    *,
    kinds: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    ops: Iterable[str] | None = None,
    limit: int = DEFAULT_PAGE,
    page_token: str | None = None,
) -> Call[CommitChanges]:
    """A page of what a commit changed."""
    return Call(
        method="GET",
        path=f"commits/{commit_part(commit)}/changes",
        query=(
            *parameters(limit=str(limit), page_token=page_token),
            *filter_parameters(kinds, types, ops),
        ),
        decode=decoding.commit_changes,
    )


def poll(
    *,
    branch: str = MAIN_BRANCH,
    cursor: str | None = None,
    start: str | None = None,
    page_token: str | None = None,
    kinds: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    ops: Iterable[str] | None = None,
    limit: int = DEFAULT_PAGE,
    cursors: bool = False,
) -> Call[ChangePage]:
    """A page of the change feed; with `cursors`, blocks have the cursor behind their commit."""
    places = parameters(
        branch=branch_name(branch),
        cursor=cursor,
        start=start,
        page_token=page_token,
        limit=str(limit),
        cursors="true" if cursors else None,
    )
    return Call(
        method="GET",
        path="changes",
        query=(*places, *filter_parameters(kinds, types, ops)),
        decode=decoding.change_page,
    )


def baseline(
    *,
    branch: str = MAIN_BRANCH,
    kinds: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    ops: Iterable[str] | None = None,
) -> Call[None]:
    """A stream of lines, and the record that ends it."""
    body: dict[str, Any] = {"branch": branch_name(branch)}
    for name, value in filter_parameters(kinds, types, ops):
        body.setdefault(name, []).append(value)
    return post("changes/baseline", body, lambda _: None)


def revert(
    commit: ReadTarget, *, branch: str = MAIN_BRANCH, if_commit: str | None = None
) -> Call[Commit | None]:
    """The inverse of a commit as a new one."""
    body = {"branch": branch_name(branch)} | ({} if if_commit is None else {"if_commit": if_commit})
    return post(f"commits/{commit_part(commit)}/revert", body, decoding.reverted, is_write=True)


def diff(
    from_: ReadTarget,
    to: ReadTarget,
    *,
    kinds: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    ops: Iterable[str] | None = None,
    limit: int = DEFAULT_PAGE,
    page_token: str | None = None,
) -> Call[DiffPage]:
    """A page of what differs between two states."""
    ends = {"from": state_text(from_), "to": state_text(to)}
    page = parameters(**ends, limit=str(limit), page_token=page_token)
    return Call(
        method="GET",
        path="diff",
        query=(*page, *filter_parameters(kinds, types, ops)),
        decode=decoding.diff_page,
    )


def diff_stats(
    from_: ReadTarget,
    to: ReadTarget,
    *,
    kinds: Iterable[str] | None = None,
    types: Iterable[str] | None = None,
    ops: Iterable[str] | None = None,
) -> Call[dict[str, dict[str, int]]]:
    """How many entities differ, by type and operation."""
    ends = {"from": state_text(from_), "to": state_text(to)}
    return Call(
        method="GET",
        path="diff",
        query=(
            *parameters(**ends, limit="1", stats="true"),
            *filter_parameters(kinds, types, ops),
        ),
        decode=decoding.diff_stats,
    )
