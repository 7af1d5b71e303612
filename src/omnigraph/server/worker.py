"""One worker: a process that answers requests for as long as its parent lives."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmnigraphError
from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.logs import start_server_logging

if TYPE_CHECKING:
    import socket
    from multiprocessing.connection import Connection

    from omnigraph.server.plan import ServerPlan
    from omnigraph.server.runtime import ServerRuntime

READY: Final = "ready"
METRICS: Final = "metrics"


def work(plan: ServerPlan, listener: socket.socket, control: Connection) -> None:
    """Serve on a socket that the parent has bound, until told to stop."""
    # A terminal sends this to parent and workers alike; the parent says when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_server_logging(plan.settings.server)
    try:
        runtime = plan.open()
    except OmnigraphError as error:
        control.send(error)
        return
    try:
        server = DrainingServer(runtime, signals=(signal.SIGTERM,))
        threading.Thread(
            target=_obey, args=(control, runtime, server), name="control", daemon=True
        ).start()
        server.run(sockets=[listener])
    finally:
        runtime.close()


def _obey(control: Connection, runtime: ServerRuntime, server: DrainingServer) -> None:
    """Answer the parent; when it is gone, stop."""
    try:
        server.is_listening.wait()
        control.send(READY)
        while control.recv() == METRICS:
            control.send(runtime.render_metrics())
    except (EOFError, OSError):
        pass
    server.stop()
