"""The difference of two states of a remote graph: read page by page, pinned by the first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from omnigraph.client import calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from omnigraph.client.async_connection import AsyncConnection
    from omnigraph.client.call import Call
    from omnigraph.client.connection import Connection
    from omnigraph.graph.changes.change_pages import DiffPage
    from omnigraph.graph.changes.entity_change import EntityChange


class Filter(TypedDict):
    """Which changes are wanted, to be sent more than once."""

    kinds: Iterable[str] | None
    types: Iterable[str] | None
    ops: Iterable[str] | None


def filter_of(
    kinds: Iterable[str] | None, types: Iterable[str] | None, ops: Iterable[str] | None
) -> Filter:
    """A filter; what can be read once alone is read here."""

    def kept(given: Iterable[str] | None) -> Iterable[str] | None:
        return given if given is None or isinstance(given, str) else tuple(given)

    return Filter(kinds=kept(kinds), types=kept(types), ops=kept(ops))


@dataclass(frozen=True, kw_only=True)
class _Difference:
    """Two states, named by the commits of the first page."""

    _first: DiffPage
    _filter: Filter

    @property
    def from_commit_id(self) -> str:
        """The state before."""
        return self._first.from_commit_id

    @property
    def to_commit_id(self) -> str:
        """The state after."""
        return self._first.to_commit_id

    def _behind(self, page: DiffPage) -> Call[DiffPage]:
        ends = (self.from_commit_id, self.to_commit_id)
        return calls.diff(*ends, page_token=page.next_page_token, **self._filter)

    def _counted(self) -> Call[dict[str, dict[str, int]]]:
        return calls.diff_stats(self.from_commit_id, self.to_commit_id, **self._filter)


@dataclass(frozen=True, kw_only=True)
class RemoteChangeSet(_Difference):
    """What differs between two states; iterating asks for the pages, of which one is held."""

    _http: Connection

    def __iter__(self) -> Iterator[EntityChange]:
        page = self._first
        yield from page.changes
        while page.next_page_token is not None:
            page = self._http.send(self._behind(page))
            yield from page.changes

    @cached_property
    def changes(self) -> tuple[EntityChange, ...]:
        """All changes; holds them."""
        return tuple(self)

    @cached_property
    def stats(self) -> dict[str, dict[str, int]]:
        """How many entities were inserted, updated and deleted, by type as `node:Person`."""
        return self._http.send(self._counted())

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; holds all changes."""
        return {
            "from": self.from_commit_id,
            "to": self.to_commit_id,
            "changes": [change.to_dict() for change in self],
            "stats": self.stats,
        }


@dataclass(frozen=True, kw_only=True)
class AsyncChangeSet(_Difference):
    """What differs between two states; `async for` asks for the pages, of which one is held."""

    _http: AsyncConnection

    async def __aiter__(self) -> AsyncIterator[EntityChange]:
        page = self._first
        while True:
            for change in page.changes:
                yield change
            if page.next_page_token is None:
                return
            page = await self._http.send(self._behind(page))

    async def stats(self) -> dict[str, dict[str, int]]:
        """How many entities were inserted, updated and deleted, by type as `node:Person`."""
        return await self._http.send(self._counted())
