"""What all requests of one server process share."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

from omnigraph.clock import Clock, SystemClock
from omnigraph.errors import OmnigraphError
from omnigraph.ids import IdSource, UlidSource
from omnigraph.policy.audit import AuditLog, open_audit_log
from omnigraph.server.engine_calls import EngineCalls
from omnigraph.server.metrics import Metrics
from omnigraph.server.streams import StreamSlots
from omnigraph.server.workload import WorkloadController

if TYPE_CHECKING:
    from omnigraph.server.auth import BearerTokens
    from omnigraph.server.boot import ServedGraphs
    from omnigraph.settings import Settings

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ServerRuntime:
    """Graphs, tokens, settings and the threads of one server process."""

    served: ServedGraphs
    tokens: BearerTokens
    settings: Settings
    calls: EngineCalls
    metrics: Metrics
    workload: WorkloadController
    audit: AuditLog | None = None
    streams: StreamSlots
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = field(default_factory=lambda: UlidSource(SystemClock()))
    draining: threading.Event = field(default_factory=threading.Event)
    """Set by the signal to stop; new requests are refused from then on."""
    shows_metrics: bool = True
    """Metrics have no port of their own, so the main one shows them to who may see them."""

    @classmethod
    def start(cls, served: ServedGraphs, tokens: BearerTokens, settings: Settings) -> ServerRuntime:
        """The runtime of a process; `close` ends it."""
        metrics = Metrics()
        metrics.graphs.set("served", value=len(served.graphs))
        metrics.graphs.set("quarantined", value=len(served.quarantined))
        metrics.build_info.set(version("omnigraph"), value=1)
        return cls(
            served=served,
            tokens=tokens,
            settings=settings,
            calls=EngineCalls(settings.server.engine_threads),
            metrics=metrics,
            workload=WorkloadController(settings.server, metrics),
            audit=open_audit_log(settings.server, SystemClock()),
            streams=StreamSlots(metrics),
        )

    def render_metrics(self) -> str:
        """The counts, with what is looked up when somebody asks; a storage may be waited for."""
        for graph_id, served in self.served.graphs.items():
            try:
                pending = served.graph.maintenance.unsettled_writes()
            except OmnigraphError as error:
                # The rest is told all the same; of this graph, what was last known.
                log.warning("recoveries not counted", extra={"graph": graph_id, "why": str(error)})
            else:
                self.metrics.recovery_pending.set(graph_id, value=pending)
        return self.metrics.render()

    def warm(self) -> None:
        """Have in memory what queries read; a graph for which that fails is served as it is."""
        for served in self.served.graphs.values():
            try:
                served.graph.warm()
            except OmnigraphError as error:
                log.warning("not warmed", extra={"graph": served.graph_id, "cause": error.message})

    def start_maintenance(self) -> None:
        """Do what is due on the graphs in the background; of all processes, one at a time does."""
        for served in self.served.graphs.values():
            served.graph.maintenance.start()

    def close(self) -> None:
        """Finish what runs, then close the graphs."""
        self.calls.close()
        self.served.close()
        if self.audit is not None:
            self.audit.close()
