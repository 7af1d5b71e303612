"""The source of a load as callers give it, and the lane that it takes.

One NDJSON input up to the threshold is read here and loaded in this process. Folders, globs,
addresses, other formats and larger inputs belong to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias
from urllib.parse import unquote

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.graph.job_report import LoadMode
from omnigraph.graph.validation import arrow_table

if TYPE_CHECKING:
    from omnigraph.engine.loads import LoadContent
    from omnigraph.graph.validation import ArrowRows

LoadSource: TypeAlias = "str | Path | bytes | BinaryIO | Mapping[str, ArrowRows]"

_TABULAR: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".orc": "orc",
    ".avro": "avro",
    ".gz": "compressed",
    ".zst": "compressed",
    ".bz2": "compressed",
}
_FORMATS: Final = ("ndjson", "json", "csv", "parquet", "orc", "table")
_ENGINES: Final = ("auto", "local", "spark")


def checked_mode(mode: str) -> LoadMode:
    """What the load does with rows that exist.

    Raises:
        InvalidArgument: it is no mode.
    """
    try:
        return LoadMode(mode)
    except ValueError as error:
        raise InvalidArgument(
            f"mode is 'append' (rows must be new), 'merge' (replace rows of the same id) or"
            f" 'overwrite' (replace each type of the input), not {mode!r}",
            argument="mode",
        ) from error


def require_no_rejects(on_error: str, rejects: str | None) -> None:
    """Refuse what only the pipeline can do with bad rows.

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


def read_content(
    source: LoadSource, *, format: str | None, engine: str, most_bytes: int
) -> LoadContent:
    """The input of an in-process load, read completely.

    Raises:
        InvalidArgument: it is no source, or it needs the lane that was not asked for.
        SourceError: it is missing or cannot be read.
    """
    _require_known(format, engine)
    if isinstance(source, Mapping):
        return {str(name): arrow_table(str(name), rows) for name, rows in source.items()}
    if isinstance(source, bytes | bytearray | memoryview):
        return _within(bytes(source), "the input", most_bytes)
    if isinstance(source, str | Path):
        return _read_file(source, format=format, most_bytes=most_bytes)
    if hasattr(source, "read"):
        # One byte more than is taken tells whether there is more.
        return _within(_read_stream(source, most_bytes + 1), "the stream", most_bytes)
    raise InvalidArgument(
        "a source is a path, NDJSON bytes, an open binary file, or a mapping of type names to"
        f" Arrow data, not {type(source).__name__}",
        argument="source",
    )


def _require_known(format: str | None, engine: str) -> None:
    if format is not None and format not in _FORMATS:
        raise SourceError(
            f"there is no format {format!r}; there are {', '.join(_FORMATS)}", format=format
        )
    if engine not in _ENGINES:
        raise InvalidArgument(
            f"engine is 'auto', 'local' or 'spark', not {engine!r}", argument="engine"
        )
    if engine == "spark":
        raise _needs_spark("the engine 'spark'")
    if format not in (None, "ndjson"):
        raise _needs_spark(f"the format {format!r}")


def _read_file(source: str | Path, *, format: str | None, most_bytes: int) -> bytes:
    text = str(source)
    if "\0" in text or (isinstance(source, str) and "\n" in text):
        raise InvalidArgument(
            "a text is the path of a file and this one is none; give NDJSON as bytes",
            argument="source",
        )
    if isinstance(source, str) and "://" in text:
        if not text.startswith("file://"):
            raise _needs_spark("an address")
        text = unquote(text.removeprefix("file://"))
    path = Path(text)
    kind = _TABULAR.get(path.suffix.lower())
    if format is None and kind is not None:
        raise _needs_spark(f"a {kind} file")
    try:
        if path.is_dir():
            raise _needs_spark("a folder")
        if not path.exists() and any(sign in text for sign in "*?["):
            raise _needs_spark("a pattern of file names")
        size_bytes = path.stat().st_size
        if size_bytes > most_bytes:
            raise _too_large(f"{path} has {size_bytes:,} bytes", most_bytes)
        return _within(path.read_bytes(), str(path), most_bytes)
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {path}", path=str(path)) from error
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}", path=text) from error


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
        f"{what}; a load in this process takes {most_bytes:,} (OMNIGRAPH_SPARK_MIN_INPUT_BYTES)"
        " and larger ones need Spark, which is not in this version: load it in parts",
        argument="source",
        limit=most_bytes,
    )


def _needs_spark(what: str) -> InvalidArgument:
    return InvalidArgument(
        f"{what} needs Spark, which is not in this version; give one NDJSON file",
        argument="engine",
    )
