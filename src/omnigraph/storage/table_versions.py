"""Opens tables at exact versions of their lines, and remembers what it opened.

A dataset at a pinned version never changes, so it is kept by location, line and version. What asks
for the newest version keeps a dataset of that line only to ask it: the answer always comes from the
store. All datasets share one Lance session, and with it the caches of file metadata and indexes.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import lance
from lance.lance import _Session as Session

from omnigraph.errors import StorageInternalError
from omnigraph.storage.files import line_folder
from omnigraph.storage.handles import Pin, TableHandle, TableLayout, VersionTrace
from omnigraph.storage.moved_lines import is_view, readable, refuse_moved, with_text_indexes
from omnigraph.storage.signals import ObjectMissing
from omnigraph.storage.version_files import newest_version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator

    from lance import LanceDataset
    from lance.dataset import Branch

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.location import GraphLocation

CACHED_HANDLES = 256

_Value = TypeVar("_Value")


class Recent(Generic[_Value]):
    """The most recently used values by key; safe to share between threads."""

    __slots__ = ("_lock", "_room", "_values")

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, _Value] = OrderedDict()

    def find(self, key: Hashable) -> _Value | None:
        """The value, now the most recent one."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def keep(self, key: Hashable, value: _Value) -> None:
        """Remember a value, and forget the least recent one when there is no room."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._room:
                self._values.popitem(last=False)

    def forget(self, matches: Callable[[Hashable], bool]) -> None:
        """Drop the values whose key matches."""
        with self._lock:
            for key in [key for key in self._values if matches(key)]:
                del self._values[key]

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStart:
    """The version from which a line grew."""

    parent: str | None
    """The line that has it; `None` is the main line."""

    version: int


class Lines:
    """The tables of one graph, opened by line and version."""

    __slots__ = ("_calls", "_get", "_heads", "_pinned", "_session", "_tips", "location")

    def __init__(
        self, location: GraphLocation, calls: StoreCalls, get: Callable[[str], bytes]
    ) -> None:
        self.location = location
        self._calls = calls
        self._get = get
        self._session = Session()
        self._pinned: Recent[LanceDataset] = Recent(CACHED_HANDLES)
        self._tips: Recent[LanceDataset] = Recent(CACHED_HANDLES)
        self._heads: Recent[int] = Recent(CACHED_HANDLES)
        """By line: a version that was the newest, from where the newest is searched."""

    @property
    def session(self) -> Session:
        """The session that every dataset of this graph shares."""
        return self._session

    def open(self, layout: TableLayout, pin: Pin) -> TableHandle:
        """The table at a pin.

        Raises:
            ObjectMissing: there is no such version.
            StorageUnsupported: the line names files that are not of this graph.
        """
        key = (pin.location, pin.branch, pin.version)
        dataset = self._pinned.find(key)
        if dataset is None:
            dataset = self._checkout(layout, pin.branch, pin.version)
            self._pinned.keep(key, dataset)
        return TableHandle(layout=layout, pin=pin, dataset=dataset)

    def keep(self, layout: TableLayout, branch: str | None, dataset: LanceDataset) -> TableHandle:
        """The handle of a version that was just made."""
        pin = Pin(location=layout.location, branch=branch, version=dataset.version)
        self._pinned.keep((pin.location, pin.branch, pin.version), dataset)
        return TableHandle(layout=layout, pin=pin, dataset=dataset)

    def head_version(self, layout: TableLayout, branch: str | None) -> int:
        """The newest version of a line, asked of the store.

        Raises:
            ObjectMissing: there is no such line.
        """
        if not self.location.is_local:
            tip = self._tip(layout, branch)
            with self._calls.making("latest_version", layout.table_key):
                return int(tip.latest_version)
        key = (layout.location, branch)
        with self._calls.making("latest_version", layout.table_key):
            folder = self.location.path(line_folder(layout.location, branch))
            version = newest_version(folder, self._heads.find(key))
        self._heads.keep(key, version)
        return version

    def head(self, layout: TableLayout, branch: str | None) -> TableHandle:
        """The newest version of a line, opened."""
        version = self.head_version(layout, branch)
        return self.open(layout, Pin(location=layout.location, branch=branch, version=version))

    def open_ancestor(self, handle: TableHandle, version: int) -> TableHandle:
        """An older version of the handle's line, or of the lines that it grew from.

        Raises:
            ObjectMissing: the version is gone, or newer than the handle.
        """
        layout, branch = handle.layout, handle.pin.branch
        while branch is not None:
            start = self.start_of(layout, branch)
            if start is None or version >= start.version:
                break
            branch = start.parent
        return self.open(layout, Pin(location=layout.location, branch=branch, version=version))

    def common_pin(self, one: TableHandle, other: TableHandle) -> Pin:
        """The newest version from which the lines of both grew, or that one of them is."""
        layout = one.layout
        reached = dict(self._ancestry(layout, other.pin))
        branch, version = next(
            (branch, min(version, reached[branch]))
            for branch, version in self._ancestry(layout, one.pin)
            if branch in reached
        )
        return Pin(location=layout.location, branch=branch, version=version)

    def _ancestry(self, layout: TableLayout, pin: Pin) -> Iterator[tuple[str | None, int]]:
        """The lines that a version grew from, its own first, each with its newest shared version.

        Raises:
            ObjectMissing: one of the lines is gone.
        """
        branch, version = pin.branch, pin.version
        yield branch, version
        while branch is not None:
            start = self.start_of(layout, branch)
            if start is None:
                raise ObjectMissing(f"{layout.table_key} has no line {branch}")
            branch, version = start.parent, start.version
            yield branch, version

    def root(self, layout: TableLayout) -> LanceDataset:
        """Some version of the table's main line, from which every line is reached."""
        return self._tip(layout, None)

    def branches(self, layout: TableLayout) -> dict[str, Branch]:
        """The lines of a table beside its main line, with the places where they start.

        Raises:
            ObjectMissing: there is no such table.
        """
        root = self.root(layout)
        with self._calls.making("list_branches", layout.table_key):
            return root.branches.list()

    def start_of(self, layout: TableLayout, name: str) -> LineStart | None:
        """Where a line grew from its parent, as its own ref tells; `None` if there is no such line.

        One small object is read, however many lines the table has.
        """
        try:
            ref = json.loads(self._get(f"{layout.location}/_refs/branches/{name}.json"))
        except ObjectMissing:
            return None
        return LineStart(parent=ref.get("parentBranch"), version=int(ref["parentVersion"]))

    def trace(self, layout: TableLayout, branch: str | None, version: int) -> VersionTrace:
        """Who made a version; nothing but its number if that cannot be read.

        Raises:
            StorageUnavailable, StorageDenied: the store did not answer, which says nothing about
                the version.
        """
        tip = self._tip(layout, branch)
        try:
            with self._calls.making("read_transaction", layout.table_key):
                made = tip.read_transaction(version)
        except (ObjectMissing, StorageInternalError):
            made = None
        if made is None:
            return VersionTrace(version=version)
        properties = made.transaction_properties or {}
        return VersionTrace(
            version=version,
            uuid=made.uuid,
            operation_id=properties.get("omnigraph.operation"),
            kind=properties.get("omnigraph.kind"),
            operation=type(made.operation).__name__,
        )

    def forget_line(self, layout: TableLayout, branch: str) -> None:
        """Forget what was opened of a line that is gone or may be made anew."""
        line = (layout.location, branch)
        for cache in (self._pinned, self._tips, self._heads):
            cache.forget(lambda key: isinstance(key, tuple) and key[:2] == line)

    def forget_versions(
        self, layout: TableLayout, branch: str | None, versions: Collection[int]
    ) -> None:
        """Forget what was opened of versions that are gone."""
        gone = {(layout.location, branch, version) for version in versions}
        self._pinned.forget(lambda key: key in gone)
        self._tips.forget(lambda key: key == (layout.location, branch))

    def _tip(self, layout: TableLayout, branch: str | None) -> LanceDataset:
        key = (layout.location, branch)
        tip = self._tips.find(key)
        if tip is None:
            tip = self._checkout(layout, branch, None) if branch else self._open_root(layout)
            if is_view(tip):
                raise refuse_moved(self.location, layout.table_key)
            self._tips.keep(key, tip)
        return tip

    def _open_root(self, layout: TableLayout) -> LanceDataset:
        with self._calls.making("open", layout.table_key):
            newest = None
            if self.location.is_local:
                newest = newest_version(self.location.path(layout.location))
            return lance.dataset(
                self.location.uri(layout.location),
                version=newest,
                session=self._session,
                storage_options=dict(self.location.options) or None,
            )

    def _checkout(
        self, layout: TableLayout, branch: str | None, version: int | None
    ) -> LanceDataset:
        root = self._tip(layout, None)
        with self._calls.making("open", layout.table_key):
            dataset = root.checkout_version((branch, version))
            shown = readable(self.location, layout.location, branch, dataset)
            return with_text_indexes(shown, layout) if is_view(shown) else shown
