"""Where a graph lives: a local folder or a prefix of an S3 bucket, one root for all its objects.

Everything inside is named relative to the root. A local root is made absolute and free of links
once, because Lance keeps the absolute path of a table in the branches that grow from it.
"""

from __future__ import annotations

import posixpath
import re
import stat
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from omnigraph.errors import GraphNotFound, InvalidArgument, StorageDenied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.settings import StorageSettings

_PATIENCE = {
    "connect_timeout": "2s",
    "timeout": "10s",
    "client_max_retries": "3",
    "client_retry_timeout": "10",
    "lance_aimd_max_retries": "1",
}
"""How long a store may keep a call waiting: one that is gone must fail in seconds, and the commit
protocol, not the client, knows what to do about it."""

_FLATTENED = re.compile(r"^(s3|file|https?):/[^/]")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLocation:
    """The root of a graph, with what a client of its store needs."""

    root: str
    is_local: bool
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of the store for Lance and obstore; may hold credentials, so never shown."""

    def uri(self, relative: str) -> str:
        """The address of an object or dataset below the root."""
        return posixpath.join(self.root, relative)

    def path(self, relative: str) -> Path:
        """The local path of an object below the root; only for a local graph."""
        return Path(self.root, relative)

    def __str__(self) -> str:
        return self.root


def parse_location(address: str | Path, settings: StorageSettings) -> GraphLocation:
    """The location that a path, `file://` or `s3://` address names.

    Raises:
        InvalidArgument: the address is none, empty or of another kind.
    """
    if not isinstance(address, str | PathLike):
        raise InvalidArgument(
            f"a graph is named by a path or an address, not {type(address).__name__}"
        )
    text = str(address)
    if not text.strip() or "\0" in text:
        raise InvalidArgument(
            f"{text!r} names no graph; give a folder, a file:// or an s3:// address"
        )
    if isinstance(address, Path) and _FLATTENED.match(text):
        raise InvalidArgument(
            f"{text!r} is an address in a Path, which drops a slash of it; give it as text"
        )
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _local(Path(text))
    match scheme[1].lower():
        case "file":
            return _local(_path_of_file_url(text))
        case "s3":
            return _bucket(text, settings)
        case "http" | "https":
            raise InvalidArgument(
                f"{text!r} is a server, not a storage location; omnigraph.connect({text!r},"
                " graph=ID) speaks with one; give a folder, a file:// or an s3:// address"
            )
        case other:
            raise InvalidArgument(
                f"{text!r}: storage of kind {other}:// is not supported; give a folder, a file://"
                " or an s3:// address"
            )


def refuse_file(location: GraphLocation) -> None:
    """Refuse a place for a new graph where a file is, or below one.

    Raises:
        InvalidArgument: with the file.
    """
    if not location.is_local:
        return
    path = location.path("")
    for folder in (path, *path.parents):
        if folder.is_file():
            raise InvalidArgument(
                f"no graph can be created at {location}: {folder} is a file, and a graph is"
                " a folder"
            )


def require_folder(location: GraphLocation) -> None:
    """Make sure that a local graph can be looked for at its place.

    Raises:
        GraphNotFound: there is no such folder.
        StorageDenied: it may not be looked at.
        InvalidArgument: the path cannot exist.
    """
    if not location.is_local:
        return
    path = location.path("")
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        reason = "the folder does not exist"
    except PermissionError as error:
        raise StorageDenied(
            f"{location} may not be read: permission denied; check the rights on its folders",
            location=str(location),
        ) from error
    except OSError as error:
        raise InvalidArgument(f"{location} is no usable path: {error.strerror}") from error
    else:
        if stat.S_ISDIR(mode):
            return
        reason = "it is a file, and a graph is a folder"
    raise GraphNotFound(
        f"there is no graph at {location}: {reason}; create one with Graph.init or"
        " `omnigraph init`",
        location=str(location),
    )


def _local(path: Path) -> GraphLocation:
    try:
        return GraphLocation(root=str(path.expanduser().resolve()), is_local=True)
    except (OSError, RuntimeError) as error:  # No such home, or links in a circle.
        raise InvalidArgument(f"{str(path)!r} names no folder: {error}") from error


def _path_of_file_url(text: str) -> Path:
    parts = _split(text)
    if parts.netloc not in ("", "localhost"):
        raise InvalidArgument(
            f"{text!r} names the host {parts.netloc!r}; a file:// address has three slashes"
        )
    return Path(unquote(parts.path))


def _split(text: str) -> SplitResult:
    parts = urlsplit(text)
    for mark in "?#":
        # Cut off there, two addresses would name one graph.
        if mark in text:
            raise InvalidArgument(f"{text!r}: the address of a graph cannot hold {mark!r}")
    return parts


def _bucket(text: str, settings: StorageSettings) -> GraphLocation:
    parts = _split(text)
    if "@" in parts.netloc:
        raise InvalidArgument(
            "an s3:// address holds no credentials; give them in AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY"
        )
    prefix = parts.path.strip("/")
    if not parts.netloc or not prefix:
        raise InvalidArgument(
            f"{text!r}: an s3:// address names a bucket and a prefix, as in s3://bucket/graph.omni"
        )
    return GraphLocation(
        root=f"s3://{parts.netloc}/{prefix}", is_local=False, options=_s3_options(settings)
    )


def _s3_options(settings: StorageSettings) -> dict[str, str]:
    """What the settings say of a bucket; a session token and profiles come from the environment."""
    secret = settings.aws_secret_access_key
    options = {
        "aws_access_key_id": settings.aws_access_key_id,
        "aws_secret_access_key": None if secret is None else secret.reveal(),
        "aws_region": settings.aws_region,
        "aws_endpoint": settings.aws_endpoint_url_s3 or settings.aws_endpoint_url,
        "aws_virtual_hosted_style_request": "false" if settings.aws_s3_force_path_style else None,
        "allow_http": "true" if settings.aws_allow_http else None,
    }
    return _PATIENCE | {name: value for name, value in options.items() if value is not None}
