"""Sockets that a server listens on.

Workers have one socket each on the same port, and the system spreads connections over those that
listen. A worker listens when it is ready and stops when it dies, so that no connection waits for a
process that is not there; the parent holds the port, and listens on nothing.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Final

from omnigraph.errors import SettingInvalid

LISTEN_LINE: Final = "OMNIGRAPH_LISTEN_ADDR="
BACKLOG: Final = 2048


def listen(bind: str, *, name: str = "OMNIGRAPH_BIND") -> socket.socket:
    """A socket that is bound and listens; port 0 lets the system choose.

    Raises:
        SettingInvalid: the address is not this machine's, or taken.
    """
    listener = _bound(*_parts(bind), name=name, is_shared=False)
    listener.listen(BACKLOG)
    return listener


def hold_port(bind: str) -> socket.socket:
    """A socket that holds a port for workers; it does not listen.

    Raises:
        SettingInvalid: the address is not this machine's, or taken.
    """
    host, port = _parts(bind)
    # A socket that shares its port would share it with another server, too; one that does not is
    # refused where somebody listens.
    with contextlib.closing(listen(bind)) as probe:
        port = probe.getsockname()[1]
    return _bound(host, port, name="OMNIGRAPH_BIND", is_shared=True)


def share_port(held: socket.socket) -> socket.socket:
    """A socket of the same port for one worker, which listens on it when it is ready."""
    host, port = held.getsockname()[:2]
    return _bound(host, port, name="OMNIGRAPH_BIND", is_shared=True)


def address_of(listener: socket.socket) -> str:
    """Where a socket listens, as `HOST:PORT`."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def announce(listener: socket.socket) -> None:
    """The one line on standard output."""
    sys.stdout.write(f"{LISTEN_LINE}{address_of(listener)}\n")
    sys.stdout.flush()


def _parts(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    return host.strip("[]"), int(port)


def _bound(host: str, port: int, *, name: str, is_shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol the event loop knows a connection that must not wait to fill a packet: headers
    # and body are two writes, and the second would wait 40 ms for the first to be acknowledged.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingInvalid(
            f"{name}: cannot listen on {host}:{port}: {error.strerror or error}", name=name
        ) from None
    return listener
