"""The source of a load as callers give it, and the lane that it takes.

One NDJSON input up to the threshold is read here and loaded in this process. Folders, globs,
addresses, other formats and larger inputs belong to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias
from urllib.parse import unquote

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.graph.validation import arrow_table

if TYPE_CHECKING:
    from omnigraph.engine.loads import LoadContent
    from omnigraph.graph.validation import ArrowRows

LoadSource: TypeAlias = "str | Path | bytes | BinaryIO | Mapping[str, ArrowRows]"

_OTHER_FILES: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".orc": "orc",
    ".avro": "avro",
}
_COMPRESSED: Final = (".gz", ".gzip", ".zst", ".bz2", ".xz")
_FORMATS: Final = ("ndjson", "json", "csv", "parquet", "orc", "table")
_ENGINES: Final = ("auto", "local", "spark")


def require_no_rejects(on_error: str, rejects: str | None) -> None:
    """Refuse what no lane can do with bad rows yet.

    Raises:
        InvalidArgument: it is asked for.
    """
    if on_error not in ("fail", "quarantine"):
        raise InvalidArgument(
            f"on_error is 'fail' or 'quarantine', not {on_error!r}", argument="on_error"
        )
    if on_error == "quarantine" or rejects is not None:
        raise InvalidArgument(
            "bad rows cannot be set aside in this version; leave on_error and rejects out, correct"
            " the rows that the error lists and load again",
            argument="on_error",
        )


def choose_lane(
    source: LoadSource, *, format: str | None, engine: str, most_bytes: int
) -> Literal["local", "spark"]:
    """Where a load runs: one NDJSON input of moderate size here, all else on Spark.

    Raises:
        InvalidArgument: the engine that is asked for cannot take the source.
        SourceError: there is no such format, or none that this version reads.
    """
    _require_known(format, engine)
    if not isinstance(source, str | Path):
        if engine == "spark":
            raise InvalidArgument(
                "Spark reads files: give a path, a folder, a pattern or an address as the source",
                argument="source",
            )
        if format not in (None, "ndjson"):
            raise InvalidArgument(
                f"the format {format!r} is one of files; rows in memory come as NDJSON bytes or as"
                " Arrow data",
                argument="format",
            )
        return "local"
    _require_lines(source, format)
    why = _why_spark(source, most_bytes=most_bytes)
    if engine == "spark" or (why is not None and engine == "auto"):
        return "spark"
    if why is not None:
        raise InvalidArgument(
            f"{why} needs Spark; leave the engine out, or give 'spark'", argument="engine"
        )
    return "local"


def read_content(source: LoadSource, *, most_bytes: int) -> LoadContent:
    """The input of an in-process load, read completely.

    Raises:
        InvalidArgument: it is no source, or it is too large.
        SourceError: it is missing or cannot be read.
    """
    if isinstance(source, Mapping):
        return {str(name): arrow_table(str(name), rows) for name, rows in source.items()}
    if isinstance(source, bytes | bytearray | memoryview):
        return _within(bytes(source), "the input", most_bytes)
    if isinstance(source, str | Path):
        return _read_file(local_path(source), most_bytes)
    if hasattr(source, "read"):
        # One byte more than is taken tells whether there is more.
        return _within(_read_stream(source, most_bytes + 1), "the stream", most_bytes)
    raise InvalidArgument(
        "a source is a path, NDJSON bytes, an open binary file, or a mapping of type names to"
        f" Arrow data, not {type(source).__name__}",
        argument="source",
    )


def local_path(source: str | Path) -> Path:
    """The path that a text or a `file://` address names.

    Raises:
        InvalidArgument: it is no path.
    """
    text = str(source)
    if "\0" in text or (isinstance(source, str) and "\n" in text):
        raise InvalidArgument(
            "a text is the path of a file and this one is none; give NDJSON as bytes",
            argument="source",
        )
    if isinstance(source, str) and text.startswith("file://"):
        text = unquote(text.removeprefix("file://"))
    if not text.strip():
        raise InvalidArgument(
            "the source is empty; name a file, a folder or a pattern", argument="source"
        )
    return Path(text)


def _require_known(format: str | None, engine: str) -> None:
    if format is not None and format not in _FORMATS:
        raise SourceError(
            f"there is no format {format!r}; there are {', '.join(_FORMATS)}", format=format
        )
    if engine not in _ENGINES:
        raise InvalidArgument(
            f"engine is 'auto', 'local' or 'spark', not {engine!r}", argument="engine"
        )


def _require_lines(source: str | Path, format: str | None) -> None:
    kind = _OTHER_FILES.get(Path(str(source)).suffix.lower()) if format is None else format
    if kind not in (None, "ndjson"):
        raise SourceError(
            f"{source} is read as {kind}, which is not in this version; give files of JSON lines,"
            " or the format 'ndjson' if it is one of them",
            format=kind,
        )


def _why_spark(source: str | Path, *, most_bytes: int) -> str | None:
    """What of a path needs Spark; `None` for one NDJSON file of moderate size, or none at all."""
    text = str(source)
    if isinstance(source, str) and "://" in text and not text.startswith("file://"):
        return "an address"
    path = local_path(source)
    if path.suffix.lower() in _COMPRESSED:
        return "a compressed file"
    try:
        if path.is_dir():
            return "a folder"
        if not path.exists():
            return "a pattern of file names" if any(sign in text for sign in "*?[") else None
        size_bytes = path.stat().st_size
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}", path=text) from error
    if size_bytes > most_bytes:
        return f"a file of {size_bytes:,} bytes (more than {most_bytes:,})"
    return None


def _read_file(path: Path, most_bytes: int) -> bytes:
    try:
        with path.open("rb") as opened:
            # One byte more than is taken tells whether there is more; a pipe has no size.
            return _within(opened.read(most_bytes + 1), str(path), most_bytes)
    except FileNotFoundError as error:
        raise SourceError(
            f"there is no file {path}; check the path, and the folder that it starts from",
            path=str(path),
        ) from error
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {error.strerror or error}", path=str(path)
        ) from error


def _read_stream(source: BinaryIO, size: int) -> bytes:
    parts: list[bytes] = []
    left = size
    while left > 0:
        try:
            part = source.read(left)
        except (OSError, ValueError) as error:  # ValueError: it is closed
            raise SourceError(f"cannot read the stream: {error}") from error
        if not isinstance(part, bytes):
            raise InvalidArgument(
                "the source gives text; open it in binary mode ('rb')", argument="source"
            )
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _within(content: bytes, what: str, most_bytes: int) -> bytes:
    if len(content) > most_bytes:
        raise _too_large(f"{what} has more than {most_bytes:,} bytes", most_bytes)
    return content


def _too_large(what: str, most_bytes: int) -> InvalidArgument:
    return InvalidArgument(
        f"{what}; a load in this process takes {most_bytes:,} (OMNIGRAPH_SPARK_MIN_INPUT_BYTES) and"
        " larger ones run on Spark, which reads files: write it to a file and give its path",
        argument="source",
        limit=most_bytes,
    )
