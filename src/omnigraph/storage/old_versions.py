"""Old versions of tables and of the manifest, and what lies beside them: listed, and removed.

Nothing here decides what may go: that is `graph/`'s. Removing is by number, never by age: Lance
keeps files that a version which stays needs, those that a line grew from, and whatever nothing
names unless it is seven days old, because it may belong to a write that is being staged.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.ids import Incarnation, TableId, TableKey
from omnigraph.storage.files import line_folder, version_of_name
from omnigraph.storage.handles import Pin, TableLayout
from omnigraph.storage.moved_lines import is_view
from omnigraph.storage.signals import AlreadyExists, ObjectMissing
from omnigraph.storage.version_files import cleaned_mark, cleaned_upto, spent_marks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.objects import ObjectInfo, StorageAdapter
    from omnigraph.storage.table_store import TableStorage

_DETACHED: Final = "d"
_REFS: Final = "_refs/branches"
_DATA: Final = "data"
_DELETIONS: Final = "_deletions"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFile:
    """A version that is stored."""

    version: int
    made_us: int
    """By the clock of the store."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineVersions:
    """What the folder of versions of one line holds."""

    versions: tuple[VersionFile, ...]
    """The oldest first."""

    detached: tuple[ObjectInfo, ...] = ()
    """Versions of no line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedVersions:
    """What a removal did."""

    versions: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFiles:
    """The data files of one line, and the marks of its deleted rows."""

    strays: int
    """How many data files no stored version names."""

    stray_bytes: int
    lost: Mapping[int, tuple[str, ...]]
    """By version the files that it names and that are not there."""


class OldVersions:
    """The old versions of the tables of one graph."""

    def __init__(
        self,
        location: GraphLocation,
        calls: StoreCalls,
        objects: StorageAdapter,
        tables: TableStorage,
    ) -> None:
        self._location = location
        self._calls = calls
        self._objects = objects
        self._tables = tables

    def of(self, location: str, branch: str | None) -> LineVersions:
        """The versions of a line of a table, from one listing."""
        versions, detached = [], []
        for info in self._objects.list(f"{line_folder(location, branch)}/_versions"):
            name = info.path.rpartition("/")[2]
            number = version_of_name(name)
            if number is not None:
                versions.append(
                    VersionFile(
                        version=number, made_us=info.modified_us, size_bytes=info.size_bytes
                    )
                )
            elif name.startswith(_DETACHED) and name.endswith(".manifest"):
                detached.append(info)
        return LineVersions(
            versions=tuple(sorted(versions, key=lambda each: each.version)),
            detached=tuple(detached),
        )

    def lines_of(self, location: str) -> dict[str, int]:
        """The lines of a table beside its main line, also torn ones, and when each was made."""
        prefix = f"{location}/{_REFS}"
        found = {
            info.path.removeprefix(f"{prefix}/").removesuffix(".json"): info.modified_us
            for info in self._objects.list(prefix)
        }
        for name in self._objects.folders(f"{location}/tree"):
            if name not in found:
                files = self._objects.list(f"{location}/tree/{name}")
                found[name] = max((info.modified_us for info in files), default=0)
        return found

    def removal(
        self, layout: TableLayout, branch: str | None, versions: Collection[int]
    ) -> RemovedVersions:
        """What `remove` would do now; reads only.

        Raises:
            ObjectMissing: there is no such line.
        """
        if not versions:
            return RemovedVersions(versions=0, bytes=0)
        newest = self._newest(layout, branch)
        with self._calls.making("explain_clean", layout.table_key):
            own = newest.dataset.checkout_version((branch, newest.pin.version))
            stats = own.explain_cleanup_old_versions(versions=sorted(versions)).stats
        return RemovedVersions(versions=stats.old_versions, bytes=stats.bytes_removed)

    def files(self, location: str, branch: str | None) -> LineFiles:
        """The files of a line held against what its stored versions name; opens all of them."""
        named = frozenset(
            itertools.chain.from_iterable(names for _, names in self._named(location, branch))
        )
        folder = f"{line_folder(location, branch)}/"
        found = {
            info.path.removeprefix(folder): info.size_bytes
            for part in (_DATA, _DELETIONS)
            for info in self._objects.list(f"{folder}{part}")
        }
        strays = [size for name, size in found.items() if _is_data_file(name) and name not in named]
        lost = named - found.keys()
        return LineFiles(
            strays=len(strays),
            stray_bytes=sum(strays),
            lost=self._lost(location, branch, lost) if lost else {},
        )

    def _lost(
        self, location: str, branch: str | None, lost: frozenset[str]
    ) -> Mapping[int, tuple[str, ...]]:
        """By version what it names of the lost files; a version that has gone itself needs none."""
        layout = _unknown_layout(location)
        return {
            version: tuple(sorted(lost & names))
            for version, names in self._named(location, branch)
            if lost & names and not self.is_moved(layout, branch, version)
        }

    def _named(self, location: str, branch: str | None) -> Iterator[tuple[int, frozenset[str]]]:
        """The stored versions of a line, each with the files that it names."""
        layout = _unknown_layout(location)
        for each in self.of(location, branch).versions:
            pin = Pin(location=location, branch=branch, version=each.version)
            with contextlib.suppress(ObjectMissing):
                yield each.version, self._own_files(self._tables.open(layout, pin))

    def _own_files(self, handle: TableHandle) -> frozenset[str]:
        """The files of a version that lie on its own line; a branch shares its origin's.

        A view names every file by a base, so those of the origin come with them.
        """
        is_moved = is_view(handle.dataset)
        with self._calls.making("fragments", handle.layout.table_key):
            fragments = [each.metadata for each in handle.dataset.get_fragments()]
        data = {
            f"{_DATA}/{file.path}"
            for fragment in fragments
            for file in fragment.files
            if is_moved or file.base_id is None
        }
        marks = ((fragment.id, fragment.deletion_file) for fragment in fragments)
        return frozenset(data) | {
            mark.path(number)
            for number, mark in marks
            if mark is not None and (is_moved or mark.base_id is None)
        }

    def cleaned_upto(self, location: str, branch: str | None) -> int | None:
        """Up to which version a line may have been cleaned; `None` if nothing tells."""
        if not self._location.is_local:
            return None
        return cleaned_upto(self._location.path(line_folder(location, branch)))

    def is_moved(self, layout: TableLayout, branch: str | None, version: int) -> bool:
        """Whether a line is shown by views, since the graph was moved: it stays as it is."""
        pin = Pin(location=layout.location, branch=branch, version=version)
        return is_view(self._tables.open(layout, pin).dataset)

    def remove(
        self, layout: TableLayout, branch: str | None, versions: Collection[int]
    ) -> RemovedVersions:
        """Remove these versions of a line, and the files that only they need.

        Raises:
            ObjectMissing: there is no such line.
        """
        if not versions:
            return RemovedVersions(versions=0, bytes=0)
        self._leave_mark(line_folder(layout.location, branch), max(versions))
        newest = self._newest(layout, branch)
        with self._calls.making("clean", layout.table_key):
            own = newest.dataset.checkout_version((branch, newest.pin.version))
            stats = own.cleanup_old_versions(versions=sorted(versions))
        self._tables.forget(layout, branch, versions)
        return RemovedVersions(versions=stats.old_versions, bytes=stats.bytes_removed)

    def _newest(self, layout: TableLayout, branch: str | None) -> TableHandle:
        head = self._tables.head_version(layout, branch)
        return self._tables.open(layout, Pin(location=layout.location, branch=branch, version=head))

    def _leave_mark(self, folder: str, highest: int) -> None:
        """Before anything goes: from here on nobody takes a gap for the end of the line."""
        if not self._location.is_local:
            return
        with contextlib.suppress(AlreadyExists):
            self._objects.create(f"{folder}/{cleaned_mark(highest)}", b"", durable=True)
        for spent in spent_marks(self._location.path(folder)):
            self._objects.delete(f"{folder}/{spent}")


def _unknown_layout(location: str) -> TableLayout:
    """A table of which only the files matter."""
    return TableLayout(
        table_id=TableId(0),
        incarnation=Incarnation(0),
        table_key=TableKey(location),
        location=location,
        schema=pa.schema([]),
    )


def _is_data_file(name: str) -> bool:
    """Blobs lie in folders of their own, beside the file that names them."""
    folder, _, rest = name.partition("/")
    return folder == _DATA and "/" not in rest
