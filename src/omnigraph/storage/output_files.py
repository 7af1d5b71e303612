"""A folder that a job fills from many processes: a local one or a prefix of a bucket.

Every file appears whole under its name, or not at all. Files are first written below `TEMPORARY`
and moved by the one process that claimed the folder, so that a task which outlives its job never
touches what is complete. Buckets have no move: there it is a copy by the store, then a deletion.
"""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import obstore
import pyarrow as pa
from obstore.store import LocalStore

from omnigraph.errors import (
    InvalidArgument,
    OmnigraphError,
    RootNotEmpty,
    StorageDenied,
    StorageUnavailable,
)
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import durability_of
from omnigraph.storage.location import parse_location
from omnigraph.storage.objects import StorageAdapter, open_bucket
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from _typeshed import ReadableBuffer
    from obstore import WritableFile
    from obstore.store import ObjectStore

    from omnigraph.settings import StorageSettings
    from omnigraph.storage.location import GraphLocation

log = logging.getLogger(__name__)

TEMPORARY: Final = "_temporary"
"""Where everything lies that is not complete yet."""

_CLAIM: Final = f"{TEMPORARY}/claim"
_PATIENCE: Final = {"timeout": "300s"}
"""A large file takes longer than the control objects of a graph may."""

_MOVES_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file as it was written."""

    path: str
    """Below the folder."""
    size_bytes: int
    sha256: str


class OutputFile(io.RawIOBase):
    """A file that is being written, in order; it is there once it is finished."""

    def __init__(self, opened: WritableFile, path: str, calls: StoreCalls) -> None:
        super().__init__()
        self._opened = opened
        self._path = path
        self._calls = calls
        self._digest = hashlib.sha256()
        self._size_bytes = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Add bytes; how many."""
        with _kept(self._path), self._calls.making("write", self._path):
            self._opened.write(data)
        self._digest.update(data)
        size_bytes = memoryview(data).nbytes
        self._size_bytes += size_bytes
        return size_bytes

    def finish(self) -> None:
        """Make the file appear."""
        self.close()
        with _kept(self._path), self._calls.making("write", self._path):
            self._opened.close()

    @property
    def written(self) -> WrittenFile:
        """What has been written."""
        return WrittenFile(
            path=self._path, size_bytes=self._size_bytes, sha256=self._digest.hexdigest()
        )


class OutputFolder:
    """One folder to write to, with the settings of this process."""

    def __init__(self, where: GraphLocation, settings: StorageSettings) -> None:
        options = where.options if where.is_local else {**where.options, **_PATIENCE}
        self.location = replace(where, options=options)
        self._calls = StoreCalls(root=str(where))
        self._durable = durability_of(where, settings.durability, self._calls)
        self._objects = StorageAdapter(self.location, self._calls, self._durable)
        self._opened: ObjectStore | None = None
        self._made: tuple[Path, ...] = ()

    def require_empty(self) -> None:
        """Make sure that the folder is empty or absent; nothing is written.

        Raises:
            RootNotEmpty: it holds something, or another job has it.
            InvalidArgument: it is a file, or below one.
            StorageDenied: it cannot be looked at.
        """
        self._refuse_file()
        self._require_empty()

    def claim(self, owner: str) -> None:
        """Take the folder for one job; it must be empty or absent.

        Raises:
            RootNotEmpty, InvalidArgument: as `require_empty`.
            StorageDenied: it cannot be written.
        """
        self.require_empty()
        self._made = self._missing_folders()
        try:
            self._objects.create(_CLAIM, owner.encode())
        except AlreadyExists as error:
            raise self._not_empty(_CLAIM) from error
        except (StorageDenied, ObjectMissing) as error:
            raise StorageDenied(
                f"cannot write to {self.location}: {error}; check the rights on it, or choose"
                " another place",
                location=str(self.location),
            ) from error
        try:
            # Another job may have finished between the look and the claim.
            self._require_empty(but_claim=True)
        except RootNotEmpty:
            self._objects.delete(_CLAIM)
            raise

    @contextmanager
    def writing(self, path: str) -> Iterator[OutputFile]:
        """A file to be written in the block; it appears when the block ends without an error."""
        with self._calls.making("open", path):
            opened = obstore.open_writer(self._store(), path)
        file = OutputFile(opened, path, self._calls)
        try:
            yield file
            file.finish()
        except BaseException:
            self._abandon(file, path)
            raise
        self._durable.sync([path])

    def create(self, path: str, data: bytes) -> None:
        """A small file where there is none, durable.

        Raises:
            RootNotEmpty: there is another one.
        """
        try:
            self._objects.create(path, data, durable=True)
        except AlreadyExists as error:
            raise self._not_empty(path) from error
        self._durable.sync_root()

    def read(self, path: str, start: int, end: int) -> pa.Buffer:
        """The bytes of a file from `start` up to `end`.

        Raises:
            StorageUnavailable: somebody removed it.
        """
        with _kept(path), self._calls.making("read", path):
            data = obstore.get_range(self._store(), path, start=start, end=end)
            return pa.py_buffer(data)

    def move(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Give files their names, durable; each pair is what one is called and is to be called.

        Raises:
            StorageUnavailable: somebody removed one.
        """
        if self.location.is_local:
            for pair in pairs:
                self._move(pair)
        else:
            with ThreadPoolExecutor(_MOVES_AT_ONCE) as threads:
                list(threads.map(self._move, pairs))
        self._durable.sync([name for _, name in pairs])

    def remove(self, paths: Sequence[str]) -> None:
        """Delete files; those that are not there are fine."""
        for path in paths:
            self._objects.delete(path)

    def release(self) -> None:
        """Delete everything temporary, the claim with it, and folders that are left empty."""
        if not self.location.is_local:
            self._objects.delete_prefix(TEMPORARY)
            return
        with self._calls.making("delete", TEMPORARY):
            # Files that a killed process was writing have names that a listing leaves out.
            shutil.rmtree(self.location.path(TEMPORARY), ignore_errors=False)
            for folder in self._made:
                if any(folder.iterdir()):
                    break
                folder.rmdir()

    def _move(self, pair: tuple[str, str]) -> None:
        path, name = pair
        with _kept(path), self._calls.making("move", path):
            obstore.rename(self._store(), path, name)

    def _abandon(self, file: OutputFile, path: str) -> None:
        """Leave nothing of a file; a local one that is not finished disappears by itself."""
        if self.location.is_local:
            return
        try:
            # An upload that is neither finished nor ended is stored, and paid for, unseen.
            if not file.closed:
                file.finish()
            self._objects.delete(path)
        except OmnigraphError as error:
            # The error under way says more.
            log.warning("part of a file stays", extra={"path": path, "why": error.message})

    def _require_empty(self, *, but_claim: bool = False) -> None:
        if self.location.is_local:
            folder = self.location.path("")
            try:
                names = [member.name for member in folder.iterdir()]
            except FileNotFoundError:
                return
            except OSError as error:
                raise StorageDenied(
                    f"{self.location} cannot be looked at: {error.strerror or error}; check the"
                    " rights on it, or choose another place",
                    location=str(self.location),
                ) from error
        else:
            names = [info.path for info in self._objects.list("", limit=2)]
        own = {TEMPORARY, _CLAIM} if but_claim else set()
        others = [name for name in names if name not in own]
        if others:
            raise self._not_empty(min(others))

    def _not_empty(self, name: str) -> RootNotEmpty:
        if name.startswith(TEMPORARY):
            why = (
                f"another job writes there, or one was cut off; once none runs, delete {TEMPORARY}"
                " and what is beside it"
            )
        else:
            why = f"it holds {name}; name an empty or a new folder, or empty this one"
        return RootNotEmpty(
            f"nothing can be written to {self.location}: {why}",
            location=str(self.location),
            found=name,
        )

    def _refuse_file(self) -> None:
        if not self.location.is_local:
            return
        path = self.location.path("")
        for folder in (path, *path.parents):
            if folder.exists() and not folder.is_dir():
                raise InvalidArgument(
                    f"nothing can be written to {self.location}: {folder} is a file; name a folder",
                    location=str(self.location),
                )

    def _missing_folders(self) -> tuple[Path, ...]:
        """The folders that a first file makes, the innermost first."""
        if not self.location.is_local:
            return ()
        path = self.location.path("")
        return tuple(folder for folder in (path, *path.parents) if not folder.exists())

    def _store(self) -> ObjectStore:
        if self._opened is None:
            self._opened = (
                LocalStore(self.location.root, mkdir=True)
                if self.location.is_local
                else open_bucket(self.location)
            )
        return self._opened


@contextmanager
def _kept(path: str) -> Iterator[None]:
    """Say of a file or folder of ours that is gone what must have happened."""
    try:
        yield
    except ObjectMissing as error:
        raise StorageUnavailable(
            f"{path} or its folder is gone, somebody removed it while the job ran; try again, and"
            " leave the folder alone meanwhile",
            path=path,
        ) from error


def find_output(address: str | Path, settings: StorageSettings) -> GraphLocation:
    """The place that a path, `file://` or `s3://` address names.

    Raises:
        InvalidArgument: it is empty, or of another kind.
    """
    if not str(address).strip():
        raise InvalidArgument(
            "no place to write to is given; name a folder, a file:// or an s3:// address",
            argument="out",
        )
    return parse_location(address, settings)
