"""One operation of the HTTP contract: where it is, what it takes and gives, who handles it.

The routes of the application and the OpenAPI document are made from the same table, so that
neither can have what the other lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.limits import MAX_REQUEST_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import BaseModel
    from starlette.responses import Response

    from omnigraph.server.request_context import RequestContext

GRAPH_PATH: Final = "/graphs/{graph_id}"


class Scope(StrEnum):
    """What a request must have before its handler is called."""

    PUBLIC = "public"
    """Nothing: neither a token nor a graph."""
    SERVER = "server"
    """An actor."""
    GRAPH = "graph"
    """An actor and a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One query parameter or header of an operation."""

    name: str
    description: str
    where: str = "query"
    is_required: bool = False
    is_list: bool = False
    kind: str = "string"
    enum: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the contract."""

    method: str
    path: str
    """The whole template; that of a graph begins with `GRAPH_PATH`."""
    operation_id: str
    tag: str
    summary: str
    handler: Callable[[RequestContext], Awaitable[Response]]
    scope: Scope = Scope.GRAPH
    request: type[BaseModel] | None = None
    """The body it reads, if that is JSON."""
    is_request_optional: bool = False
    answer: type[BaseModel] | None = None
    """The body of success."""
    media_types: tuple[str, ...] = ("application/json",)
    """What success may come as."""
    reads_media_type: str | None = None
    """The content type of a body that is no JSON."""
    statuses: tuple[int, ...] = ()
    """Of failure, beyond those of every route of a graph."""
    success: tuple[int, ...] = (200,)
    parameters: tuple[Parameter, ...] = ()
    body_limit: int = MAX_REQUEST_BODY_BYTES
    body_resource: str = "request_body_bytes"
    """What a body over the limit is told to have exceeded."""
    successor: str | None = None
    """What to use instead; given, the operation is deprecated."""
    shows_declared_only: bool = False
    """An error whose status is not declared here is told as one of the server."""
    is_conditional: bool = False
    """It takes the header `Omnigraph-If-Graph-Commit`."""
    is_documented: bool = True
    """The OpenAPI document describes it."""
    inflight: str = "read"
    """The class it is counted under while it runs: `read`, `write` or `stream`."""

    @property
    def failures(self) -> frozenset[int]:
        """Every status of failure that it may have."""
        every = {401, 403, 404, 500, 503} if self.scope is Scope.GRAPH else {401, 403, 500, 503}
        return frozenset(self.statuses) | (set() if self.scope is Scope.PUBLIC else every)

    @property
    def has_body(self) -> bool:
        """Whether its handler reads a body."""
        return self.request is not None or self.reads_media_type is not None
