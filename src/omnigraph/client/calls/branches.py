"""Requests for branches and tags: what there is, what is made, merged and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.client import decoding
from omnigraph.client.call import Call
from omnigraph.client.calls.requests import (
    NO_PARTS,
    branch_name,
    get,
    not_served,
    post,
    target_text,
)
from omnigraph.errors import TagNotFound
from omnigraph.graph.history.branch_names import parse_branch_name, parse_tag_name
from omnigraph.graph.merge.resolutions import resolution_bodies
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from omnigraph.graph.history.tag import Tag
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.merge.merge_plan import MergePlan
    from omnigraph.graph.merge.merge_result import MergeResult
    from omnigraph.graph.merge.resolutions import Resolutions


def list_branches() -> Call[list[decoding.RemoteBranch]]:
    """The names of branches."""
    return get("branches", decoding.branches)


def create_branch(name: str, *, from_: str = MAIN_BRANCH) -> Call[decoding.RemoteBranch]:
    """A fork."""
    body = {"name": parse_branch_name(name), "from": branch_name(from_)}
    return post("branches", body, decoding.created_branch, is_write=True)


def delete_branch(name: str, *, if_commit: str | None = None) -> Call[None]:
    """The end of a branch."""
    if if_commit is not None:
        raise not_served("branches.delete(if_commit=…)", "delete it with access to storage")
    return Call(
        method="DELETE",
        path=f"branches/{quote(branch_name(name), safe='')}",
        decode=lambda _: None,
        is_write=True,
    )


def merge(
    source: str,
    *,
    into: str = MAIN_BRANCH,
    strategy: str = "fail",
    resolutions: Resolutions = None,
    delete_branch: bool = False,
    if_commit: str | None = None,
    idempotency_key: str | None = None,
) -> Call[MergeResult]:
    """A merge; what says nothing new is left out, so that an older server takes it."""
    usual: dict[str, object] = {"strategy": "fail", "resolutions": None, "if_commit": None}
    given: dict[str, object] = {
        "strategy": strategy,
        "resolutions": resolution_bodies(resolutions),
        "if_commit": if_commit,
    }
    body = {
        "source": branch_name(source),
        "target": branch_name(into),
        "delete_branch": delete_branch,
    } | {name: value for name, value in given.items() if value != usual[name]}
    return post("branches/merge", body, decoding.merge_result, is_write=True, key=idempotency_key)


def merge_plan(
    source: str,
    *,
    into: str = MAIN_BRANCH,
    strategy: str = "fail",
    resolutions: Resolutions = None,
) -> Call[MergePlan]:
    """What a merge would do."""
    body = {
        "source": branch_name(source),
        "target": branch_name(into),
        "strategy": strategy,
        "resolutions": resolution_bodies(resolutions),
    }
    return post("branches/merge/plan", body, decoding.merge_plan)


def list_tags() -> Call[list[Tag]]:
    """The tags, by name."""
    return get("tags", decoding.tags)


def get_tag(name: str) -> Call[Tag]:
    """One tag."""
    return get(f"tags/{_tag(name)}", decoding.tag)


def create_tag(name: str, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> Call[Tag]:
    """A name for a commit."""
    given = {"name": parse_tag_name(name), "at": target_text(at), "branch": branch_name(branch)}
    body = {key: value for key, value in given.items() if value is not None}
    return post("tags", body, decoding.tag, is_write=True)


def delete_tag(name: str) -> Call[None]:
    """The end of a tag."""
    return Call(method="DELETE", path=f"tags/{_tag(name)}", decode=lambda _: None, is_write=True)


def _tag(name: str) -> str:
    """A tag as part of a path; what no path can hold is the name of none."""
    if name.strip() != name or name in NO_PARTS:
        raise TagNotFound(f"there is no tag {name!r}", tag=name)
    return quote(name, safe="")
