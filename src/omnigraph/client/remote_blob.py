"""`RemoteBlob` and `AsyncBlob`: one blob value behind a server, read in ranges.

The first question pins the commit and the entity tag; every range is asked of that commit, with the
tag as its condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.client import calls
from omnigraph.errors import InvalidArgument, OmnigraphError
from omnigraph.graph.blobs.blob_range import checked_end
from omnigraph.limits import MAX_BLOB_READ_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from omnigraph.client.async_connection import AsyncConnection
    from omnigraph.client.call import Call
    from omnigraph.client.connection import Connection
    from omnigraph.client.decoding import BlobFacts


def open_remote_blob(connection: Connection, selector: calls.BlobQuery) -> RemoteBlob:
    """The blob that a selector means.

    Raises:
        as `Graph.blob`.
    """
    try:
        facts = connection.send(calls.blob_head(selector))
    except OmnigraphError:
        # An answer to HEAD has no body: the same question again tells why.
        connection.send(calls.blob_refusal(selector))
        raise
    return RemoteBlob(connection, selector.at(facts.graph_commit_id), facts)


async def open_async_blob(connection: AsyncConnection, selector: calls.BlobQuery) -> AsyncBlob:
    """The blob that a selector means; as `open_remote_blob`."""
    try:
        facts = await connection.send(calls.blob_head(selector))
    except OmnigraphError:
        await connection.send(calls.blob_refusal(selector))
        raise
    return AsyncBlob(connection, selector.at(facts.graph_commit_id), facts)


class _BlobValue:
    """What is known of a value, and the requests for its bytes."""

    def __init__(self, selector: calls.BlobQuery, facts: BlobFacts) -> None:
        self._selector = selector
        self._facts = facts

    @property
    def length(self) -> int | None:
        """How many bytes it has; `None` if it lies outside, where nobody looked."""
        return self._facts.length

    @property
    def etag(self) -> str | None:
        """A strong entity tag as HTTP writes it; `None` if it lies outside."""
        return self._facts.etag

    @property
    def uri(self) -> str | None:
        """The address, if the graph only refers to the value."""
        return self._facts.uri

    @property
    def graph_commit_id(self) -> str:
        """The commit that the value is read at."""
        return self._facts.graph_commit_id

    def _range(self, start: int, end: int | None) -> Call[bytes] | None:
        """The request for a range; `None` if it has no byte."""
        length, etag = self._require_inside()
        stop = checked_end(length, start, end)
        return None if start == stop else calls.blob_range(self._selector, etag, start, stop)

    def _pieces(self) -> Iterator[Call[bytes]]:
        """The requests for all of it, each for at most 4 MiB."""
        length, etag = self._require_inside()
        return (
            calls.blob_range(self._selector, etag, start, min(start + MAX_BLOB_READ_BYTES, length))
            for start in range(0, length, MAX_BLOB_READ_BYTES)
        )

    def _require_inside(self) -> tuple[int, str]:
        facts = self._facts
        if facts.length is None or facts.etag is None:
            raise InvalidArgument(
                f"the value lies outside the graph, which never opens it; read {facts.uri}"
                " yourself",
                uri=facts.uri,
            )
        return facts.length, facts.etag


class RemoteBlob(_BlobValue):
    """Reads one blob value; safe to share between threads."""

    def __init__(self, connection: Connection, selector: calls.BlobQuery, facts: BlobFacts) -> None:
        super().__init__(selector, facts)
        self._http = connection

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`; as `BlobReader.read`."""
        asked = self._range(start, end)
        return b"" if asked is None else self._http.send(asked)

    def __iter__(self) -> Iterator[bytes]:
        """The value in pieces of at most 4 MiB; none if it is empty."""
        return map(self._http.send, self._pieces())


class AsyncBlob(_BlobValue):
    """Reads one blob value, for the tasks of one event loop."""

    def __init__(
        self, connection: AsyncConnection, selector: calls.BlobQuery, facts: BlobFacts
    ) -> None:
        super().__init__(selector, facts)
        self._http = connection

    async def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`; as `BlobReader.read`."""
        asked = self._range(start, end)
        return b"" if asked is None else await self._http.send(asked)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The value in pieces of at most 4 MiB; none if it is empty."""
        for asked in self._pieces():
            yield await self._http.send(asked)
