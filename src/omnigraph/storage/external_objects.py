"""Objects outside the graph that a blob may refer to: whether one is there, and how large it is.

Nothing is read or written here. Buckets are asked with the same credentials as that of the graph.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import NoSync
from omnigraph.storage.location import GraphLocation, parse_location
from omnigraph.storage.objects import StorageAdapter
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from omnigraph.settings import StorageSettings


class ExternalObjects:
    """Looks at single objects; safe to share between threads."""

    __slots__ = ("_calls", "_settings")

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._calls = StoreCalls()

    def file_size(self, path: str) -> int:
        """How many bytes a local file has.

        Raises:
            ObjectMissing: there is no such file.
            StorageDenied, StorageUnavailable: it cannot be looked at.
        """
        with self._calls.making("probe", path):
            found = Path(path).stat()
        if not stat.S_ISREG(found.st_mode):
            raise ObjectMissing(f"{path} is no file")
        return found.st_size

    def object_size(self, bucket: str, key: str) -> int:
        """How many bytes an object of a bucket has.

        Raises:
            ObjectMissing: there is no such object.
            StorageDenied, StorageUnavailable, InvalidArgument: it cannot be looked at.
        """
        root = f"s3://{bucket}"
        options = parse_location(f"{root}/-", self._settings).options
        location = GraphLocation(root=root, is_local=False, options=options)
        calls = StoreCalls(root=root)
        found = StorageAdapter(location, calls, NoSync()).head(key)
        if found is None:
            raise ObjectMissing(f"{root} has no object {key!r}")
        return found.size_bytes
