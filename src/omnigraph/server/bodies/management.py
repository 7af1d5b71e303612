"""Bodies about the server itself."""

from __future__ import annotations

from typing import Literal

from omnigraph.server.bodies.model import AnswerBody, Omitted


class HealthOutput(AnswerBody):
    """The process is alive; no storage was touched."""

    status: Literal["ok"] = "ok"
    version: str
    internal_schema_version: int
    source_version: Omitted[str] = None


class ReadyOutput(AnswerBody):
    """Whether the server takes requests."""

    status: Literal["ready", "draining"]
    graphs: Omitted[int] = None


class GraphOutput(AnswerBody):
    """One graph that is served."""

    graph_id: str
    uri: str


class QuarantinedGraphOutput(AnswerBody):
    """One graph that is configured and cannot be served."""

    graph_id: str
    code: str
    message: str


class GraphListOutput(AnswerBody):
    """The graphs of a server."""

    graphs: list[GraphOutput]
    quarantined: Omitted[list[QuarantinedGraphOutput]] = None
