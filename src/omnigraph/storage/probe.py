"""Finds out whether a store can hold a graph, before anything else is written, and be read.

Both Lance and the leases rest on "create if absent". On a local file system that needs hard links;
on an object store it needs conditional puts. A store that accepts the second create of one name
would let two writers win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import StorageUnavailable, StorageUnsupported
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from omnigraph.ids import IdSource
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.objects import StorageAdapter


def probe_store(location: GraphLocation, objects: StorageAdapter, ids: IdSource) -> None:
    """Create one object twice, and remove it.

    Raises:
        StorageUnsupported: the file system has no hard links, or the store overwrote the object.
    """
    name = f"__probe-{ids.next_ulid()}"
    try:
        objects.create(name, b"1")
    except StorageUnavailable as error:
        if not location.is_local:
            raise
        raise _unsupported(location, "cannot create a file through a hard link") from error
    try:
        objects.create(name, b"2")
    except AlreadyExists:
        return
    else:
        raise _unsupported(location, "let an object be created twice")
    finally:
        objects.delete(name)


def probe_reading(objects: StorageAdapter) -> bool:
    """List what there is and read a byte of it; whether there is anything. Changes nothing.

    Raises:
        StorageDenied: the credentials do not allow it.
        StorageUnavailable: the store gives no answer.
        InvalidArgument: the bucket does not exist.
    """
    try:
        infos = objects.list("", limit=1)
    except ObjectMissing as missing:
        raise StorageUnavailable(
            "the store answered that there is nothing of that name to list, as endpoints do that"
            " are no object stores; check the endpoint"
        ) from missing
    for info in infos:
        try:
            objects.get_range(info.path, 0, min(info.size_bytes, 1))
        except ObjectMissing:
            # Somebody deleted it; the store said so to us.
            continue
    return bool(infos)


def _unsupported(location: GraphLocation, what: str) -> StorageUnsupported:
    return StorageUnsupported(
        f"{location}: the store {what}; a graph needs a file system with hard links, or an object"
        " store with conditional puts",
        location=str(location),
    )
