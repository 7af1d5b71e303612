"""A file that a command writes: complete under its name, or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from omnigraph.errors import InvalidArgument


@contextmanager
def replacing(path: Path, *, option: str = "--out") -> Iterator[IO[bytes]]:
    """A file beside the named one that takes its place, durably, when the block succeeds.

    `option` is what named it, for messages.

    Raises:
        InvalidArgument: it cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            raise InvalidArgument(
                f"{option} {str(path)!r}: is no file; name one that may be written",
                option=option,
                path=str(path),
            )
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        file = part.open("wb")
    except OSError as error:
        raise _unwritable(path, option, error) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _unwritable(path, option, error) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _unwritable(path: Path, option: str, error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"{option} {str(path)!r}: cannot be written ({error.strerror}); check the folder and its"
        " rights",
        option=option,
        path=str(path),
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
