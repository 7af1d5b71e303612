"""Where in the history the difference between a commit and a descendant of it was written.

Along first parents a line tells by its versions what was written between two of its commits. Where
the way down leaves the line at a merge, to the commit that was merged, the merged state differs
from that commit only by what the line had written since the base of that merge; so the way goes on
from the merged commit, and the line is followed from its own side of the merge to that base. If
conflicts were decided there, what the other side had written and what the merge itself wrote counts
too. So the cost is that of the changes since, however long ago the lines went apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.graph.merge.merge_base import KnownCommits

MOST_STRETCHES: Final = 64
"""In more pieces than that it is cheaper to compare with where the lines went apart."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Two commits of which the newer one is reached from the older one along first parents."""

    older: CommitRow
    newer: CommitRow

    @property
    def ids(self) -> tuple[str, str]:
        """The two commits."""
        return self.older.commit_id, self.newer.commit_id


def find_stretches(
    commits: KnownCommits, base: CommitRow, head: CommitRow
) -> tuple[Stretch, ...] | None:
    """The stretches in which every entity was written that differs between the two commits.

    `None` if the history does not tell all of it any more, or in very many pieces.

    Args:
        commits: the commits that are known.
        base: an ancestor of the head.
        head: the newer state.
    """
    found: dict[tuple[str, str], Stretch] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [Stretch(base, head)]
    while waiting:
        way = waiting.pop()
        if way.ids in asked:
            continue
        asked.add(way.ids)
        pieces = _way_down(commits, way)
        if pieces is None:
            return None
        found |= {piece.ids: piece for piece in pieces.whole if piece.older != piece.newer}
        waiting += pieces.to_follow
        if len(found) > MOST_STRETCHES:
            return None
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Pieces:
    whole: list[Stretch]
    """Along first parents."""
    to_follow: list[Stretch]
    """From a head to an ancestor, by a way that is not known yet."""


def _way_down(commits: KnownCommits, way: Stretch) -> _Pieces | None:
    """One way from the newer commit to the older one, and what else the merges on it ask for."""
    reaching = _reaching(commits, way)
    pieces = _Pieces([], [])
    row = newest = way.newer
    while row.commit_id != way.older.commit_id:
        parent = _known(commits, row.parent)
        if parent is not None and parent.commit_id in reaching:
            row = parent
            continue
        merged = _known(commits, row.merged_parent)
        facts = row.stats.get("merge", {})
        base = _known(commits, facts.get("base_commit"))
        if parent is None or merged is None or base is None or merged.commit_id not in reaching:
            return None
        pieces.whole.append(Stretch(row, newest))
        pieces.to_follow.append(Stretch(base, parent))
        if facts.get("decided_count"):
            pieces.whole.append(Stretch(parent, row))
            pieces.to_follow.append(Stretch(base, merged))
        row = newest = merged
    pieces.whole.append(Stretch(row, newest))
    return pieces


def _known(commits: KnownCommits, commit_id: str | None) -> CommitRow | None:
    return None if commit_id is None else commits.find(commit_id)


def _reaching(commits: KnownCommits, way: Stretch) -> set[str]:
    """The commits from the newer one down from which the older one is reached."""
    reaching: set[str] = {way.older.commit_id}
    for row in sorted(_above(commits, way), key=lambda row: row.height):
        if row.parent in reaching or row.merged_parent in reaching:
            reaching.add(row.commit_id)
    return reaching


def _above(commits: KnownCommits, way: Stretch) -> Iterator[CommitRow]:
    seen: set[str] = set()
    waiting = [way.newer]
    while waiting:
        row = waiting.pop()
        if row.commit_id in seen or row.height <= way.older.height:
            continue
        seen.add(row.commit_id)
        yield row
        waiting.extend(commits.parents(row))
