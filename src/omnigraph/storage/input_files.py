"""Files that a load reads: found by path, folder or pattern, and read in ranges, never changed.

A file is remembered with its size and its mark (the etag of a bucket, the time of change of a local
file). Whoever reads a range later finds out whether it is still the same file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import obstore
from obstore.exceptions import BaseError, PreconditionError

from omnigraph.errors import InputChanged, SourceError
from omnigraph.storage.location import GraphLocation, parse_location
from omnigraph.storage.objects import open_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore.store import S3Store

    from omnigraph.settings import StorageSettings

_BUCKET: Final = re.compile(r"s3a?://([^/]+)/?(.*)", re.DOTALL | re.IGNORECASE)
_WILD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file, as it was when it was found."""

    uri: str
    size_bytes: int
    mark: str


class InputFiles:
    """Finds and reads input files; buckets are opened with the settings of this process."""

    def __init__(self, settings: StorageSettings) -> None:
        self._settings = settings
        self._buckets: dict[str, S3Store] = {}

    def find(self, where: str) -> list[InputFile]:
        """The files that a path, a folder or a pattern means, by name.

        Files whose names begin with a dot or an underscore are not meant by a folder or a pattern.

        Raises:
            SourceError: there is none, or it cannot be looked at.
        """
        bucket = _BUCKET.fullmatch(where)
        files = (
            self._find_local(where)
            if bucket is None
            else self._find_in_bucket(where, bucket[1], bucket[2])
        )
        if not files:
            raise SourceError(f"there is no file {where}", path=where)
        return files

    def read(self, file: InputFile, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, fewer where the file ends.

        Raises:
            InputChanged: it is not the file that was found.
            SourceError: it cannot be read.
        """
        end = min(end, file.size_bytes)
        if start >= end:
            return b""
        bucket = _BUCKET.fullmatch(file.uri)
        if bucket is None:
            return self._read_local(file, start, end)
        try:
            part = obstore.get(
                self._bucket(bucket[1]),
                bucket[2],
                options={"range": (start, end), "if_match": file.mark},
            )
            return bytes(part.bytes())
        except PreconditionError as error:
            raise _changed(file) from error
        except FileNotFoundError as error:
            raise _changed(file) from error
        except BaseError as error:
            raise SourceError(f"cannot read {file.uri}: {error}", path=file.uri) from error

    def require_same(self, files: Iterable[InputFile]) -> None:
        """Make sure that files are what they were when they were found.

        Raises:
            InputChanged: one is not, or is gone.
            SourceError: it cannot be looked at.
        """
        for file in files:
            bucket = _BUCKET.fullmatch(file.uri)
            try:
                now = (
                    [_local(Path(file.uri))]
                    if bucket is None
                    else self._find_object(bucket[1], bucket[2])
                )
            except FileNotFoundError as error:
                raise _changed(file) from error
            except (OSError, BaseError) as error:
                raise SourceError(f"cannot read {file.uri}: {error}", path=file.uri) from error
            if now != [file]:
                raise _changed(file)

    def _find_local(self, where: str) -> list[InputFile]:
        path = Path(unquote(where.removeprefix("file://")) if "://" in where else where)
        try:
            if path.is_dir():
                return [_local(member) for member in sorted(path.iterdir()) if _is_meant(member)]
            if path.exists():
                return [_local(path)]
            if _WILD.search(str(path)):
                return [_local(member) for member in sorted(_globbed(path)) if _is_meant(member)]
        except OSError as error:
            raise SourceError(
                f"cannot read {where}: {error.strerror or error}", path=where
            ) from error
        except ValueError as error:
            raise _no_pattern(where, error) from error
        return []

    def _find_in_bucket(self, where: str, bucket: str, key: str) -> list[InputFile]:
        wild = _WILD.search(key)
        # A folder has no object of its own: what lies below it is listed with a slash.
        prefix = key[: wild.start()].rpartition("/")[0] if wild else key.removesuffix("/")
        try:
            pattern = re.compile(_pattern(key) if wild else rf"{re.escape(prefix)}/[^/]+")
        except re.error as error:
            raise _no_pattern(where, error) from error
        if not prefix and not wild:
            pattern = re.compile(r"[^/]+")
        files: list[InputFile] = []
        try:
            if prefix == key and key:
                # A listing has what lies below a name, and not the object of that name.
                files += self._find_object(bucket, key)
            for chunk in obstore.list(self._bucket(bucket), prefix=prefix or None):
                for info in chunk:
                    name = info["path"].rpartition("/")[2]
                    if pattern.fullmatch(info["path"]) and name[:1] not in "._":
                        files.append(
                            InputFile(
                                uri=f"s3://{bucket}/{info['path']}",
                                size_bytes=info["size"],
                                mark=info["e_tag"] or "",
                            )
                        )
        except BaseError as error:
            raise SourceError(f"cannot list {where}: {error}", path=where) from error
        return sorted(files, key=lambda file: file.uri)

    def _find_object(self, bucket: str, key: str) -> list[InputFile]:
        try:
            info = obstore.head(self._bucket(bucket), key)
        except FileNotFoundError:
            return []
        return [
            InputFile(uri=f"s3://{bucket}/{key}", size_bytes=info["size"], mark=info["e_tag"] or "")
        ]

    def _read_local(self, file: InputFile, start: int, end: int) -> bytes:
        path = Path(file.uri)
        try:
            if _local(path) != file:
                raise _changed(file)
            with path.open("rb") as opened:
                opened.seek(start)
                data = opened.read(end - start)
        except FileNotFoundError as error:
            raise _changed(file) from error
        except OSError as error:
            raise SourceError(
                f"cannot read {path}: {error.strerror or error}", path=str(path)
            ) from error
        if len(data) != end - start:
            raise _changed(file)
        return data

    def _bucket(self, name: str) -> S3Store:
        if name not in self._buckets:
            root = f"s3://{name}"
            options = parse_location(f"{root}/-", self._settings).options
            self._buckets[name] = open_bucket(
                GraphLocation(root=root, is_local=False, options=options)
            )
        return self._buckets[name]


def _local(path: Path) -> InputFile:
    status = path.stat()
    return InputFile(
        uri=str(path.absolute()), size_bytes=status.st_size, mark=str(status.st_mtime_ns)
    )


def _is_meant(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((".", "_"))


def _globbed(path: Path) -> Iterator[Path]:
    parts = path.parts
    wild = next(at for at, part in enumerate(parts) if _WILD.search(part))
    return Path(*parts[:wild]).glob(str(Path(*parts[wild:])))


def _pattern(key: str) -> str:
    """A pattern of names as a regular expression; a star does not cross a slash."""
    out = ""
    for part in re.split(r"(\*\*/|\*|\?|\[[^\]]*\])", key):
        if part == "**/":
            out += "(?:.*/)?"
        elif part == "*":
            out += "[^/]*"
        elif part == "?":
            out += "[^/]"
        elif part.startswith("[") and part.endswith("]"):
            out += part.replace("[!", "[^")
        else:
            out += re.escape(part)
    return out


def _no_pattern(where: str, error: Exception) -> SourceError:
    return SourceError(
        f"{where} is no pattern of file names: {error}; write *, ?, [ab] or **/", path=where
    )


def _changed(file: InputFile) -> InputChanged:
    return InputChanged(
        f"{file.uri} changed while it was read; nothing was committed: run the load again",
        path=file.uri,
    )
