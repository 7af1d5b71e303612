"""The branch of a load, made for it when it is missing and removed when the load fails."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    OmnigraphError,
    PreconditionFailed,
    Retry,
)
from omnigraph.graph.access import Action
from omnigraph.graph.history.branch_names import parse_branch_name
from omnigraph.graph.history.branches import Branches
from omnigraph.graph.recovery.recovery import RECOVERY_KIND
from omnigraph.ids import BranchId, CommitId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.branches import Branch
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBranch:
    """Where a load writes."""

    name: str
    base: str | None = None
    """What a missing branch is forked from."""
    was_created: bool = False


@contextmanager
def load_branch(
    graph: GraphCoordinator, name: str, base: str | None, *, actor_id: str | None
) -> Iterator[LoadBranch]:
    """The branch for the block; one that was made for it goes again if the block fails.

    Raises:
        BranchNotFound: it does not exist and there is no base, or no such base.
    """
    if base is None or _exists(graph, name):
        yield LoadBranch(name=name, base=base)
        return
    branches = Branches(graph)
    try:
        made: Branch | None = branches.create(name, base, actor_id=actor_id)
    except BranchExists:
        # Another load was faster; the branch is theirs to remove.
        made = None
    if made is None:
        yield LoadBranch(name=name, base=base)
        return
    try:
        yield LoadBranch(name=name, base=base, was_created=True)
    except OmnigraphError as error:
        stays = _why_it_stays(graph, branches, made, error)
        if stays is None:
            raise
        raise type(error)(f"{error.message}; {stays}", **error.details) from error
    except BaseException as error:
        _why_it_stays(graph, branches, made, error)
        raise


def require_load(graph: GraphCoordinator, gate: Gate, branch: str, base: str | None) -> str | None:
    """Ask for what a load does with its branch, and give the base that it may be forked from.

    A branch that is there is not forked. It may be gone when the load comes to it, so the base is
    handed on to those alone who may fork it.

    Raises:
        PolicyError: the actor may not load there, or not create the branch that is missing.
    """
    gate.require_actor()
    # First what is asked either way: a refusal does not tell whether the branch is there.
    gate.require(Action.CHANGE, branch)
    is_missing = base is not None and not _exists(graph, branch)
    if is_missing:
        gate.require(Action.BRANCH_CREATE, base, target=branch)
    if base is None or is_missing or gate.allows(Action.BRANCH_CREATE, base, target=branch):
        return base
    return None


def readable_branch(graph: GraphCoordinator, name: str, base: str | None) -> str:
    """The branch whose rows a load would meet: a missing one would be forked from its base.

    Raises:
        InvalidBranchName: no branch could have the name.
    """
    if base is None or _exists(graph, name):
        return name
    parse_branch_name(name)
    return base


def _exists(graph: GraphCoordinator, name: str) -> bool:
    try:
        graph.branch_id(name)
    except BranchNotFound:
        return False
    return True


def _untouched_head(graph: GraphCoordinator, made: Branch) -> str | None:
    """The head that the branch has if nobody has written to it since it was made.

    Not simply its head: others may have written before it is asked for. A write that failed half
    way and was rolled back leaves a commit that changes nothing.
    """
    line = graph.lines.read(BranchId(made.branch_id))
    start = line.commit(CommitId(made.forked_at or ""))
    since = [] if start is None else line.commits_between(start.seq, line.head.seq)
    is_untouched = start is not None and all(each.kind == RECOVERY_KIND for each in since)
    return line.head.commit_id if is_untouched else made.forked_at


def _why_it_stays(
    graph: GraphCoordinator, branches: Branches, made: Branch, error: BaseException
) -> str | None:
    """Remove the branch if nothing was written to it; `None` when it is gone."""
    stays = f"the branch '{made.name}' that this load created stays"
    if isinstance(error, OmnigraphError) and error.retry is Retry.UNKNOWN:
        return f"{stays}, because the load may have happened"
    try:
        branches.delete(made.name, if_commit=_untouched_head(graph, made), branch_id=made.branch_id)
    except BranchNotFound:
        return None
    except PreconditionFailed:
        return f"{stays}, because others wrote to it"
    except OmnigraphError as refused:
        return f"{stays}: {refused.message}"
    return None
