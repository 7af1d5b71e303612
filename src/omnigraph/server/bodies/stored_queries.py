"""Bodies of stored queries: the catalog, and what invokes one."""

from __future__ import annotations

from enum import StrEnum

from pydantic import RootModel

from omnigraph.server.bodies.model import AnswerBody, Omitted
from omnigraph.server.bodies.reads import ReadOutput, ReadTarget
from omnigraph.server.bodies.writes import ChangeOutput


class ParamKind(StrEnum):
    """What a parameter is, as clients that build forms and tools see it."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DATE = "date"
    DATETIME = "datetime"
    BLOB = "blob"
    VECTOR = "vector"
    LIST = "list"


class ParamDescriptor(AnswerBody):
    """One parameter of a stored query."""

    name: str
    kind: ParamKind
    item_kind: Omitted[ParamKind] = None
    vector_dim: Omitted[int] = None
    nullable: bool


class QueryCatalogEntry(AnswerBody):
    """One stored query."""

    name: str
    tool_name: str
    description: Omitted[str] = None
    instruction: Omitted[str] = None
    mutation: bool
    params: list[ParamDescriptor]


class QueryCatalogOutput(AnswerBody):
    """The stored queries of a graph, by name."""

    queries: list[QueryCatalogEntry]


class InvokeStoredQueryRequest(ReadTarget):
    """Parameters of a stored query, and what it is run on; all of it may be left out."""

    expect_mutation: bool | None = None


class InvokeStoredQueryResponse(RootModel[ReadOutput | ChangeOutput]):
    """The rows of a stored read, or the receipt of a stored mutation."""
