"""The history that two lines have between them, and the states that its commits stand for.

A commit is told by the line that made it, by lines that grew from it, and as a copy by those that
merged it. Its state can be read while one of the first two kinds lives.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound, SnapshotReclaimed
from omnigraph.graph.history.snapshot import snapshot_at
from omnigraph.graph.history.targets import home_of
from omnigraph.graph.merge.merge_base import KnownCommits, find_divergence
from omnigraph.graph.merge.stretches import find_stretches
from omnigraph.storage.handles import Pin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.graph.merge.merge_base import Divergence


@contextmanager
def telling_deleted(lines: ManifestCoordinator, used: Mapping[str, ManifestLine]) -> Iterator[None]:
    """Say of data that is gone that its branch was deleted meanwhile, if it was.

    Raises:
        BranchNotFound: one of the branches is gone.
        SnapshotReclaimed: the data is, for another reason.
    """
    try:
        yield
    except SnapshotReclaimed as error:
        live = lines.live_branch_ids()
        for name, line in used.items():
            if line.branch_id not in live:
                raise BranchNotFound(
                    f"the branch {name!r} was deleted meanwhile; nothing was changed", branch=name
                ) from error
        raise


class CommitStates:
    """The commits of a target and a source, as far as either knows them."""

    def __init__(self, graph: GraphCoordinator, target: ManifestLine, source: ManifestLine) -> None:
        self._graph = graph
        self._target = target
        self._source = source
        self._commits = KnownCommits([target, source])
        self._opened: dict[str, Snapshot] = {}

    @cached_property
    def divergence(self) -> Divergence:
        """How the two heads stand to each other."""
        return find_divergence(
            self._commits,
            self._target.head_commit,
            self._source.head_commit,
            self._is_readable,
        )

    @property
    def entrances(self) -> list[list[Snapshot]]:
        """Groups of states, each of which shows all that came from history that cannot be read."""
        ours, theirs = self.divergence.entrances
        groups = [each.commits for each in (ours, theirs) if each.is_whole]
        return [
            [self.open(row) for row in commits]
            for commits in groups or [ours.commits + theirs.commits]
        ]

    def open(self, commit: CommitRow) -> Snapshot:
        """The state of a commit that the target, the source or a third branch holds.

        Raises:
            SnapshotReclaimed: no line holds it any more.
        """
        if commit.commit_id not in self._opened:
            line = self._home(commit)
            if line is None:
                raise SnapshotReclaimed(
                    f"the data of commit {commit.commit_id} went with its branch",
                    graph_commit_id=commit.commit_id,
                )
            self._opened[commit.commit_id] = snapshot_at(self._graph, line, commit)
        return self._opened[commit.commit_id]

    def written_since(
        self, base: CommitRow, head: CommitRow
    ) -> list[tuple[Snapshot, Snapshot]] | None:
        """Stretches in which everything was written that differs between a commit and an ancestor.

        `None` if that is not known any more.
        """
        stretches = find_stretches(self._commits, base, head)
        if stretches is None:
            return None
        ends = {row.commit_id: row for each in stretches for row in (each.older, each.newer)}
        if any(self._home(row) is None for row in ends.values()):
            return None
        states = {each: self.open(row) for each, row in ends.items()}
        return [(states[each.older.commit_id], states[each.newer.commit_id]) for each in stretches]

    def _is_readable(self, commit: CommitRow) -> bool:
        """Whether the source can be compared with a commit: cleanup may have removed versions."""
        line = self._home(commit)
        if line is None:
            return False
        if commit.commit_id == line.head.commit_id:
            return True  # What a head shows is kept.
        theirs = set(_pins(self.open(self._source.head_commit)))
        return all(
            self._graph.storage.has_version(pin)
            for pin in _pins(self.open(commit))
            if pin not in theirs
        )

    def _home(self, commit: CommitRow) -> ManifestLine | None:
        """The line that holds the data of a commit, if there is one."""
        if commit.copied_from is not None:
            line, held = home_of(self._graph.lines, self._target, commit)
            return line if held.copied_from is None else None
        own = self._target.commit(commit.commit_id)
        return self._target if own is not None and own.copied_from is None else self._source


def _pins(snapshot: Snapshot) -> Iterator[Pin]:
    for table in snapshot.tables:
        yield Pin(
            location=table.dataset_path,
            branch=table.native_dataset_branch,
            version=table.published_dataset_version,
        )
