"""`graph.changes` of a remote graph: polls, whole commits one after the other, baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.client import calls
from omnigraph.client.baseline_lines import BaselineLines
from omnigraph.client.followed_blocks import FollowedPages
from omnigraph.client.remote_diff import filter_of
from omnigraph.graph.changes.change_pages import DEFAULT_PAGE
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from omnigraph.client.connection import Connection
    from omnigraph.graph.changes.change_pages import Baseline, ChangePage, FollowedBlock


class RemoteChanges:
    """`graph.changes`: the change feed."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    def poll(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        page_token: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> ChangePage:
        """A page of what happened on a branch; as `Graph.changes.poll`."""
        return self._http.send(
            calls.poll(
                branch=branch,
                cursor=cursor,
                start=start,
                page_token=page_token,
                kinds=kinds,
                types=types,
                ops=ops,
                limit=limit,
            )
        )

    def follow(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[FollowedBlock]:
        """What happened on a branch up to now, one whole commit after the other."""
        wanted = filter_of(kinds, types, ops)
        pages = FollowedPages(cursor, start)
        while pages.asking is not None:
            asked = calls.poll(branch=branch, cursors=True, **pages.asking, **wanted)
            yield from pages.blocks(self._http.send(asked))

    def baseline(
        self,
        *,
        branch: str = MAIN_BRANCH,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> RemoteBaseline:
        """Every entity of a branch's head as NDJSON, and the cursor to go on from."""
        stream = self._http.stream(calls.baseline(branch=branch, kinds=kinds, types=types, ops=ops))
        chunks = stream.__enter__()

        def read() -> Iterator[bytes]:
            try:
                yield from chunks
            finally:
                stream.__exit__(None, None, None)

        return RemoteBaseline(read())


class RemoteBaseline:
    """The bytes of a baseline; complete only when its last line has come."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._lines = BaselineLines()

    @property
    def baseline(self) -> Baseline:
        """The commit and the cursor, which the last line tells.

        Raises:
            InvalidArgument: the stream has not been read to its end.
        """
        return self._lines.baseline

    def __iter__(self) -> Iterator[bytes]:
        """The chunks.

        Raises:
            ServerUnavailable: the stream ended without its last record; discard what came.
        """
        for chunk in self._chunks:
            self._lines.see(chunk)
            yield chunk
        self._lines.require_complete()


class AsyncBaseline:
    """The bytes of a baseline, for `async for`; complete only when its last line has come."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._lines = BaselineLines()

    @property
    def baseline(self) -> Baseline:
        """The commit and the cursor; as of `RemoteBaseline`."""
        return self._lines.baseline

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The chunks; as of `RemoteBaseline`."""
        async for chunk in self._chunks:
            self._lines.see(chunk)
            yield chunk
        self._lines.require_complete()
