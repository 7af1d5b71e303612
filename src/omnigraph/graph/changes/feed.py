"""The change feed of a branch: the changes of its commits, commit by commit, each once.

A poll goes from a cursor to the head as it is when the poll begins, in pages. A cursor stands
between two commits, never inside one; it keeps nothing alive, and nothing is kept for it. Delivery
is at least once: a consumer stores the cursor with what it has applied.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    BranchNotFound,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitNotFound,
    InvalidArgument,
    SnapshotReclaimed,
)
from omnigraph.graph.changes.change_pages import ChangeBlock, ChangePage, FollowedBlock
from omnigraph.graph.changes.commit_changes import PageRoom, cause_of, require_page_size
from omnigraph.graph.changes.diff import Difference, place_of
from omnigraph.graph.changes.tokens import (
    ChangeToken,
    TokenKind,
    filter_digest,
    read_token,
    rejected,
    write_token,
)
from omnigraph.graph.history.commit_graph import commit_of
from omnigraph.graph.history.snapshot import snapshot_at
from omnigraph.graph.history.targets import locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.diff import ChangePlace
    from omnigraph.graph.changes.entity_change import ChangeFilter, EntityChange
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow

MOST_COMMITS_PER_POLL: Final = 128
_AFTER: Final = "after:"

_NO_CONTENT: Final = frozenset({"genesis", "index", "optimize", "recovery", "table_settings"})
"""Kinds of commits that change no entity."""


class ChangeFeed:
    """The feed of one branch, through one filter."""

    def __init__(self, graph: GraphCoordinator, branch: str, wanted: ChangeFilter) -> None:
        self._graph = graph
        self._branch = branch
        self._wanted = wanted
        self._line: ManifestLine = graph.lines.read(graph.branch_id(branch))
        # Types are meant as they are called now; older commits may not have them, or call them
        # otherwise.
        self._tables = wanted.tables(graph.schemas.load(self._line.schema.schema_hash).catalog)

    def poll(
        self, *, cursor: str | None, start: str | None, page_token: str | None, limit: int
    ) -> ChangePage:
        """A page of a poll.

        Raises:
            InvalidArgument: more than one place to start at, or one that is none.
            ChangeCursorRejected: the cursor or token is not one of this branch and filter.
            ChangeFeedGap: cleanup removed what comes next.
            ChangeSchemaBoundary: the schema changed so that no comparison is possible.
        """
        require_page_size(limit)
        if sum(given is not None for given in (cursor, start, page_token)) > 1:
            raise InvalidArgument(
                "give one of cursor, start and page_token: each tells where to begin",
                argument="cursor",
            )
        if page_token is not None:
            return self._page(self._read(page_token, TokenKind.FEED_PAGE), limit)
        if cursor is not None:
            token = self._read(cursor, TokenKind.CURSOR)
        else:
            token = self._token(TokenKind.CURSOR, self._start(start))
        cut = self._cut(token.commit_id)
        return self._page(replace(token, kind=TokenKind.FEED_PAGE, cut=cut), limit)

    def follow(self, *, cursor: str | None, start: str | None) -> Iterator[FollowedBlock]:
        """Whole commits up to the head as it is now, each with its cursor; holds one commit.

        Raises:
            as `poll`.
        """
        if cursor is not None and start is not None:
            raise InvalidArgument("give a cursor or a start, not both", argument="cursor")
        if cursor is not None:
            told = self._read(cursor, TokenKind.CURSOR).commit_id
        else:
            told = self._start(start)
        for row, found in self._commits(told, self._line.head.seq):
            yield FollowedBlock(
                cause=cause_of(commit_of(row)),
                changes=tuple(found),
                cursor=self.cursor_at(row.commit_id),
            )

    def first_cursor(self, *, cursor: str | None, start: str | None) -> str:
        """The cursor to begin with: the one that is given, or the one at the start.

        Raises:
            InvalidArgument: both are given, or the start is none.
            ChangeCursorRejected: the cursor is not one of this branch and filter.
        """
        if cursor is None:
            return self.cursor_at(self._start(start))
        if start is not None:
            raise InvalidArgument("give a cursor or a start, not both", argument="cursor")
        self._place(cursor)
        return cursor

    def cursor_ahead(
        self, cursor: str, most_commits: int | None = None, *, until: str | None = None
    ) -> str:
        """The cursor behind the next commits, so many or all up to a cursor; the same at the end.

        Raises:
            ChangeCursorRejected: a cursor is not one of this branch and filter.
        """
        done, upto = self._place(cursor), self._line.head.seq
        if until is not None:
            upto = self._place(until)
        if most_commits is not None:
            upto = min(upto, done + most_commits)
        row = self._line.commit_at(upto) if upto > done else None
        return cursor if row is None else self.cursor_at(row.commit_id)

    def _place(self, cursor: str) -> int:
        """The number of the commit that a cursor stands behind; -1 for the beginning."""
        return self._seq(self._read(cursor, TokenKind.CURSOR).commit_id)

    def stretches(self, cursor: str, until: str, most: int) -> list[tuple[str, str]]:
        """The way from one cursor to another in stretches of whole commits, at most so many."""
        done, end = self._place(cursor), self._place(until)
        if done >= end:
            return []
        step = -(-(end - done) // most)
        numbers = list(range(done + step, end, step))
        ends = self._line.commits_numbered(numbers) if numbers else []
        cursors = [cursor, *(self.cursor_at(row.commit_id) for row in ends), until]
        return list(pairwise(cursors))

    def commits(
        self, cursor: str, until: str
    ) -> Iterator[tuple[CommitRow, Iterator[EntityChange]]]:
        """The commits between two cursors, each with its changes, which are found one by one.

        Raises:
            as `poll`, when the iteration comes to it.
        """
        told = self._read(cursor, TokenKind.CURSOR).commit_id
        return self._commits(told, self._place(until))

    def _commits(self, told: str, end: int) -> Iterator[tuple[CommitRow, Iterator[EntityChange]]]:
        """The commits behind one of them, up to a number."""
        done = self._seq(told)
        while done < end:
            upto = min(done + MOST_COMMITS_PER_POLL, end)
            for row in reversed(self._line.commits_between(done, upto)):
                yield row, self._changes(row, None, told)
                told = row.commit_id
            done = upto

    def cursor_at(self, commit_id: str) -> str:
        """The cursor behind a commit of the branch."""
        return write_token(self._graph.graph_id, self._token(TokenKind.CURSOR, commit_id))

    def _token(self, kind: TokenKind, commit_id: str) -> ChangeToken:
        return ChangeToken(
            kind=kind,
            branch_id=self._line.branch_id,
            commit_id=commit_id,
            filter_digest=filter_digest(self._wanted),
        )

    def _read(self, text: str, kind: TokenKind) -> ChangeToken:
        token = read_token(self._graph.graph_id, text, kind, self._wanted)
        if token.branch_id != self._line.branch_id:
            raise rejected(f"it belongs to another branch than {self._branch!r} is now")
        return token

    def _start(self, start: str | None) -> str:
        """The commit behind which a poll begins; empty for the very beginning."""
        if start is None or start == "now":
            return self._line.head.commit_id
        if start == "beginning":
            return ""
        row = None
        if isinstance(start, str) and start.startswith(_AFTER):
            row = self._target(start.removeprefix(_AFTER))
        if row is None:
            raise InvalidArgument(
                f"start is 'now', 'beginning' or '{_AFTER}' and a commit of the branch"
                f" {self._branch!r}, by its id, a tag, its number or a time, not {start!r}",
                argument="start",
            )
        return row.commit_id

    def _target(self, text: str) -> CommitRow | None:
        """The commit of the branch that a read target names, if it is one of the branch."""
        try:
            _, found = locate(self._graph.lines, text, self._branch)
        except (BranchNotFound, CommitNotFound):
            return None
        return self._on_line(found.commit_id)

    def _on_line(self, commit_id: str) -> CommitRow | None:
        row = self._line.commit(commit_id)
        return None if row is None or row.copied_from is not None else row

    def _seq(self, commit_id: str) -> int:
        """The number of a commit that a token names; -1 for the beginning."""
        if not commit_id:
            return -1
        row = self._on_line(commit_id)
        if row is None:
            raise rejected(f"the branch {self._branch!r} has no commit {commit_id}")
        return row.seq

    def _cut(self, commit_id: str) -> str:
        """Up to which commit a poll goes: the head, or as many as one poll walks."""
        upto = min(self._line.head.seq, self._seq(commit_id) + MOST_COMMITS_PER_POLL)
        row = self._line.commit_at(upto)
        return self._line.head.commit_id if row is None else row.commit_id

    def _page(self, token: ChangeToken, limit: int) -> ChangePage:
        """The blocks behind a place: a commit that is told whole, or a change of the next one."""
        done, place = self._seq(token.commit_id), token.place
        cut = self._seq(token.cut or token.commit_id)
        room = PageRoom(limit)
        blocks: list[ChangeBlock] = []
        commits = self._line.commits_between(done, cut) if cut > done else []
        told = token.commit_id
        for row in reversed(commits):
            if room.is_full:
                return self._cut_off(blocks, replace(token, commit_id=told, place=None))
            try:
                changes = list(room.take(self._changes(row, place, told)))
            except (ChangeFeedGap, ChangeSchemaBoundary):
                if not blocks:
                    raise
                # What can be told is told first; the next page begins with the error.
                return self._cut_off(blocks, replace(token, commit_id=told, place=None))
            if room.has_more and not changes:
                return self._cut_off(blocks, replace(token, commit_id=told, place=None))
            place = None
            cursor = None if room.has_more else self.cursor_at(row.commit_id)
            blocks.append(
                ChangeBlock(cause=cause_of(commit_of(row)), changes=tuple(changes), cursor=cursor)
            )
            if room.has_more:
                return self._cut_off(
                    blocks, replace(token, commit_id=told, place=place_of(changes[-1]))
                )
            told = row.commit_id
        return ChangePage(
            blocks=tuple(blocks),
            cursor=self.cursor_at(told),
            caught_up=told == self._line.head.commit_id,
        )

    def _cut_off(self, blocks: list[ChangeBlock], token: ChangeToken) -> ChangePage:
        return ChangePage(
            blocks=tuple(blocks), next_page_token=write_token(self._graph.graph_id, token)
        )

    def _changes(
        self, row: CommitRow, place: ChangePlace | None, told: str
    ) -> Iterator[EntityChange]:
        if row.parent is None or row.kind in _NO_CONTENT:
            return
        try:
            parent = self._line.commit_at(row.seq - 1)
            if parent is None:
                raise SnapshotReclaimed(f"the parent of commit {row.commit_id} is gone")
            old = snapshot_at(self._graph, self._line, parent)
            new = snapshot_at(self._graph, self._line, row)
            yield from Difference(
                self._graph.tables, old, new, self._wanted, tables=self._tables
            ).changes(place)
        except SnapshotReclaimed as gone:
            raise ChangeFeedGap(
                f"cleanup removed what the changes of commit {row.commit_id} are told from; take a"
                " baseline and go on from its cursor",
                cursor=self.cursor_at(told) if told else None,
                first_unreadable_commit_id=row.commit_id,
            ) from gone
        except ChangeSchemaBoundary as crossed:
            raise ChangeSchemaBoundary(
                f"commit {row.commit_id} changed the type {crossed.details['type_name']}, so its"
                " changes cannot be told; take a baseline and go on from its cursor",
                **crossed.details | {"cursor": self.cursor_at(told) if told else None},
            ) from crossed
