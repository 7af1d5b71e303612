"""The address of a server: taken apart, and refused where it is none.

It never quotes an address that it refuses, which may hold a password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_FORM: Final = "http://HOST[:PORT][/PATH] or https://…"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is, as far as two addresses of it are the same."""

    scheme: str
    host: str
    """In lower case."""
    port: int
    path: tuple[str, ...]
    """The segments of the path."""

    def begins(self, other: ServerAddress) -> bool:
        """Whether the other is this place or below it: `/a` is not above `/ab`."""
        origin = (self.scheme, self.host, self.port)
        is_origin = origin == (other.scheme, other.host, other.port)
        return is_origin and other.path[: len(self.path)] == self.path


def parse_server_address(url: object) -> ServerAddress:
    """The parts of an address.

    Raises:
        ValueError: it is not the address of a server.
    """
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise _refused("blanks or unprintable characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused("a host or a port that cannot be read") from None
    if parts.scheme not in _PORTS:
        raise _refused("another beginning")
    if not parts.hostname:
        raise _refused("no host")
    if parts.username is not None or parts.query or parts.fragment:
        raise _refused("a user, a query or a fragment")
    return ServerAddress(
        scheme=parts.scheme,
        host=parts.hostname.lower(),
        port=_PORTS[parts.scheme] if port is None else port,
        path=tuple(segment for segment in parts.path.split("/") if segment),
    )


def _refused(what: str) -> ValueError:
    return ValueError(f"a server is addressed by {_FORM}; this address has {what}")
