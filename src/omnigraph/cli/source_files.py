"""Reading the schema, query, parameter and resolution files that a command names."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from omnigraph.errors import InvalidArgument
from omnigraph.limits import MAX_REQUEST_BODY_BYTES, MAX_REQUEST_LOAD_BYTES, MAX_SOURCE_BYTES

STDIN: Final = Path("-")
"""Stands for standard input where a command allows it."""


def read_source_file(path: Path, option: str, *, allows_stdin: bool = False) -> bytes:
    """The bytes of a source; `option` is the one that named it, for messages.

    Raises:
        InvalidArgument: nothing there, a folder, not readable, or larger than any source may be.
    """
    remedy = "the limit of a source; split it into several files"
    return _read_bounded(path, option, MAX_SOURCE_BYTES, remedy, allows_stdin=allows_stdin)


def read_params_file(path: Path, option: str) -> bytes:
    """The bytes of a file with parameters, or of standard input.

    Raises:
        InvalidArgument: as `read_source_file`, or larger than any request may be.
    """
    remedy = "the limit of a request; give fewer or smaller values"
    return _read_bounded(path, option, MAX_REQUEST_BODY_BYTES, remedy, allows_stdin=True)


def read_resolutions_file(path: Path, option: str) -> bytes:
    """The bytes of a file that decides conflicts, or of standard input.

    Raises:
        InvalidArgument: as `read_source_file`, or larger than a load may be.
    """
    remedy = "the limit of such a file; decide most conflicts by --strategy"
    return _read_bounded(path, option, MAX_REQUEST_LOAD_BYTES, remedy, allows_stdin=True)


def _read_bounded(
    path: Path, option: str, limit_bytes: int, remedy: str, *, allows_stdin: bool
) -> bytes:
    name = repr(str(path))
    is_stdin = allows_stdin and path == STDIN and sys.stdin is not None
    try:
        # The bound also holds for devices and pipes, which have no size to look at.
        with nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"{option} {name}: {_explain(error)}", option=option, path=str(path)
        ) from error
    if len(data) > limit_bytes:
        raise InvalidArgument(
            f"{option} {name}: larger than {limit_bytes:,} bytes, {remedy}",
            option=option,
            path=str(path),
        )
    return data


def _explain(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError():
            return "no such file; check the path"
        case IsADirectoryError():
            return "is a folder; name a file in it"
        case PermissionError():
            return "not readable by this user; check its permissions"
        case OSError():
            return f"cannot be read ({error.strerror}); check the path"
        case _:
            return f"cannot be a path ({error})"
