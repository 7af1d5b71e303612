"""`RuntimeCache`: what queries of one process keep between them, by table version.

A new version of a table is a new key, so nothing is ever invalidated in place; branches and
snapshots that share a physical table share its entries. Those least recently used go first, by
number and by bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from omnigraph.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from omnigraph.storage.handles import TableHandle


class Sized(Protocol):
    """Something that knows its memory."""

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        ...


_Entry = TypeVar("_Entry", bound=Sized)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A physical table at a version: equal for every branch and snapshot that shares it."""

    table_id: int
    incarnation: int
    branch: str | None
    version: int

    @classmethod
    def of(cls, handle: TableHandle) -> TableVersion:
        """The version that a handle stands for."""
        layout, pin = handle.layout, handle.pin
        return cls(layout.table_id, layout.incarnation, pin.branch, pin.version)

    def may_precede(self, other: TableVersion) -> bool:
        """Whether this may be an older version of the same line, or of one that it grew from."""
        return (self.table_id, self.incarnation) == (
            other.table_id,
            other.incarnation,
        ) and self.version < other.version + (self.branch != other.branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[_Entry]):
    """What was made of a version of a table."""

    entry: _Entry
    handle: TableHandle
    lost: int = 0
    """How much it has had to leave behind since it was built from nothing."""

    @property
    def nbytes(self) -> int:
        """Memory of the entry."""
        return self.entry.nbytes


class LruCache(Generic[_Entry]):
    """Entries by key, the least recently used dropped first; safe to share between threads."""

    def __init__(self, *, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._building: dict[Hashable, threading.Lock] = {}
        self._too_large: set[Hashable] = set()
        self._lock = threading.Lock()

    @property
    def most_bytes(self) -> int:
        """An entry larger than this is never kept."""
        return self._most_bytes

    def is_too_large(self, key: Hashable) -> bool:
        """Whether the entry was built before and is larger than all that may be kept."""
        with self._lock:
            return key in self._too_large

    def peek(self, key: Hashable) -> _Entry | None:
        """The entry, if it is there."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def entries(self) -> list[_Entry]:
        """What is there, the least recently used first."""
        with self._lock:
            return list(self._entries.values())

    def demote(self, key: Hashable) -> None:
        """Let an entry be the next to be dropped."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key, last=False)

    def obtain(self, key: Hashable, build: Callable[[], _Entry]) -> _Entry:
        """The entry, built if it is not there; threads that want the same one build it once."""
        value = self.attempt(key, build)
        if value is None:
            raise InternalError("a build gave nothing")
        return value

    def attempt(self, key: Hashable, build: Callable[[], _Entry | None]) -> _Entry | None:
        """The same, where a build may give nothing; then nothing is kept."""
        value = self.peek(key)
        if value is not None:
            return value
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        try:
            with building:
                value = self.peek(key)
                if value is None:
                    value = build()
                    if value is not None:
                        self._keep(key, value)
        finally:
            with self._lock:
                self._building.pop(key, None)
        return value

    def _keep(self, key: Hashable, entry: _Entry) -> None:
        if entry.nbytes > self._most_bytes:
            with self._lock:
                self._too_large.add(key)
            return
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self._most_entries or self._bytes() > self._most_bytes:
                self._entries.popitem(last=False)

    def _bytes(self) -> int:
        return sum(entry.nbytes for entry in self._entries.values())

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
