"""An input file as a stream that can be read and sought; each read finds out if it changed."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.storage.input_files import InputFile, InputFiles


class FileRanges(io.RawIOBase):
    """Reads ranges of one file."""

    def __init__(self, files: InputFiles, file: InputFile) -> None:
        self._files = files
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Read on from another place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size_bytes}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # the stubs ask for a private type
        """The next bytes."""
        data = self._files.read(self._file, self._at, self._at + len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
