"""The commit from which two heads went apart, and what one of them has that the other has not.

Commits are looked at from the highest down, so descendants come before their ancestors and what is
known of a commit is final when its turn comes. Only commits above the base are read.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SnapshotReclaimed
from omnigraph.graph.merge.merge_result import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence, Set

    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow

_READ_AHEAD: Final = 256


class KnownCommits:
    """The commits that some lines know, read a few at a time."""

    def __init__(self, lines: Sequence[ManifestLine]) -> None:
        self._lines = lines
        self._has_newest = False
        self._rows: dict[str, CommitRow] = {line.head.commit_id: line.head_commit for line in lines}

    def find(self, commit_id: str) -> CommitRow | None:
        """The commit, or `None` if it is older than what a merge has copied.

        What a line holds itself is preferred to what another one has copied: a copy tells of the
        branch that it came from, which may be gone although the commit is not.
        """
        if commit_id not in self._rows and not self._has_newest:
            self._has_newest = True
            for line in self._lines:
                self._read_around(line, line.head_commit)
        if commit_id not in self._rows:
            for line in self._lines:
                row = line.commit(commit_id)
                if row is not None:
                    self._read_around(line, row)
                    break
        return self._rows.get(commit_id)

    def _read_around(self, line: ManifestLine, row: CommitRow) -> None:
        if row.copied_from is None:
            self._keep(line.commits_between(row.seq - _READ_AHEAD, row.seq))
            return
        copied = line.copied_commits()
        self._keep(copied)
        for other in self._lines:
            if other is not line:
                self._keep(other.own_commits([each.commit_id for each in copied]))

    def _keep(self, rows: Iterable[CommitRow]) -> None:
        for row in rows:
            known = self._rows.get(row.commit_id)
            if known is None or known.copied_from is not None:
                self._rows[row.commit_id] = row

    def parents(self, row: CommitRow) -> Iterator[CommitRow]:
        """The parents that are known."""
        for commit_id in (row.parent, row.merged_parent):
            parent = None if commit_id is None else self.find(commit_id)
            if parent is not None:
                yield parent


class _Seen(IntFlag):
    OURS = 1
    THEIRS = 2
    BOTH = 3
    BELOW_BASE = 4


@dataclass(frozen=True, slots=True)
class Entrances:
    """The first states of one side that show what it took from commits that cannot be read."""

    commits: tuple[CommitRow, ...] = ()
    is_whole: bool = True
    """Whether they show all of it: nothing of it can have gone on the way to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How two heads stand to each other."""

    base: CommitRow | None
    """The common ancestor to compare with; `None` if nothing of one can be read any more."""
    shown_by: CommitRow | None
    """The commit whose state is that of the base: the base itself while its own can be read."""
    only_theirs: tuple[CommitRow, ...]
    """What our head does not reach, the highest first."""
    is_cautious: bool = False
    """A better base cannot be read any more: what both sides touched since may not be compared."""
    entrances: tuple[Entrances, Entrances] = (Entrances(), Entrances())
    """Where what cannot be read came into ours and into theirs."""


def find_divergence(
    commits: KnownCommits,
    ours: CommitRow,
    theirs: CommitRow,
    is_readable: Callable[[CommitRow], bool],
) -> Divergence:
    """The base of two heads, and the commits of the second that the first does not reach.

    Of several bases (criss-cross) the one that was written last is taken. A common ancestor whose
    data is gone with its branch is read where another branch was forwarded to it. If none was, it
    cannot be compared with: the next ones below it are looked for, and the merge has to be
    cautious.
    """
    walk = _Walk(commits)
    walk.mark(ours, _Seen.OURS)
    walk.mark(theirs, _Seen.THEIRS)
    bases: list[tuple[CommitRow, CommitRow]] = []
    only: dict[_Seen, list[CommitRow]] = {_Seen.OURS: [], _Seen.THEIRS: []}
    hidden: set[str] = set()
    twins = _Twins(is_readable)
    while walk.has_work:
        row, seen = walk.take()
        twins.note(row)
        if seen in only:
            only[seen].append(row)
        if seen == _Seen.BOTH:
            shown_by = twins.readable(row)
            if shown_by is not None:
                bases.append((row, shown_by))
                seen |= _Seen.BELOW_BASE
            else:
                hidden.add(row.commit_id)
        for parent in commits.parents(row):
            walk.mark(parent, seen)
    base, shown_by = max(
        bases, key=lambda each: (each[0].authored_at, each[0].commit_id), default=(None, None)
    )
    return Divergence(
        base=base,
        shown_by=shown_by,
        only_theirs=tuple(only[_Seen.THEIRS]),
        is_cautious=bool(hidden),
        entrances=(
            _entrances(only[_Seen.OURS], hidden, is_readable),
            _entrances(only[_Seen.THEIRS], hidden, is_readable),
        ),
    )


def _entrances(
    side: Sequence[CommitRow], hidden: Set[str], is_readable: Callable[[CommitRow], bool]
) -> Entrances:
    """Where hidden history came into a side, whose commits are given the highest first."""
    unread = set(hidden)
    commits: list[CommitRow] = []
    is_whole = True
    for row in reversed(side):
        if unread.isdisjoint((row.parent, row.merged_parent)):
            continue
        is_merge = row.merged_parent in hidden and row.parent not in unread
        is_whole &= is_merge and not row.stats.get("merge", {}).get("decided_count")
        if is_readable(row):
            commits.append(row)
        else:
            unread.add(row.commit_id)
    return Entrances(tuple(commits), is_whole)


@dataclass(frozen=True, slots=True)
class _Twins:
    """Commits that show the same state, because one is a fast-forward to the other."""

    is_readable: Callable[[CommitRow], bool]
    _forwards: dict[str, list[CommitRow]] = field(default_factory=dict)
    """By the commit that was merged."""

    def note(self, row: CommitRow) -> None:
        facts = row.stats.get("merge", {})
        is_forward = facts.get("outcome") == Outcome.FAST_FORWARD
        if row.merged_parent is not None and is_forward and not facts.get("decided_count"):
            self._forwards.setdefault(row.merged_parent, []).append(row)

    def readable(self, row: CommitRow) -> CommitRow | None:
        """The commit, or one that shows the same, whose state can be read."""
        if self.is_readable(row):
            return row
        found = (self.readable(each) for each in self._forwards.get(row.commit_id, ()))
        return next((each for each in found if each is not None), None)


@dataclass(slots=True)
class _Walk:
    commits: KnownCommits
    _waiting: list[tuple[int, str]] = field(default_factory=list)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _open: int = 0
    """How many of the waiting are not below a base."""

    @property
    def has_work(self) -> bool:
        return self._open > 0

    def mark(self, row: CommitRow, seen: _Seen) -> None:
        before = self._seen.get(row.commit_id)
        now = seen if before is None else before | seen
        if before is None:
            heapq.heappush(self._waiting, (-row.height, row.commit_id))
        self._seen[row.commit_id] = now
        was_open = before is not None and not before & _Seen.BELOW_BASE
        is_open = not now & _Seen.BELOW_BASE
        self._open += is_open - was_open

    def take(self) -> tuple[CommitRow, _Seen]:
        _, commit_id = heapq.heappop(self._waiting)
        seen = self._seen[commit_id]
        if not seen & _Seen.BELOW_BASE:
            self._open -= 1
        row = self.commits.find(commit_id)
        if row is None:  # It was found when it was marked.
            raise SnapshotReclaimed(f"the history of commit {commit_id} is gone")
        return row, seen
