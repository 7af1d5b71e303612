"""Rows of a query in the form that the client accepts: JSON, lines of JSON, or Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from starlette.responses import Response

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.server.acceptance import preferred

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.server.request_context import RequestContext
    from omnigraph.settings import QuerySettings

JSON: Final = "application/json"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
NDJSON: Final = "application/x-ndjson"
MEDIA_TYPES: Final = (JSON, NDJSON, ARROW_STREAM)
_MARK: Final = b'"rows":[]'
_encode = msgspec.json.Encoder().encode


def accepted_form(context: RequestContext) -> str:
    """The form that the client prefers; JSON without a wish."""
    accepted = context.header_values("accept")
    if not accepted or accepted == ["*/*"]:
        return JSON
    return preferred(accepted, MEDIA_TYPES)


def wants_js_safe(context: RequestContext) -> bool:
    """Whether integers beyond 2^53 are to be spelled as text.

    Raises:
        InvalidArgument: the parameter is neither `true` nor `false`.
    """
    if not context.scope["query_string"]:
        return False
    text = context.query.get("js_safe", "false")
    if text not in ("true", "false"):
        raise InvalidArgument("js_safe is true or false", argument="js_safe")
    return text == "true"


def answer_rows(
    result: QueryResult,
    form: str,
    limits: QuerySettings,
    *,
    js_safe: bool,
    has_commit: bool = True,
) -> Response:
    """The answer with the rows of a result; rendering happens where this is called.

    Raises:
        ResourceLimit: there are more rows or bytes than one answer may have.
    """
    _require(len(result), limits.max_result_rows, "rows", "query_result_rows")
    if form == JSON:
        content = _json(result, js_safe=js_safe, has_commit=has_commit)
    elif form == NDJSON:
        content = result.to_jsonl().encode()
    else:
        content = _arrow(result)
    _require(len(content), limits.max_result_bytes, "bytes", "query_result_bytes")
    if form == JSON:
        return Response(content, media_type=JSON)
    return Response(content, media_type=form, headers=_headers(result))


def _require(actual: int, limit: int, unit: str, resource: str) -> None:
    if actual > limit:
        raise ResourceLimit(
            f"the result has {actual:,} {unit} and an answer may have {limit:,}; add a limit,"
            " export, or use the pipeline",
            resource=resource,
            limit=limit,
            actual=actual,
        )


def _json(result: QueryResult, *, js_safe: bool, has_commit: bool) -> bytes:
    """The body with the rows as they are rendered elsewhere, put where its frame has none."""
    frame: dict[str, JsonValue] = {
        "query_name": result.query_name,
        "target": result.target.to_dict(),
        "row_count": len(result),
    }
    if result.columns:
        frame["columns"] = result.columns
    frame["rows"] = []
    if has_commit:
        frame["graph_commit_id"] = result.graph_commit_id
    if result.policy_filtered:
        frame["policy_filtered"] = True
    head, mark, tail = _encode(frame).rpartition(_MARK)
    rows = result.to_json(js_safe=js_safe).encode()
    return b"".join((head, mark[:-2], rows, tail))


def _arrow(result: QueryResult) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, result.schema) as writer:
        writer.write_table(result.to_arrow())
    return sink.getvalue().to_pybytes()


def _headers(result: QueryResult) -> dict[str, str]:
    headers = {
        "Omnigraph-Query-Name": result.query_name,
        "Omnigraph-Graph-Commit": result.graph_commit_id,
        "Omnigraph-Row-Count": str(len(result)),
        "Omnigraph-Target": _encode(result.target.to_dict()).decode(),
    }
    return headers | ({"Omnigraph-Policy-Filtered": "true"} if result.policy_filtered else {})
