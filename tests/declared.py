"""What a value has that the OpenAPI document does not declare for it, and what it lacks.

A schema of the document allows members that it does not name, so that a server may grow; so a test
that validates would not see one that a handler or a command adds and nobody described.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.server.openapi import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Schema = Mapping[str, Any]  # Any: values of JSON

DOCUMENT = openapi_document(is_open=True)


def model(name: str) -> Schema:
    """The schema of one of the bodies."""
    schema: Schema = DOCUMENT["components"]["schemas"][name]
    return schema


def differences(schema: Schema, value: object, at: str = "") -> Iterator[str]:
    """Where a value has a member that is not declared, or lacks one that is required."""
    if "$ref" in schema:
        yield from differences(model(schema["$ref"].rpartition("/")[2]), value, at)
    elif "anyOf" in schema:
        tried = [list(differences(each, value, at)) for each in schema["anyOf"]]
        yield from min(tried, key=len)
    elif schema.get("type") == "array" and isinstance(value, list):
        for number, item in enumerate(value):
            yield from differences(schema.get("items", {}), item, f"{at}[{number}]")
    elif isinstance(value, dict) and "properties" in schema:
        declared = schema["properties"]
        yield from (f"{at}.{key} is not declared" for key in value if key not in declared)
        missing = [key for key in schema.get("required", ()) if key not in value]
        yield from (f"{at}.{key} is missing" for key in missing)
        for key in sorted(value.keys() & declared.keys()):
            yield from differences(declared[key], value[key], f"{at}.{key}")
    elif schema.get("type") == "null" and value is not None:
        yield f"{at} is not null"
