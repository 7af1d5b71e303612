"""Reads the `.gq` files that hold stored queries: single files, and folders of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.lang import QueryFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SUFFIX: Final = ".gq"


def read_query_files(places: str | Path | Sequence[str | Path]) -> list[QueryFile]:
    """The files that are named, and those of the folders that are named, by name; each once.

    Of a folder only its own `*.gq` count. What cannot be read is told by the file's `problem`.
    """
    given = (places,) if isinstance(places, str | Path) else places
    paths = dict.fromkeys(path for place in given for path in _paths(Path(place)))
    return [_read(path) for path in paths]


def _paths(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from sorted(path for path in place.iterdir() if path.suffix == SUFFIX)
    else:
        yield place


def _read(path: Path) -> QueryFile:
    try:
        return QueryFile(path=str(path), data=path.read_bytes())
    except OSError as error:
        return QueryFile(
            path=str(path), problem=f"the file cannot be read: {error.strerror or error}"
        )
