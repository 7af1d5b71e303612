"""The source of a load as callers give it, and the lane that it takes.

One NDJSON input up to the threshold is read here and loaded in this process; so is one CSV or
Parquet file that can be read without Spark. Folders, globs, addresses, other formats and larger
inputs belong to Spark, and with an active session of Spark every input that Spark can read does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Literal, TypeAlias
from urllib.parse import unquote

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.graph.validation import arrow_table
from omnigraph.lang.suggest import did_you_mean
from omnigraph.pipeline.files.formats import guess_format, reader_options

if TYPE_CHECKING:
    from omnigraph.engine.writes.loads import LoadContent
    from omnigraph.graph.validation import ArrowRows

LoadSource: TypeAlias = "str | Path | bytes | BinaryIO | Mapping[str, ArrowRows]"

NDJSON: Final = "ndjson"
_COMPRESSED: Final = (".gz", ".gzip", ".zst", ".bz2", ".xz")
_FORMATS: Final = (NDJSON, "json", "csv", "parquet", "orc", "table")
_HERE: Final = (NDJSON, "csv", "parquet")
"""Formats of which one file of moderate size needs no Spark."""
_ENGINES: Final = ("auto", "local", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Where a load runs, and what decided it; `why` is empty for the usual lane of a file."""

    engine: Literal["local", "spark"]
    why: str = ""


def choose_lane(
    source: LoadSource,
    *,
    format: str | None,
    engine: str,
    most_bytes: int,
    has_session: bool = False,
    options: Mapping[str, str] | None = None,
) -> Lane:
    """Where a load runs: one NDJSON, CSV or Parquet file of moderate size here, all else on Spark.

    `has_session`: a session of Spark is active, so that nobody waits for one to start. `options`:
    of Spark's reader.

    Raises:
        InvalidArgument: the engine that is asked for cannot take the source.
        SourceError: there is no such format.
    """
    if engine not in _ENGINES:
        raise InvalidArgument(
            f"engine is 'auto', 'local' or 'spark', not {engine!r}", argument="engine"
        )
    if not isinstance(source, str | Path):
        return _lane_of_rows(format_of(source, format), engine)
    path = local_path(source)
    kind = format_of(source, format)
    why = f"the format {kind}" if kind not in _HERE else _why_spark(source, path, most_bytes)
    if why is None and kind != NDJSON and engine != "spark" and path.is_file():
        from omnigraph.pipeline.sources.local_source import why_spark

        why = why_spark(path, kind, reader_options(str(path), kind, options or {}))
    if engine == "spark" or (why is not None and engine == "auto"):
        return Lane(engine="spark", why=why or "")
    if why is not None:
        raise InvalidArgument(
            f"{why} needs Spark; leave the engine out, or give 'spark'", argument="engine"
        )
    if has_session and engine == "auto":
        return Lane(engine="spark", why="a Spark session is active")
    return Lane(engine="local")


def has_active_session() -> bool:
    """Whether this process has a session of Spark already; starts and imports none."""
    from omnigraph.pipeline.spark.session import find_active_session

    return find_active_session() is not None


def format_of(source: LoadSource, given: str | None) -> str:
    """The format that is given, or the one that the ending of the name tells.

    Raises:
        SourceError: there is no such format.
    """
    if given is not None and given not in _FORMATS:
        hint = did_you_mean(given, _FORMATS, otherwise="the formats are")
        raise SourceError(f"there is no format {given!r}{hint}", format=given)
    if given is not None or not isinstance(source, str | Path):
        return given or NDJSON
    return guess_format(str(source)).value


def require_graph_lines(source: LoadSource, format: str | None) -> None:
    """Refuse a tabular source where nothing says what its rows become.

    Raises:
        InvalidArgument: it is one.
        SourceError: there is no such format.
    """
    kind = format_of(source, format)
    if kind != NDJSON and isinstance(source, str | Path):
        raise InvalidArgument(
            f"{source} is read as {kind}, whose rows name no types; load it with"
            " graph.pipeline().load(…, type=…) or (…, edge=…), or give the format 'ndjson' if it"
            " is a file of graph lines",
            argument="format",
        )


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


def source_name(source: LoadSource) -> str | None:
    """What bad rows of an in-process load say that they come from: the file, if it is one."""
    return str(local_path(source).absolute()) if isinstance(source, str | Path) else None


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


def _lane_of_rows(kind: str, engine: str) -> Lane:
    if engine == "spark":
        raise InvalidArgument(
            "Spark reads files: give a path, a folder, a pattern or an address as the source",
            argument="source",
        )
    if kind != NDJSON:
        raise InvalidArgument(
            f"the format {kind!r} is one of files; rows in memory come as NDJSON bytes or as"
            " Arrow data",
            argument="format",
        )
    return Lane(engine="local")


def _why_spark(source: str | Path, path: Path, most_bytes: int) -> str | None:
    """What of a path needs Spark; `None` for one NDJSON file of moderate size, or none at all."""
    text = str(source)
    if isinstance(source, str) and "://" in text and not text.startswith("file://"):
        return "an address"
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
