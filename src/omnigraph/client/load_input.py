"""The input of a remote load as the lines that one request carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from omnigraph.client.calls import not_served
from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.limits import MAX_REQUEST_LOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.validation import ArrowRows

LineSource: TypeAlias = "str | Path | bytes | BinaryIO"
LoadSource: TypeAlias = "LineSource | Mapping[str, ArrowRows]"

_ONE_MORE = MAX_REQUEST_LOAD_BYTES + 1


def read_lines(source: LineSource) -> bytes:
    """The lines, read completely; one byte more than a request takes tells that there is more.

    Raises:
        InvalidArgument: it is no source.
        SourceError: it is missing or cannot be read.
        NotServed: it is a folder or an address.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | Path):
        return _read_file(_path(source))
    if hasattr(source, "read"):
        content = source.read(_ONE_MORE)
        if isinstance(content, bytes):
            return content
        raise InvalidArgument(
            "the source gives text; open it in binary mode ('rb')", argument="source"
        )
    raise InvalidArgument(
        "a source is a path, NDJSON bytes, an open binary file, or a mapping of type names to"
        f" Arrow data, not {type(source).__name__}",
        argument="source",
    )


def _path(source: str | Path) -> Path:
    text = str(source)
    if "\0" in text or (isinstance(source, str) and "\n" in text):
        raise InvalidArgument(
            "a text is the path of a file and this one is none; give NDJSON as bytes",
            argument="source",
        )
    if "://" in text or Path(text).is_dir():
        raise not_served(
            f"load of {text}", "load it with access to storage: omnigraph load --store"
        )
    return Path(text)


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(_ONE_MORE)
    except FileNotFoundError as error:
        raise SourceError(
            f"there is no file {path}; check the path, and the folder that it starts from",
            path=str(path),
        ) from error
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {error.strerror or error}", path=str(path)
        ) from error
