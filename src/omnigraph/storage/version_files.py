"""Finds the newest version of a line on a local disk at a cost that its history does not change.

Lance names versions by number, and on a disk it finds the newest by listing the folder, which takes
as long as the line has versions. Here a version that is known to have existed is where the search
starts: versions follow each other without a gap, so the newest is the last one that is there.

Only removing old versions makes gaps. Whoever removes some first leaves a mark: a file whose name
tells the number up to which versions may be missing. The greatest counts, so a mark that somebody
leaves late takes nothing back. A search that ends at or below it proves nothing, and the folder is
listed after all. Marks are read after the search: they are written before the removal.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from omnigraph.storage.files import version_name, version_of_name

if TYPE_CHECKING:
    from pathlib import Path

_HINT: Final = "latest_version_hint.json"
"""Lance leaves the number of a recent version here with each commit; it may be late."""

_MARK: Final = "cleaned-"
"""How the marks begin, which lie beside the folder of versions."""

_MARKS_KEPT: Final = 2
"""So that whoever lists them while one comes and one goes meets at least one that counts."""


def newest_version(line: Path, known: int | None = None) -> int:
    """The number of the newest version of a line, fresh from the disk.

    Args:
        line: The folder of the line.
        known: A version that once was the newest, if one is known.

    Raises:
        FileNotFoundError: there is no such line.
    """
    folder = line / "_versions"
    newest = None if known is None else _searched(line, folder, known)
    if newest is None:
        newest = _searched(line, folder, _hinted(folder))
    return _listed(folder) if newest is None else newest


def _searched(line: Path, folder: Path, start: int) -> int | None:
    """The newest version as a search from `start` finds it, if that proves anything."""
    if not start or not _is_there(folder, start):
        return None
    newest = _last_from(folder, start)
    return newest if newest > cleaned_upto(line) else None


def cleaned_upto(line: Path) -> int:
    """The number up to which versions of a line may have been removed; 0 if none was."""
    return max(_marks(line), default=0)


def cleaned_mark(version: int) -> str:
    """The name of the mark that versions up to this one may be missing."""
    return f"{_MARK}{version}"


def spent_marks(line: Path) -> list[str]:
    """The names of the marks that newer ones have made useless."""
    return [cleaned_mark(version) for version in sorted(_marks(line))[:-_MARKS_KEPT]]


def _marks(line: Path) -> list[int]:
    try:
        names = os.listdir(line)  # noqa: PTH208 - asked at every read
    except FileNotFoundError:
        return []
    marks = (name.removeprefix(_MARK) for name in names if name.startswith(_MARK))
    return [int(mark) for mark in marks if mark.isdecimal()]


def _hinted(folder: Path) -> int:
    """What Lance left; 0 if it left nothing that can be read."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads((folder / _HINT).read_bytes())["version"])
    return 0


def _last_from(folder: Path, start: int) -> int:
    """The last of the versions that follow `start` without a gap, which itself is there."""
    step, low = 1, start
    while _is_there(folder, low + step):
        low += step
        step *= 2
    high = low + step  # It is not there; what lies between is found by halving.
    while high - low > 1:
        middle = (low + high) // 2
        if _is_there(folder, middle):
            low = middle
        else:
            high = middle
    return low


def _is_there(folder: Path, version: int) -> bool:
    try:
        os.stat(f"{folder}/{version_name(version)}")  # noqa: PTH116 - asked at every read
    except FileNotFoundError:
        return False
    return True


def _listed(folder: Path) -> int:
    with os.scandir(folder) as entries:
        versions = (version_of_name(entry.name) for entry in entries)
        newest = max((version for version in versions if version is not None), default=None)
    if newest is None:
        raise FileNotFoundError(f"no version in {folder}")
    return newest
