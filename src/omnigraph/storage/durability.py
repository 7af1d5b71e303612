"""Makes local files survive a power cut.

Neither Lance nor obstore ever syncs a file. At the moments that the commit protocol names, the
writer hands over what it wrote: each file is synced, then its folder, then every folder above
whose own entry was not yet known to be durable. Object stores are durable when a put returns, and
with durability `process` a killed process is all that a graph survives: both get the one that does
nothing.

A sync that failed cannot be repeated. The kernel may have dropped what it could not write, and
reports that once, to whichever process asks first; the next sync of the same file succeeds and
proves nothing. So whoever finds a file whose maker may have failed does not sync it but renews it:
the bytes that every reader sees are written to a new file, which is synced and takes the name. A
folder may be synced again: a file system that could not write its own entries stays failed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from tempfile import mkstemp
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import StorageDenied
from omnigraph.settings import Durability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.location import GraphLocation


class Durable(Protocol):
    """What makes written files durable."""

    def sync(self, relative: Iterable[str]) -> None:
        """Make files that were just written, and the folders that name them, durable."""
        ...

    def renew(self, relative: Iterable[str]) -> None:
        """Make files durable that others wrote, whatever became of their syncs."""
        ...

    def sync_root(self) -> None:
        """Make the folder of the graph, and those above it, durable."""
        ...


class NoSync:
    """For stores that are durable by themselves, and for durability `process`."""

    __slots__ = ()

    def sync(self, relative: Iterable[str]) -> None:
        """Do nothing."""

    def renew(self, relative: Iterable[str]) -> None:
        """Do nothing."""

    def sync_root(self) -> None:
        """Do nothing."""


class LocalSync:
    """Syncs files and folders below one local root."""

    __slots__ = ("_calls", "_known", "_root")

    def __init__(self, root: Path, calls: StoreCalls) -> None:
        self._root = root
        self._calls = calls
        self._known: set[Path] = set()

    def sync(self, relative: Iterable[str]) -> None:
        """Make files that were just written, and the folders that name them, durable.

        A name may also be a folder: then every file in it is synced.
        """
        paths = [path for name in dict.fromkeys(relative) for path in _files(self._root / name)]
        for path in paths:
            self._sync(path)
        self._sync_folders(paths)

    def renew(self, relative: Iterable[str]) -> None:
        """Make files durable that others wrote, whatever became of their syncs.

        Each is replaced by a copy at once, so readers never miss it. Nobody may write to it any
        more.
        """
        paths = [self._root / name for name in dict.fromkeys(relative)]
        for path in paths:
            with self._calls.making("sync", path.relative_to(self._root).as_posix()):
                _replace_by_synced_copy(path)
        self._sync_folders(paths)

    def sync_root(self) -> None:
        """Make the folder of the graph, and those above it that may be read, durable."""
        for folder in (self._root, *self._root.parents):
            with suppress(StorageDenied), self._calls.making("sync", str(folder)):
                _fsync(folder)

    def _sync_folders(self, paths: Iterable[Path]) -> None:
        folders = dict.fromkeys(path.parent for path in paths)
        for folder in list(folders):
            folders.update(dict.fromkeys(self._unknown_above(folder)))
        for folder in folders:
            self._sync(folder)
        self._known.update(folders)

    def _unknown_above(self, folder: Path) -> Iterable[Path]:
        while folder not in self._known and folder != self._root:
            folder = folder.parent
            yield folder

    def _sync(self, path: Path) -> None:
        with self._calls.making("sync", path.relative_to(self._root).as_posix()):
            _fsync(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_by_synced_copy(path: Path) -> None:
    """Give the name of a file to a copy of it that is known to be on the disk."""
    mode = S_IMODE(path.stat().st_mode)
    # Neither Lance nor an object store takes a name that ends so for one of its own.
    descriptor, name = mkstemp(prefix=f"{path.name}.", suffix=".renewed", dir=path.parent)
    copy = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(path.read_bytes())
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        copy.replace(path)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [path]


def durability_of(location: GraphLocation, level: Durability, calls: StoreCalls) -> Durable:
    """What makes files durable at this location with this setting."""
    if location.is_local and level is Durability.FULL:
        return LocalSync(location.path(""), calls)
    return NoSync()
