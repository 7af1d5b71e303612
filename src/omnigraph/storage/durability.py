"""Makes local files survive a power cut.

Neither Lance nor obstore ever syncs a file. At the moments that the commit protocol names, the
writer hands over what it wrote: each file is synced, then its folder, then every folder above
whose own entry was not yet known to be durable. Object stores are durable when a put returns, and
with durability `process` a killed process is all that a graph survives: both get the one that does
nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import StorageDenied
from omnigraph.settings import Durability

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.location import GraphLocation


class Durable(Protocol):
    """What makes written files durable."""

    def sync(self, relative: Iterable[str]) -> None:
        """Make these files, and the folders that name them, durable."""
        ...

    def sync_root(self) -> None:
        """Make the folder of the graph, and those above it, durable."""
        ...


class NoSync:
    """For stores that are durable by themselves, and for durability `process`."""

    __slots__ = ()

    def sync(self, relative: Iterable[str]) -> None:
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
        """Make these files, and the folders that name them, durable.

        A name may also be a folder: then every file in it is synced.
        """
        folders: dict[Path, None] = {}
        for name in dict.fromkeys(relative):
            for path in _files(self._root / name):
                self._sync(path)
                folders[path.parent] = None
        for folder in list(folders):
            folders.update(dict.fromkeys(self._unknown_above(folder)))
        for folder in folders:
            self._sync(folder)
        self._known.update(folders)

    def sync_root(self) -> None:
        """Make the folder of the graph, and those above it that may be read, durable."""
        for folder in (self._root, *self._root.parents):
            with suppress(StorageDenied), self._calls.making("sync", str(folder)):
                _fsync(folder)

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


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return [path]


def durability_of(location: GraphLocation, level: Durability, calls: StoreCalls) -> Durable:
    """What makes files durable at this location with this setting."""
    if location.is_local and level is Durability.FULL:
        return LocalSync(location.path(""), calls)
    return NoSync()
