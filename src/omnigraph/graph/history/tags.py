"""Tags: commits under a name, for good.

A tag is there when its row on the main line says `live`. It makes no graph commit and moves no
data; it keeps what it names: the branch whose line holds the commit cannot be deleted, and cleanup
asks `tagged_pins` what must stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import SnapshotReclaimed, TagNotFound
from omnigraph.graph.history.branch_names import parse_tag_name
from omnigraph.graph.history.named_rows import (
    holding,
    live_branches,
    live_tags,
    require_free,
    write_named,
)
from omnigraph.graph.history.tag import Tag
from omnigraph.graph.history.targets import locate, require_data
from omnigraph.graph.manifest.rows import BranchState, TagRow
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow, PinRow

    _Judge: TypeAlias = Callable[[ManifestLine], None]


class _HeadMoved(Exception):
    """The commit is not the head of its line any more, which nothing would remove."""


class Tags:
    """The tags of one open graph."""

    def __init__(self, graph: GraphCoordinator) -> None:
        self._graph = graph

    def list(self) -> list[Tag]:
        """Live tags by name."""
        line = self._graph.lines.read(MAIN_BRANCH_ID)
        return [_described(row, line) for row in live_tags(line)]

    def get(self, name: str) -> Tag:
        """One live tag.

        Raises:
            TagNotFound: there is none of that name.
        """
        line = self._graph.lines.read(MAIN_BRANCH_ID)
        return _described(_live(name, line), line)

    def create(self, name: str, at: ReadTarget | None, *, branch: str, actor_id: str | None) -> Tag:
        """Name the commit of a read target, the head of the branch without one.

        Raises:
            InvalidBranchName: the name breaks the rule.
            BranchExists, TagExists: a live branch or tag has that name.
            BranchNotFound, CommitNotFound: there is no such branch or commit.
            SnapshotReclaimed: the data of the commit is gone.
            BranchBusy: a cleanup is under way, which may remove the commit.
        """
        wanted = parse_tag_name(name)
        graph = self._graph
        require_free(wanted, graph.lines.read(MAIN_BRANCH_ID))
        line, commit = locate(graph.lines, at, branch)
        require_data(commit)
        line = _own_line(graph.lines, line, commit)
        row = TagRow(
            name=wanted,
            tag_id=graph.ids.next_ulid(),
            commit_id=commit.commit_id,
            branch_id=line.branch_id,
            seq=commit.seq,
            created_at=graph.clock.now_us(),
            actor_id=actor_id,
        )
        try:
            # Nothing removes what a head shows, so a new tag of one waits for nobody.
            write_named(graph, row, self._require_head(row))
        except _HeadMoved:
            self._write_older(row, line, commit)
        graph.upkeep.after_publish(MAIN_BRANCH_ID)
        return _described(row, graph.lines.read(MAIN_BRANCH_ID))

    def delete(self, name: str) -> None:
        """Delete a tag; its commit stays, and cleanup may remove its data.

        Raises:
            TagNotFound: there is none of that name.
        """
        graph = self._graph
        row = _live(name, graph.lines.read(MAIN_BRANCH_ID))

        def judge(line: ManifestLine) -> None:
            if line.tags().get(name) != row:
                raise _not_found(name, line)

        write_named(graph, row.deleted(), judge)
        graph.upkeep.after_publish(MAIN_BRANCH_ID)

    def _require_head(self, row: TagRow) -> _Judge:
        def judge(line: ManifestLine) -> None:
            _require_creatable(row, line)
            its_line = line
            if row.branch_id != MAIN_BRANCH_ID:
                its_line = self._graph.lines.read(row.branch_id)
            if its_line.head.commit_id != row.commit_id:
                raise _HeadMoved

        return judge

    def _write_older(self, row: TagRow, line: ManifestLine, commit: CommitRow) -> None:
        """Write the row while no cleanup runs: one that began before would not know the tag."""
        graph = self._graph
        with holding(graph, MAINTENANCE_SCOPE) as leases:
            for pin in line.pins_at(commit.seq).values():
                if not graph.storage.has_version(pin_of(pin)):
                    raise SnapshotReclaimed(
                        f"cleanup removed the version of {pin.table_key} at commit"
                        f" {commit.commit_id}; name a newer commit",
                        graph_commit_id=commit.commit_id,
                        type=pin.table_key.partition(":")[2],
                    )
            write_named(graph, row, lambda main: _require_creatable(row, main), leases)


def tagged_pins(lines: ManifestCoordinator) -> Iterator[PinRow]:
    """The version of every table that a live tag names; some may come more than once.

    Raises:
        BranchNotFound: a line that holds a tagged commit is gone, so not all can be told.
    """
    named = {(row.branch_id, row.seq) for row in live_tags(lines.read(MAIN_BRANCH_ID))}
    for branch_id, seq in sorted(named):
        yield from lines.read(branch_id).pins_at(seq).values()


def _own_line(lines: ManifestCoordinator, line: ManifestLine, commit: CommitRow) -> ManifestLine:
    """The oldest line that has a commit as its own; those that grew from it inherited it."""
    branches = live_branches(lines.read(MAIN_BRANCH_ID))
    while line.branch_id in branches:
        parent = lines.read(branches[line.branch_id].parent_branch_id)
        held = parent.commit(commit.commit_id)
        if held is None or held.copied_from is not None:
            break
        line = parent
    return line


def _require_creatable(row: TagRow, line: ManifestLine) -> None:
    require_free(row.name, line)
    if row.branch_id not in {MAIN_BRANCH_ID, *live_branches(line)}:
        raise SnapshotReclaimed(
            f"the branch of commit {row.commit_id} was deleted meanwhile",
            graph_commit_id=row.commit_id,
        )


def _live(name: str, line: ManifestLine) -> TagRow:
    row = line.tags().get(name)
    if row is None or row.state is not BranchState.LIVE:
        raise _not_found(name, line)
    return row


def _not_found(name: str, line: ManifestLine) -> TagNotFound:
    known = ", ".join(tag.name for tag in live_tags(line)) or "none"
    return TagNotFound(f"there is no tag {name!r}; live tags: {known}", tag=name)


def _described(row: TagRow, line: ManifestLine) -> Tag:
    branch = live_branches(line).get(row.branch_id)
    return Tag(
        name=row.name,
        graph_commit_id=row.commit_id,
        graph_branch=MAIN_BRANCH if branch is None else branch.name,
        graph_manifest_version=row.seq,
        created_at=row.created_at,
        actor_id=row.actor_id,
    )
