"""Old versions of tables and of the manifest, and what lies beside them: listed, and removed.

Nothing here decides what may go: that is `graph/`'s. Removing is by number, never by age: Lance
keeps files that a version which stays needs, those that a line grew from, and whatever nothing
names unless it is seven days old, because it may belong to a write that is being staged.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from omnigraph.ids import Incarnation, TableId, TableKey
from omnigraph.storage.files import line_folder, version_of_name
from omnigraph.storage.handles import Pin, TableLayout
from omnigraph.storage.moved_lines import is_view
from omnigraph.storage.signals import AlreadyExists, ObjectMissing
from omnigraph.storage.version_files import cleaned_mark, spent_marks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.objects import ObjectInfo, StorageAdapter
    from omnigraph.storage.table_store import TableStorage

_DETACHED: Final = "d"
_REFS: Final = "_refs/branches"


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

    def orphans(self, location: str, branch: str | None) -> tuple[int, int]:
        """How many data files of a line no stored version names, and their size; opens all."""
        layout = TableLayout(
            table_id=TableId(0),
            incarnation=Incarnation(0),
            table_key=TableKey(location),
            location=location,
            schema=pa.schema([]),
        )
        stored = [each.version for each in self.of(location, branch).versions]
        known = self._files(layout, branch, stored)
        prefix = f"{line_folder(location, branch)}/data/"
        # Blobs lie in folders of their own, beside the file that names them.
        sizes = {
            info.path.removeprefix(prefix): info.size_bytes for info in self._objects.list(prefix)
        }
        lost = [size for name, size in sizes.items() if "/" not in name and name not in known]
        return len(lost), sum(lost)

    def _files(
        self, layout: TableLayout, branch: str | None, versions: Sequence[int]
    ) -> dict[str, int]:
        files: dict[str, int] = {}
        for version in versions:
            pin = Pin(location=layout.location, branch=branch, version=version)
            with contextlib.suppress(ObjectMissing):
                handle = self._tables.open(layout, pin)
                files |= self._own_files(handle)
        return files

    def _own_files(self, handle: TableHandle) -> dict[str, int]:
        """The data files of a version that lie on its own line; a branch shares its origin's.

        A view names every file by a base, so those of the origin come with them.
        """
        is_moved = is_view(handle.dataset)
        with self._calls.making("fragments", handle.layout.table_key):
            return {
                file.path: file.file_size_bytes or 0
                for fragment in handle.dataset.get_fragments()
                for file in fragment.metadata.files
                if is_moved or file.base_id is None
            }

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
