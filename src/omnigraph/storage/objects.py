"""Control objects: small files beside the tables, in a folder or a bucket with the same code.

There is no compare-and-swap on the content of an object: local stores do not offer it. Whatever
needs "only one wins" is built from `create` alone, with a number in the name.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import obstore
from obstore.store import LocalStore, S3Store

from omnigraph.errors import StorageVersionTooNew
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore import ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.location import GraphLocation

_STILL_USED = (errno.ENOTEMPTY, errno.EEXIST)

OBJECT_FORMAT = 1
"""The shape of every JSON control object; a greater number is refused, not guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a listing tells of an object."""

    path: str
    size_bytes: int
    modified_us: int


class StorageAdapter:
    """Create, read, list and delete control objects below one root."""

    __slots__ = ("_calls", "_durable", "_location", "_opened")

    def __init__(self, location: GraphLocation, calls: StoreCalls, durable: Durable) -> None:
        self._location = location
        self._calls = calls
        self._durable = durable
        self._opened: ObjectStore | None = None

    def create(self, path: str, data: bytes, *, durable: bool = False) -> None:
        """Create an object where there is none; with `durable`, survive a power cut.

        An object that is there with exactly this content counts as created: after a lost answer
        the store repeats the request and then refuses its own object. Contents therefore say who
        wrote them.

        Raises:
            AlreadyExists: the object is there with other content; it is unchanged.
        """
        try:
            with self._calls.making("create", path):
                obstore.put(self._writable(), path, data, mode="create")
        except AlreadyExists:
            if not self._holds(path, data):
                raise
        if durable:
            self._durable.sync([path])

    def renew(self, path: str) -> None:
        """Make an object survive a power cut that others created.

        Raises:
            ObjectMissing: there is no such object.
        """
        self._durable.renew([path])

    def put(self, path: str, data: bytes) -> None:
        """Replace an object; only its single owner may call this."""
        with self._calls.making("put", path):
            obstore.put(self._writable(), path, data)

    def get(self, path: str) -> bytes:
        """The content of an object.

        Raises:
            ObjectMissing: there is no such object.
        """
        with self._calls.making("get", path):
            return bytes(obstore.get(self._readable(), path).bytes())

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` up to `end`.

        Raises:
            ObjectMissing: there is no such object.
        """
        with self._calls.making("get_range", path):
            return bytes(obstore.get_range(self._readable(), path, start=start, end=end))

    def head(self, path: str) -> ObjectInfo | None:
        """What a listing would tell of one object, or `None`."""
        try:
            with self._calls.making("head", path):
                return _info(obstore.head(self._readable(), path))
        except ObjectMissing:
            return None

    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        """The objects below a prefix, by path; with `limit` only so many, in any order."""
        infos: list[ObjectInfo] = []
        with self._calls.making("list", prefix or "."):
            try:
                for page in obstore.list(self._readable(), prefix or None, chunk_size=1000):
                    infos.extend(_info(meta) for meta in page)
                    if limit is not None and len(infos) >= limit:
                        return infos[:limit]
            except FileNotFoundError:
                return []
        return sorted(infos, key=lambda info: info.path)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """The names of the folders directly below a prefix."""
        with self._calls.making("list", prefix):
            try:
                found = obstore.list_with_delimiter(self._readable(), prefix)
            except FileNotFoundError:
                return ()
        names = (str(path).rstrip("/").rpartition("/")[2] for path in found["common_prefixes"])
        return tuple(sorted(names))

    def delete(self, path: str) -> None:
        """Delete an object; one that is not there counts as deleted."""
        try:
            with self._calls.making("delete", path):
                obstore.delete(self._writable(), path)
        except ObjectMissing:
            return

    def delete_prefix(self, prefix: str) -> int:
        """Delete every object below a prefix, the deepest first; how many there were."""
        below = self.list(prefix)
        for info in reversed(below):
            self.delete(info.path)
        return len(below)

    def remove_empty_folders(self, prefix: str) -> None:
        """Remove the folder of a prefix and those below it, as far as they are empty.

        Only a disk has folders. One that somebody fills meanwhile stays.
        """
        if not self._location.is_local:
            return
        with self._calls.making("remove_folders", prefix):
            for folder, _, _ in os.walk(self._location.path(prefix), topdown=False):
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in _STILL_USED:
                        raise

    def delete_tree(self, path: str) -> int:
        """Delete an object, or everything below a folder of that name; how many there were.

        A local folder that somebody emptied and did not come to remove has nothing to delete.
        """
        below = self.delete_prefix(path)
        if below or (self._location.is_local and self._location.path(path).is_dir()):
            return below
        self.delete(path)
        return 1

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.get(path) == data
        except ObjectMissing:
            return False

    def _readable(self) -> ObjectStore:
        if self._opened is None:
            if self._location.is_local and not self._location.path("").is_dir():
                raise FileNotFoundError(f"No such folder: {self._location}")
            self._opened = self._open(mkdir=False)
        return self._opened

    def _writable(self) -> ObjectStore:
        if self._opened is None:
            self._opened = self._open(mkdir=True)
        return self._opened

    def _open(self, *, mkdir: bool) -> ObjectStore:
        if self._location.is_local:
            return LocalStore(self._location.root, mkdir=mkdir)
        return open_bucket(self._location)


def open_bucket(location: GraphLocation) -> S3Store:
    """The same store as Lance opens with the same options, which obstore sorts into three kinds."""
    options = location.options
    config = {name: value for name, value in options.items() if name.startswith("aws_")}
    client: ClientConfig = {
        "connect_timeout": options["connect_timeout"],
        "timeout": options["timeout"],
        "allow_http": options.get("allow_http") == "true",
    }
    retry: RetryConfig = {
        "max_retries": int(options["client_max_retries"]),
        "retry_timeout": timedelta(seconds=int(options["client_retry_timeout"])),
    }
    return S3Store.from_url(
        location.root,
        config=cast("S3Config", config),  # the names are those of obstore
        client_options=client,
        retry_config=retry,
    )


def encode(content: Mapping[str, Any]) -> bytes:
    """Canonical JSON with the format number."""
    body = {"format": OBJECT_FORMAT, **content}
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes, path: str) -> dict[str, Any]:
    """The content of a control object.

    Raises:
        StorageVersionTooNew: a later release wrote it.
        ValueError: it is no control object.
    """
    return require_format(parse(data, path), path)


def parse(data: bytes, path: str) -> dict[str, Any]:
    """The content of a control object of any release.

    Raises:
        ValueError: it is no control object.
    """
    content = json.loads(data)
    written = content.get("format") if isinstance(content, dict) else None
    if not isinstance(written, int) or written < 1:
        raise ValueError(f"{path} has no format number")
    return dict(content)


def require_format(content: dict[str, Any], path: str) -> dict[str, Any]:
    """The content of a control object, if this release knows its shape.

    Raises:
        StorageVersionTooNew: a later release wrote it.
    """
    written = content["format"]
    if written > OBJECT_FORMAT:
        raise StorageVersionTooNew(
            f"{path} has format {written}, this release reads {OBJECT_FORMAT}; upgrade omnigraph",
            path=path,
            found=written,
            known=OBJECT_FORMAT,
        )
    return content


def _info(meta: ObjectMeta) -> ObjectInfo:
    return ObjectInfo(
        path=str(meta["path"]),
        size_bytes=int(meta["size"]),
        modified_us=int(meta["last_modified"].timestamp() * 1_000_000),
    )
