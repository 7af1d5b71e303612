"""What a power cut leaves of files that were never synced: names without their content.

A version that was acknowledged is synced first, so a version file that does not end as Lance ends
it, or a ref that is no JSON, belongs to a write that nobody was told of. On a running machine no
reader can see one: Lance writes a file completely before it gets its name. Only local disks can
hold such files, and only a process that may write sets them aside, under a name that Lance does not
read: if it was damage after all, nothing is lost.
"""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from omnigraph.storage.files import version_name
from omnigraph.storage.version_files import newest_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.location import GraphLocation

log = logging.getLogger(__name__)

_LANCE_END: Final = b"LANC"


def remove_torn_versions(
    location: GraphLocation, calls: StoreCalls, line: str, *, keeps_last: bool
) -> None:
    """Set aside torn versions at the end of a line; a whole newest one costs a look at its end.

    A line without any whole version is not what a power cut leaves of a line in use: all of it is
    damaged, and it stays as it is. Only a branch may also have been torn while it was made: without
    `keeps_last` it goes too.
    """
    folder = location.path(line) / "_versions"
    if not location.is_local or not folder.is_dir():
        return
    with calls.making("remove_torn", line):
        _set_aside(_torn_versions(location.path(line), keeps_last=keeps_last))


def remove_torn_refs(
    location: GraphLocation, calls: StoreCalls, dataset: str, name: str | None = None
) -> None:
    """Set aside refs of lines that a power cut tore: all such, or the one of this name."""
    if not location.is_local:
        return
    folder = location.path(dataset) / "_refs" / "branches"
    with calls.making("remove_torn", dataset):
        refs = folder.glob("*.json") if name is None else [folder / f"{name}.json"]
        _set_aside(path for path in refs if not _is_json(path))


def _torn_versions(line: Path, *, keeps_last: bool) -> list[Path]:
    """Newest versions that are not whole."""
    folder = line / "_versions"
    try:
        newest = newest_version(line)
    except FileNotFoundError:
        return []
    if _is_whole(folder / version_name(newest)):
        return []
    torn: list[Path] = []
    for path in sorted(folder.glob("*.manifest")):
        if _is_whole(path):
            return torn
        torn.append(path)
    return [] if keeps_last else torn


def _is_whole(path: Path) -> bool:
    """Whether it ends as Lance ends it; one that others have just removed is no concern."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return True
    with file:
        if file.seek(0, os.SEEK_END) < len(_LANCE_END):
            return False
        file.seek(-len(_LANCE_END), os.SEEK_END)
        return file.read() == _LANCE_END


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError:
        return True
    except ValueError:
        return False
    return True


def _set_aside(paths: Iterable[Path]) -> None:
    for path in paths:
        log.warning("set a torn file aside", extra={"path": path.name})
        with suppress(FileNotFoundError):  # Another opener was faster.
            path.rename(path.with_name(f"{path.name}.torn"))
