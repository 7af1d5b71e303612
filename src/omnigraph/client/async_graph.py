"""`AsyncGraph`: a graph behind a server, with the names of an open one as coroutines.

What a name takes and gives is that of the call it is bound to, which a `RemoteGraph` sends too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from omnigraph.client import calls
from omnigraph.client.async_connection import AsyncConnection
from omnigraph.client.commit_pieces import PIECE, CommitPieces
from omnigraph.client.endpoint import Endpoint
from omnigraph.client.followed_blocks import FollowedPages
from omnigraph.client.load_input import read_lines
from omnigraph.client.remote_blob import open_async_blob
from omnigraph.client.remote_changes import AsyncBaseline
from omnigraph.client.remote_diff import AsyncChangeSet, filter_of
from omnigraph.client.remote_parts import named_branch
from omnigraph.client.storage_names import StorageNames
from omnigraph.client.table_lines import table_lines
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang import compile_schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable
    from types import TracebackType

    from omnigraph.client.decoding import RemoteBranch
    from omnigraph.client.load_input import LoadSource
    from omnigraph.client.remote_blob import AsyncBlob
    from omnigraph.graph.changes.change_pages import FollowedBlock
    from omnigraph.graph.history.commit import Commit, CommitPage
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.prepared_query import PreparedQuery
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.lang import Catalog


def connect_async(
    url: str, *, graph: str, token: str | None = None, timeout_s: float | None = None
) -> AsyncGraph:
    """A graph behind a server for an event loop; the arguments are those of `connect`.

    Raises:
        InvalidArgument: the address or the id is none.
    """
    endpoint = Endpoint.parse(url, graph=graph, token=token, timeout_s=timeout_s)
    return AsyncGraph(AsyncConnection(endpoint.with_found_token()))


class AsyncGraph(StorageNames):
    """A graph behind a server; an async context manager, `close()` is safe twice."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._http = connection
        self.query = connection.bind(calls.query)
        self.explain = connection.bind(calls.explain)
        self.mutate = connection.bind(calls.mutate)
        self.snapshot = connection.bind(calls.snapshot)
        self.branches = AsyncBranches(connection)
        self.tags = AsyncTags(connection)
        self.commits = AsyncCommits(connection)
        self.changes = AsyncChanges(connection)
        self.schema = AsyncSchema(connection)
        self.queries = AsyncQueries(connection)

    def prepare(
        self, source: str, name: str | None = None
    ) -> PreparedQuery[Awaitable[QueryResult]]:
        """A read query to call with parameters, and to await; nothing is sent here."""
        from omnigraph.graph.prepared_query import PreparedQuery

        return PreparedQuery(self.query, source, name)

    async def load(
        self,
        source: LoadSource,
        *,
        mode: Literal["append", "merge", "update", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        idempotency_key: str | None = None,
        **others: object,
    ) -> JobReport:
        """Load nodes and edges as one commit; what is to be read or converted is in a thread.

        Raises:
            as `RemoteGraph.load`.
        """
        calls.refuse_load_options(others)
        if isinstance(source, Mapping):
            catalog = await self.schema.catalog()
            content = await asyncio.to_thread(table_lines, catalog, source, mode=mode)
        else:
            content = await asyncio.to_thread(read_lines, source)
        return await self._http.send(
            calls.load(
                content, mode=mode, branch=branch, from_=from_, idempotency_key=idempotency_key
            )
        )

    def export(
        self,
        *,
        types: Iterable[str] | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> AsyncIterator[bytes]:
        """The graph as NDJSON in the load format; the server is asked when it is iterated."""
        return self._http.stream(calls.export(types=types, branch=branch, snapshot=snapshot))

    async def blob(
        self,
        kind: Literal["node", "edge"],
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> AsyncBlob:
        """A reader of one blob value."""
        return await open_async_blob(
            self._http, calls.blob(kind, type, id, property, branch=branch, snapshot=snapshot)
        )

    async def refresh(self) -> None:
        """Every request sees the newest heads already."""

    async def diff(
        self,
        from_: ReadTarget,
        to: ReadTarget,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> AsyncChangeSet:
        """What differs between two states: branches, commits or tags."""
        wanted = filter_of(kinds, types, ops)
        first = await self._http.send(calls.diff(from_, to, **wanted))
        return AsyncChangeSet(_first=first, _filter=wanted, _http=self._http)

    async def close(self) -> None:
        """Close the connections; safe twice."""
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncBranches:
    """`graph.branches`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.create = connection.bind(calls.create_branch)
        self.list = connection.bind(calls.list_branches)
        self.delete = connection.bind(calls.delete_branch)
        self.merge = connection.bind(calls.merge)
        self.merge_plan = connection.bind(calls.merge_plan)

    async def get(self, name: str) -> RemoteBranch:
        """One live branch.

        Raises:
            BranchNotFound: there is none of that name.
        """
        return named_branch(await self.list(), name)


class AsyncTags:
    """`graph.tags`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.create = connection.bind(calls.create_tag)
        self.list = connection.bind(calls.list_tags)
        self.get = connection.bind(calls.get_tag)
        self.delete = connection.bind(calls.delete_tag)


class AsyncCommits:
    """`graph.commits`; `async for` gives everything that the head of `main` reaches."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._http = connection
        self.get = connection.bind(calls.get_commit)
        self.changes = connection.bind(calls.commit_changes)
        self.revert = connection.bind(calls.revert)

    async def list(
        self,
        *,
        branch: str = MAIN_BRANCH,
        actor: str | None = None,
        kind: str | None = None,
        operation: str | None = None,
        all: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> CommitPage:
        """A page of what the branch's head reaches, newest first; a large one in several pieces."""
        pieces = CommitPieces(limit, cursor)
        while pieces.asking is not None:
            asked = calls.list_commits(
                branch=branch,
                actor=actor,
                kind=kind,
                operation=operation,
                all=all,
                **pieces.asking,
            )
            pieces.take(await self._http.send(asked))
        return pieces.page

    async def __aiter__(self) -> AsyncIterator[Commit]:
        cursor: str | None = None
        while True:
            page = await self.list(all=True, limit=PIECE, cursor=cursor)
            for commit in page.commits:
                yield commit
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncChanges:
    """`graph.changes`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._http = connection
        self.poll = connection.bind(calls.poll)

    async def follow(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> AsyncIterator[FollowedBlock]:
        """What happened on a branch up to now, one whole commit after the other."""
        wanted = filter_of(kinds, types, ops)
        pages = FollowedPages(cursor, start)
        while pages.asking is not None:
            asked = calls.poll(branch=branch, cursors=True, **pages.asking, **wanted)
            for block in pages.blocks(await self._http.send(asked)):
                yield block

    def baseline(
        self,
        *,
        branch: str = MAIN_BRANCH,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> AsyncBaseline:
        """Every entity of a branch's head as NDJSON; the server is asked when it is iterated."""
        asked = calls.baseline(branch=branch, kinds=kinds, types=types, ops=ops)
        return AsyncBaseline(self._http.stream(asked))


class AsyncSchema:
    """`graph.schema`; what is an attribute of an open graph's is a coroutine here."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.show = connection.bind(calls.schema_source)
        self.hash = connection.bind(calls.schema_hash)
        self.plan = connection.bind(calls.plan_schema)
        self.apply = connection.bind(calls.apply_schema)

    async def source(self) -> str:
        """The `.pg` text as it was accepted."""
        return await self.show()

    async def catalog(self) -> Catalog:
        """What the source means; ids of types are known to storage alone."""
        return compile_schema(await self.show())


class AsyncQueries:
    """`graph.queries`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.list = connection.bind(calls.list_queries)
        self.get = connection.bind(calls.get_query)
        self.invoke = connection.bind(calls.invoke)
