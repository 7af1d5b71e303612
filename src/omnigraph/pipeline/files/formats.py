"""The format of a source, by the ending of its name; needs nothing of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnigraph.pipeline.spec.pipeline_spec import SourceFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIXES: Final = {
    ".parquet": SourceFormat.PARQUET,
    ".csv": SourceFormat.CSV,
    ".tsv": SourceFormat.CSV,
    ".orc": SourceFormat.ORC,
}
_PACKED: Final = (".gz", ".gzip", ".bz2", ".zst", ".xz")


def guess_format(where: str) -> SourceFormat:
    """By the ending of the name, or of all files of a local folder; the graph format otherwise."""
    formats = {_SUFFIXES.get(each, SourceFormat.NDJSON) for each in _endings(where)}
    return formats.pop() if len(formats) == 1 else SourceFormat.NDJSON


def reader_options(where: str, form: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's reader, with the tab that parts the values of `.tsv` files."""
    options = {str(name): str(value) for name, value in given.items()}
    if form == SourceFormat.CSV and _endings(where) == {".tsv"}:
        options.setdefault("sep", "\t")
    return options


def _endings(where: str) -> set[str]:
    names = [where]
    if "://" not in where:
        names = _names_in(Path(where)) or names
    return {_ending(name) for name in names}


def _names_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir() if each.name[:1] not in "._"]
    except OSError:
        # No folder, or one that cannot be looked at: whoever reads it says why.
        return []


def _ending(name: str) -> str:
    path = Path(name.lower())
    return path.with_suffix("").suffix if path.suffix in _PACKED else path.suffix
