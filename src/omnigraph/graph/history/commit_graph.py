"""The history of a branch: which commits its head reaches, in which order, and by what cursor."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.history.commit import Commit, CommitPage
from omnigraph.graph.manifest.intent import MAINTENANCE_KINDS
from omnigraph.graph.manifest.manifest_line import COMMITS_PER_READ
from omnigraph.graph.manifest.rows import job_of
from omnigraph.graph.recovery.recovery import RECOVERY_ACTOR, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow

__all__ = ["Commit", "CommitFilter", "CommitGraph", "CommitPage", "commit_of", "commit_on"]

_FIRST_READ: Final = 64


def commit_of(row: CommitRow, *, recovered: bool = False) -> Commit:
    """A row of the manifest as callers see it."""
    return Commit(
        graph_commit_id=row.commit_id,
        graph_branch=row.authored_branch,
        graph_manifest_version=row.seq,
        parent_commit_id=row.parent,
        merged_parent_commit_id=row.merged_parent,
        actor_id=row.actor_id,
        created_at=row.authored_at,
        committed_at=row.committed_at,
        kind=row.kind,
        operation_id=row.operation_id,
        schema_hash=row.schema_hash,
        stats=dict(row.stats),
        recovered=recovered,
    )


def commit_on(line: ManifestLine, row: CommitRow) -> Commit:
    """A commit of a line as callers see it, with what a recovery did for it."""
    recovery = line.recovery(row.operation_id)
    recovered = recovery is not None and recovery.recovery_kind == Outcome.ROLLED_FORWARD
    return commit_of(row, recovered=recovered)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFilter:
    """Which commits to list; what is `None` does not matter."""

    actor: str | None = None
    kind: str | None = None
    operation: str | None = None
    maintenance: bool = True
    """Those too that change no row; with any of the above they are always among them."""

    def accepts(self, commit: Commit) -> bool:
        """Whether the commit is wanted."""
        return (
            (self.maintenance or self._is_named or commit.kind not in MAINTENANCE_KINDS)
            and (self.actor is None or commit.actor_id == self.actor or self._by_recovery(commit))
            and (self.kind is None or commit.kind == self.kind)
            and (self.operation is None or self.operation in _operations(commit))
        )

    @property
    def _is_named(self) -> bool:
        return any(given is not None for given in (self.actor, self.kind, self.operation))

    def _by_recovery(self, commit: Commit) -> bool:
        return self.actor == RECOVERY_ACTOR and commit.recovered


def _operations(commit: Commit) -> tuple[object, ...]:
    """The operation of a commit, and that of the job which it belongs to, told when it began."""
    return commit.operation_id, job_of(commit.stats)


class CommitGraph:
    """The commits that one version of a line knows, read as far as somebody looks."""

    def __init__(self, line: ManifestLine) -> None:
        self._line = line

    def walk(self, head: str) -> Iterator[Commit]:
        """Everything reachable from a commit, children before parents, ties by id descending.

        Down to the newest merge there is one chain, which is read by and by; what a merge joined
        is sorted, for which all commits of the line are needed.
        """
        start = self._line.commit(head)
        upto = -1 if start is None or start.copied_from is not None else start.seq
        wanted: str | None = head
        for row in self._chain(upto):
            if row.commit_id != wanted or row.merged_parent is not None:
                break
            yield commit_of(row, recovered=row.commit_id in self._recovered)
            wanted = row.parent
        if wanted is not None:
            yield from _Reachable(self._line, self._recovered).walk(wanted)

    def _chain(self, upto: int) -> Iterator[CommitRow]:
        """The line's own commits from a number down, each the parent of the one before."""
        count = _FIRST_READ
        while upto >= 0:
            yield from self._line.commits_between(upto - count, upto)
            upto -= count
            count = min(count * 4, COMMITS_PER_READ)

    @cached_property
    def _recovered(self) -> frozenset[str | None]:
        return frozenset(
            row.graph_commit_id
            for row in self._line.recoveries()
            if row.recovery_kind == Outcome.ROLLED_FORWARD
        )

    def page(self, wanted: CommitFilter, *, limit: int, cursor: str | None) -> CommitPage:
        """Up to `limit` commits after the cursor.

        A cursor holds the head that its first page started from, so commits that land between two
        pages change nothing.

        Raises:
            InvalidArgument: the limit is not positive, or the cursor is not one of this line.
        """
        if not isinstance(limit, int) or limit < 1:
            raise InvalidArgument(
                f"limit must be a number of at least 1, not {limit!r}", argument="limit"
            )
        head, after = self._cursor(cursor)
        walk = self.walk(head)
        if after is not None and not any(commit.graph_commit_id == after for commit in walk):
            raise _bad_cursor(cursor)
        commits: list[Commit] = []
        for commit in walk:
            if not wanted.accepts(commit):
                continue
            if len(commits) == limit:
                return CommitPage(
                    commits=tuple(commits), next_cursor=f"{head}.{commits[-1].graph_commit_id}"
                )
            commits.append(commit)
        return CommitPage(commits=tuple(commits))

    def _cursor(self, cursor: str | None) -> tuple[str, str | None]:
        if cursor is None:
            return self._line.head.commit_id, None
        head, dot, after = cursor.partition(".")
        if not dot or not all(self._line.commit(commit_id) for commit_id in (head, after)):
            raise _bad_cursor(cursor)
        return head, after


class _Reachable:
    """The commits that are reachable from one, in order, with all commits of the line at hand."""

    def __init__(self, line: ManifestLine, recovered: frozenset[str | None]) -> None:
        self._rows: dict[str, CommitRow] = {row.commit_id: row for row in line.commits()}
        self._recovered = recovered

    def walk(self, head: str) -> Iterator[Commit]:
        """The commits, children before parents, ties by id descending."""
        if head not in self._rows:
            return  # A merge copies a bounded number of commits, and this one is older.
        reachable = self._reachable(head)
        waiting = dict.fromkeys(reachable, 0)
        for commit_id in reachable:
            for parent in self._parents(commit_id):
                waiting[parent] += 1
        ready = [_Descending(head)]
        while ready:
            row = self._rows[heapq.heappop(ready).text]
            yield commit_of(row, recovered=row.commit_id in self._recovered)
            for parent in self._parents(row.commit_id):
                waiting[parent] -= 1
                if not waiting[parent]:
                    heapq.heappush(ready, _Descending(parent))

    def _reachable(self, head: str) -> set[str]:
        reachable: set[str] = set()
        waiting = [head]
        while waiting:
            commit_id = waiting.pop()
            if commit_id not in reachable:
                reachable.add(commit_id)
                waiting.extend(self._parents(commit_id))
        return reachable

    def _parents(self, commit_id: str) -> list[str]:
        """Parents that the line still knows: a merge copies a bounded number of commits."""
        row = self._rows[commit_id]
        return [parent for parent in (row.parent, row.merged_parent) if parent in self._rows]


class _Descending:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Descending) -> bool:
        return self.text > other.text


def _bad_cursor(cursor: str | None) -> InvalidArgument:
    return InvalidArgument(
        f"the cursor or page token {cursor!r} does not belong to the history of this branch; start"
        " again without one",
        argument="cursor",
    )
