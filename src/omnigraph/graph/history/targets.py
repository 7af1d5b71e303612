"""Which commit a read target names: the one place where a target is resolved.

A target is a text, a number, a moment, or nothing for the head of a branch. A text is, by its form,
a `resolved_snapshot`, the id of a commit, a number, a moment, or else a tag; no tag has another
form.
"""

from __future__ import annotations

from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.errors import BranchNotFound, CommitNotFound, SnapshotReclaimed
from omnigraph.graph.history.commit_times import newest_until
from omnigraph.graph.history.target_texts import (
    TargetKind,
    kind_of,
    microseconds_of,
    no_target,
    number_of,
    parse_time,
    time_text,
)
from omnigraph.graph.manifest.rows import BranchState
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID, BranchId

if TYPE_CHECKING:
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow

ReadTarget: TypeAlias = str | int | datetime
"""A state of the graph, as callers name it."""


def locate(
    lines: ManifestCoordinator, at: ReadTarget | None, branch: str = MAIN_BRANCH
) -> tuple[ManifestLine, CommitRow]:
    """The commit that a target names, and a line that has it.

    Numbers and times are those of the branch, and a commit is looked for there first. A commit that
    merges have copied and whose own line is gone has history alone: `require_data` refuses it.

    Raises:
        BranchNotFound, CommitNotFound: there is no such branch or commit.
        InvalidArgument: it is no target.
    """
    if isinstance(at, bool) or not isinstance(at, str | int | datetime | None):
        raise no_target(at)
    if at is None:
        line = _line(lines, branch)
        return line, line.head_commit
    if isinstance(at, int):
        return _at_number(lines, at, branch)
    if isinstance(at, datetime):
        return _at_time(lines, at, branch)
    match kind_of(at):
        case TargetKind.RESOLVED:
            return _resolved(lines, at)
        case TargetKind.NUMBER:
            return _at_number(lines, number_of(at), branch)
        case TargetKind.TIME:
            return _at_time(lines, parse_time(at), branch)
        case TargetKind.NAME:
            return _tagged(lines, at)
        case TargetKind.COMMIT:
            return _of_commit(lines, at, branch)


def require_target(at: ReadTarget | None) -> None:
    """Refuse nothing where a state has to be named.

    Raises:
        InvalidArgument: it is `None`.
    """
    if at is None:
        raise no_target(at)


def require_data(commit: CommitRow) -> None:
    """Refuse a commit of which only the history is left.

    Raises:
        SnapshotReclaimed: the line that held its data is gone.
    """
    if commit.copied_from is not None:
        raise SnapshotReclaimed(
            f"commit {commit.commit_id} came from a branch that was deleted after its merge; its"
            " data is gone, its history stays",
            graph_commit_id=commit.commit_id,
        )


def _line(lines: ManifestCoordinator, branch: str) -> ManifestLine:
    return lines.read(lines.branch_id(branch))


def _of_commit(
    lines: ManifestCoordinator, commit_id: str, branch: str
) -> tuple[ManifestLine, CommitRow]:
    named = _line(lines, branch)
    for line in chain([named], lines.live_lines()):
        try:
            commit = line.commit(commit_id)
        except SnapshotReclaimed:
            continue  # Deleted meanwhile.
        if commit is not None:
            return (line, commit) if commit.copied_from is None else home_of(lines, line, commit)
    raise CommitNotFound(
        f"there is no commit {commit_id!r} on a live branch; list commits to find one",
        graph_commit_id=commit_id,
    )


def home_of(
    lines: ManifestCoordinator, line: ManifestLine, copy: CommitRow
) -> tuple[ManifestLine, CommitRow]:
    """The line on which a commit was made that another one has copied; if it is gone, the copy.

    Every line that holds the data of a commit grew from that one, which outlives them, so no other
    line has to be asked.
    """
    branches = lines.live_branch_ids()
    made_by = next((each for each, name in branches.items() if name == copy.authored_branch), None)
    if made_by is None:
        return line, copy
    try:
        home = lines.read(made_by)
        commit = home.commit(copy.commit_id)
    except (BranchNotFound, SnapshotReclaimed):
        return line, copy  # Deleted meanwhile.
    if commit is None or commit.copied_from is not None:
        return line, copy  # Another branch has its name now.
    return home, commit


def _tagged(lines: ManifestCoordinator, name: str) -> tuple[ManifestLine, CommitRow]:
    tag = lines.read(MAIN_BRANCH_ID).tags().get(name)
    if tag is None or tag.state is not BranchState.LIVE:
        raise CommitNotFound(
            f"there is no commit and no tag {name!r}; list commits or tags to find one",
            graph_commit_id=name,
        )
    line = lines.read(tag.branch_id)
    commit = line.commit(tag.commit_id)
    if commit is None:
        raise CommitNotFound(
            f"the tag {name!r} names the commit {tag.commit_id}, which its branch does not have;"
            " restore __manifest from a copy",
            graph_commit_id=tag.commit_id,
        )
    return line, commit


def _at_number(lines: ManifestCoordinator, seq: int, branch: str) -> tuple[ManifestLine, CommitRow]:
    line = _line(lines, branch)
    commit = line.commit_at(seq)
    if commit is None:
        raise CommitNotFound(
            f"the branch {branch!r} has no commit with number {seq}; it goes from 0 to"
            f" {line.head.seq}",
            branch=branch,
            seq=seq,
        )
    return line, commit


def _at_time(
    lines: ManifestCoordinator, moment: datetime, branch: str
) -> tuple[ManifestLine, CommitRow]:
    line = _line(lines, branch)
    commit = newest_until(line, microseconds_of(moment))
    if commit is None:
        first = line.commit_at(0) or line.head_commit
        raise CommitNotFound(
            f"the branch {branch!r} has no commit at or before {moment.isoformat()}; its commits go"
            f" from {time_text(first.committed_at)} to {time_text(line.head_commit.committed_at)}",
            branch=branch,
            first_committed_at=first.committed_at,
            last_committed_at=line.head_commit.committed_at,
        )
    return line, commit


def _resolved(lines: ManifestCoordinator, text: str) -> tuple[ManifestLine, CommitRow]:
    branch_id, _, commit_id = text.partition("@")
    lines.branch_name(BranchId(branch_id))
    line = lines.read(BranchId(branch_id))
    commit = line.commit(commit_id)
    if commit is None or commit.copied_from is not None:
        raise CommitNotFound(
            f"there is no commit {commit_id!r} on branch {branch_id}", graph_commit_id=commit_id
        )
    return line, commit
