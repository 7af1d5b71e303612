"""States of the graph that an actor may look at: a snapshot, opened after or with the question.

The head of a branch is asked for by the name of the branch before anything is read. A commit is
asked for by the branch that it was made on, which is known once it is found. That one is not there
is told to those alone who could have read it wherever it were.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    InvalidArgument,
    NotFoundError,
    PolicyError,
)
from omnigraph.graph.access import Action
from omnigraph.graph.history.snapshot import find_commit, open_snapshot, open_target
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator


def open_state(
    graph: GraphCoordinator,
    gate: Gate,
    action: Action,
    *,
    branch: str | None,
    snapshot: ReadTarget | None,
) -> Snapshot:
    """The state that a read names: the head of a branch, `main` by default, or a snapshot.

    Raises:
        InvalidArgument: both are given.
        PolicyError: the actor may not do this with it.
        BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
    """
    if branch is not None and snapshot is not None:
        raise InvalidArgument(
            "give a branch or a snapshot, not both: a snapshot names its branch",
            argument="snapshot",
        )
    return open_allowed(graph, gate, action, snapshot, MAIN_BRANCH if branch is None else branch)


def open_allowed(
    graph: GraphCoordinator, gate: Gate, action: Action, at: ReadTarget | None, branch: str
) -> Snapshot:
    """The snapshot of a read target, or of the head of a branch without one.

    Raises:
        as `open_state`.
    """
    if at is None:
        gate.require(action, branch)
        return open_snapshot(graph, None, branch)
    gate.require_actor()
    with _telling_those_who_may_know(gate, action, at):
        snapshot = open_snapshot(graph, at, branch)
    gate.require(action, snapshot.graph_branch)
    return snapshot


def open_readable_target(graph: GraphCoordinator, gate: Gate, target: ReadTarget) -> Snapshot:
    """The snapshot that a target names: a branch, which stands for its head, or a commit.

    Raises:
        CommitNotFound, SnapshotReclaimed: there is no such state.
        PolicyError: the actor may not read it.
    """
    gate.require_actor()
    # Decided before it is opened: somebody may make a branch with the name of a commit meanwhile,
    # and be allowed to read that.
    if isinstance(target, str) and target in graph.lines.live_branch_ids().values():
        gate.require(Action.READ, target)
        return open_snapshot(graph, None, target)
    with _telling_those_who_may_know(gate, Action.READ, target):
        snapshot = open_target(graph, target)
    gate.require(Action.READ, snapshot.graph_branch)
    return snapshot


def find_readable_commit(
    graph: GraphCoordinator, gate: Gate, target: ReadTarget, branch: str = MAIN_BRANCH
) -> Commit:
    """The commit that a target names, if the actor may read the branch that it was made on.

    `branch` says whose numbers and times are meant.

    Raises:
        CommitNotFound: no live line has it.
        PolicyError: the actor may not read it.
    """
    gate.require_actor()
    with _telling_those_who_may_know(gate, Action.READ, target):
        commit = find_commit(graph.lines, target, branch)
    gate.require(Action.READ, commit.graph_branch)
    return commit


def branch_of_state(
    graph: GraphCoordinator, gate: Gate, action: Action, at: ReadTarget | None, branch: str
) -> str:
    """The branch to ask for what is done with a state: the one that its commit was made on.

    Raises:
        BranchNotFound, CommitNotFound: there is no such state.
        PolicyError: the same, for who may not know.
    """
    if at is None or not gate.is_guarded:
        return branch
    with _telling_those_who_may_know(gate, action, at):
        return find_commit(graph.lines, at, branch).graph_branch


def branch_to_know(error: NotFoundError) -> str | None:
    """Whose branch one must be allowed to read to be told this; `None`: all of them.

    A number or a time is looked for on one branch, anything else on every one.
    """
    branch = error.details.get("branch") if isinstance(error, CommitNotFound) else None
    return branch if isinstance(branch, str) else None


def state_refused(action: Action, target: ReadTarget, actor: str | None) -> PolicyError:
    """The same refusal for a state that is not there and for one that the actor may not see."""
    return PolicyError(
        f"policy denied action '{action}' on the state {str(target)!r} for actor '{actor}'",
        action=str(action),
        actor=actor,
    )


@contextmanager
def _telling_those_who_may_know(gate: Gate, action: Action, target: ReadTarget) -> Iterator[None]:
    try:
        yield
    except (BranchNotFound, CommitNotFound) as error:
        if not gate.allows(action, branch_to_know(error)):
            raise state_refused(action, target, gate.actor) from None
        raise
