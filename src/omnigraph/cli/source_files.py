"""Reading the schema and query files that a command names."""

from pathlib import Path

from omnigraph.errors import InvalidArgument
from omnigraph.limits import MAX_SOURCE_BYTES


def read_source_file(path: Path, option: str) -> bytes:
    """The bytes of a source; `option` is the one that named it, for messages.

    Raises:
        InvalidArgument: nothing there, a folder, not readable, or larger than any source may be.
    """
    name = repr(str(path))
    try:
        with path.open("rb") as file:
            # The bound also holds for devices and pipes, which have no size to look at.
            data = file.read(MAX_SOURCE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"{option} {name}: {_explain(error)}", option=option, path=str(path)
        ) from error
    if len(data) > MAX_SOURCE_BYTES:
        raise InvalidArgument(
            f"{option} {name}: larger than {MAX_SOURCE_BYTES:,} bytes, the limit of a source; "
            "split it into several files",
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
