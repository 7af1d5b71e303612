"""The OpenAPI document, made from the table of operations and the models that handlers use.

`python -m omnigraph.server.openapi` prints it; `docs/openapi.json` holds it, and a test compares
the two. A server without tokens says so: its document has no security.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from omnigraph.server.bodies.changes import ChangeBaselineOutput
from omnigraph.server.bodies.errors import ErrorOutput
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter, Scope
from omnigraph.server.routes import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

Document = dict[str, Any]  # Any: values of JSON
_SCHEME: Final = "bearer_token"
_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{model}"
_PATH_PART: Final = re.compile(r"\{([a-z_]+)(?::path)?\}")
_GRAPH_ID: Final = {"type": "string", "pattern": "^[a-zA-Z0-9-]{1,64}$"}
_MEANING: Final = {
    200: "Done.",
    206: "A range of the value.",
    302: "Where the value is.",
    304: "The client has it already.",
    400: "The request is wrong.",
    401: "No token, or none that is known.",
    403: "The policy does not allow it.",
    404: "There is no such thing.",
    409: "Somebody else was first, or something stands in the way.",
    410: "It was cleaned up.",
    412: "The condition does not hold; nothing was changed.",
    413: "A limit; nothing was changed.",
    415: "The content type is not read here.",
    416: "The value has no such range.",
    424: "A source that is referred to could not be read.",
    429: "Too much at once; try again later.",
    500: "The server failed; its log has the cause.",
    503: "Not now.",
    504: "The time is up; nothing was changed.",
}
_BODILESS: Final = frozenset({302, 304})


@cache
def openapi_document(*, is_open: bool = False) -> Document:
    """The document of a server, with tokens or open to everybody."""
    schemas = _component_schemas()
    paths: Document = {}
    for operation in OPERATIONS:
        if operation.is_documented:
            item = paths.setdefault(_PATH_PART.sub(r"{\1}", operation.path), {})
            item[operation.method.lower()] = _described(operation, is_open=is_open)
    components: Document = {"schemas": schemas}
    if not is_open:
        components["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Omnigraph API", "version": version("omnigraph")},
        "paths": paths,
        "components": components,
    }


def _component_schemas() -> Document:
    # The last line of a stream, which no answer names.
    lines = ChangeBaselineOutput
    used: dict[type[BaseModel], JsonSchemaMode] = dict.fromkeys(
        (ErrorOutput, lines), "serialization"
    )
    for operation in OPERATIONS:
        if operation.request is not None:
            used.setdefault(operation.request, "validation")
        if operation.answer is not None:
            used.setdefault(operation.answer, "serialization")
    _, definitions = models_json_schema(
        list(used.items()),
        ref_template=_REF,
    )
    return dict(sorted(definitions["$defs"].items()))


def _described(operation: Operation, *, is_open: bool) -> Document:
    described: Document = {
        "operationId": operation.operation_id,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.successor is not None:
        described["deprecated"] = True
    if parameters := list(_parameters(operation)):
        described["parameters"] = parameters
    if operation.has_body:
        described["requestBody"] = _request_body(operation)
    described["responses"] = _responses(operation)
    if operation.scope is not Scope.PUBLIC and not is_open:
        described["security"] = [{_SCHEME: []}]
    return described


def _parameters(operation: Operation) -> Iterator[Document]:
    for name in _PATH_PART.findall(operation.path):
        is_graph = operation.path.startswith(GRAPH_PATH) and name == "graph_id"
        schema = _GRAPH_ID if is_graph else {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    for parameter in operation.parameters:
        yield {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.is_required,
            "description": parameter.description,
            "schema": _parameter_schema(parameter),
        }


def _parameter_schema(parameter: Parameter) -> Document:
    schema: Document = {"type": parameter.kind}
    if parameter.enum:
        schema["enum"] = list(parameter.enum)
    return {"type": "array", "items": schema} if parameter.is_list else schema


def _request_body(operation: Operation) -> Document:
    if operation.request is None:
        content = {str(operation.reads_media_type): {"schema": {"type": "string"}}}
    else:
        content = {_JSON: {"schema": _reference(operation.request)}}
    return {"required": not operation.is_request_optional, "content": content}


def _responses(operation: Operation) -> Document:
    responses: Document = {}
    for status in sorted({*operation.success, *operation.failures}):
        response: Document = {"description": _MEANING[status]}
        if status in operation.success:
            content = None if status in _BODILESS else _success_content(operation)
        else:
            content = {_JSON: {"schema": _reference(ErrorOutput)}}
        if content and operation.method != "HEAD":
            response["content"] = content
        responses[str(status)] = response
    return responses


def _success_content(operation: Operation) -> Document:
    content: Document = {}
    for media_type in operation.media_types:
        if media_type != _JSON:
            content[media_type] = {"schema": {"type": "string"}}
        elif operation.answer is not None:
            content[media_type] = {"schema": _reference(operation.answer)}
    return content


def _reference(model: type[BaseModel]) -> Document:
    return {"$ref": _REF.format(model=model.__name__)}


def render_document(document: Document) -> str:
    """The document as the file that is kept."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_document(openapi_document()))
