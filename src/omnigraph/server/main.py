"""A server from start to end: plan, listen, open, say where, serve until told to stop."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.listeners import address_of, announce, hold_port, listen
from omnigraph.server.metrics_server import metrics_served
from omnigraph.server.plan import ServeRequest, ServerPlan, plan_server
from omnigraph.server.workers import Workers

if TYPE_CHECKING:
    import socket

    from omnigraph.server.runtime import ServerRuntime

__all__ = ["ServeRequest", "http_server", "listen", "open_runtime", "run_server"]


def run_server(request: ServeRequest) -> int:
    """Serve until a signal ends it, and return the exit code.

    Raises:
        SettingInvalid: it may not start like this.
        GraphNotFound, PolicyInvalid, QueryInvalid: something cannot be served.
    """
    plan = plan_server(request)
    bind = request.settings.server.bind
    with contextlib.ExitStack() as stack:
        metrics = None
        if request.metrics_bind is not None:
            metrics = stack.enter_context(listen(request.metrics_bind, name="--metrics-bind"))
        if request.workers == 1:
            return _serve_alone(plan, stack.enter_context(listen(bind)), metrics)
        held = stack.enter_context(hold_port(bind))
        return _serve_with(plan, held, request.workers, metrics)


def _serve_alone(plan: ServerPlan, listener: socket.socket, metrics: socket.socket | None) -> int:
    runtime = plan.open()
    try:
        with metrics_served(metrics, runtime.render_metrics):
            plan.tell(address_of(listener), 1)
            announce(listener)
            http_server(runtime).run(sockets=[listener])
    finally:
        runtime.close()
    return 0


def _serve_with(
    plan: ServerPlan, held: socket.socket, count: int, metrics: socket.socket | None
) -> int:
    with (
        Workers(plan, held, count) as workers,
        metrics_served(metrics, workers.render_metrics),
    ):
        plan.tell(address_of(held), count)
        announce(held)
        return workers.run()


def open_runtime(request: ServeRequest) -> ServerRuntime:
    """What one process of such a server shares between its requests."""
    return plan_server(request).open()


def http_server(runtime: ServerRuntime) -> DrainingServer:
    """The HTTP server of a process."""
    return DrainingServer(runtime)
