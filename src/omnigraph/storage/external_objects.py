"""Objects outside the graph that a blob may refer to: whether one is there, and how large it is.

Nothing is read or written here. Buckets are asked with the same credentials as that of the graph.
A file is where its links lead: it must lie in its folder then, too. That holds for the moment of
the look. Whoever may write to the folder can put a link there later, so whoever opens the file
looks again.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import NoSync
from omnigraph.storage.location import GraphLocation, parse_location
from omnigraph.storage.objects import StorageAdapter
from omnigraph.storage.signals import LeadsOut, ObjectMissing

if TYPE_CHECKING:
    from omnigraph.settings import StorageSettings


class ExternalObjects:
    """Looks at single objects; safe to share between threads."""

    __slots__ = ("_calls", "_settings")

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._calls = StoreCalls()

    def real_path(self, path: str) -> Path:
        """Where a local file or folder lies, once its links are followed.

        Raises:
            ObjectMissing: there is none.
            StorageDenied, StorageUnavailable: it cannot be looked at.
        """
        with self._calls.making("probe", path):
            real = _followed(path)
            status = real.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise ObjectMissing(f"{path} is no folder")
        return real

    def file_size(self, path: str, *, inside: str) -> int:
        """How many bytes a local file has that lies in a folder, also once links are followed.

        Raises:
            LeadsOut: a link on the way leads out of the folder, whatever is there.
            ObjectMissing: there is no such file.
            StorageDenied, StorageUnavailable: it cannot be looked at.
        """
        with self._calls.making("probe", path):
            real = _followed(path)
            if not real.is_relative_to(_followed(inside)):
                raise LeadsOut(f"{path} lies outside of {inside}")
            # Not through a link: what is looked at is what was compared.
            status = real.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise ObjectMissing(f"{path} is no file")
        return status.st_size

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
        info = StorageAdapter(location, calls, NoSync()).head(key)
        if info is None:
            raise ObjectMissing(f"{root} has no object {key!r}")
        return info.size_bytes


def _followed(path: str) -> Path:
    # `Path.resolve` fails on links in a circle, which are just no file.
    return Path(os.path.realpath(path))
