"""Blobs: bytes of one cell, in ranges and on conditions; a value outside is told by its address.

The server never opens, probes or signs an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from starlette.responses import Response

from omnigraph.errors import BlobPreconditionFailed, BlobRangeError, InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.limits import MAX_BLOB_READ_BYTES
from omnigraph.server.blob_requests import (
    ByteRange,
    is_same,
    matches_strongly,
    matches_weakly,
    parse_range,
)
from omnigraph.server.envelope import answer_error
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter
from omnigraph.server.request_context import trimmed_argument
from omnigraph.server.routes.snapshot import BRANCH
from omnigraph.server.streams import StreamAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.blobs.blob_reader import BlobReader
    from omnigraph.server.request_context import RequestContext

OCTETS: Final = "application/octet-stream"
_SNAPSHOT: Final = "Omnigraph-Snapshot-Id"


async def read_blob(context: RequestContext) -> Response:
    """The bytes of a blob, or a range of them."""
    reader = await _open(context)
    length, etag = reader.length, reader.etag
    if length is None or etag is None:
        return _elsewhere(reader)
    if (refusal := _condition(context, reader, etag)) is not None:
        return refusal
    ranges, only_if = context.header_values("range"), context.header_values("if-range")
    wanted = parse_range(ranges, length) if not only_if or is_same(only_if, etag) else None
    headers = _headers(reader, etag)
    if wanted is None:
        return _bytes(context, reader, ByteRange(start=0, end=length), 200, headers)
    if not wanted.is_satisfiable:
        return _unsatisfiable(context, wanted, length)
    headers["Content-Range"] = f"bytes {wanted.start}-{wanted.end - 1}/{length}"
    return _bytes(context, reader, wanted, 206, headers)


async def look_at_blob(context: RequestContext) -> Response:
    """What a read of the blob would say of it; no byte of it is read."""
    reader = await _open(context)
    length, etag = reader.length, reader.etag
    if length is None or etag is None:
        return _elsewhere(reader)
    if (refusal := _condition(context, reader, etag)) is not None:
        return refusal
    headers = {**_headers(reader, etag), "Content-Length": str(length)}
    return StreamAnswer(context, iter(()), media_type=OCTETS, headers=headers, first=None)


async def _open(context: RequestContext) -> BlobReader:
    """The blob that the parameters name, once the actor may read it."""
    given = context.query
    kind = _required(context, "entity")
    if kind not in ("node", "edge"):
        raise InvalidArgument(f"entity is node or edge, not {kind!r}", argument="entity")
    entity: Literal["node", "edge"] = "node" if kind == "node" else "edge"
    type_name, entity_id, name = (_required(context, part) for part in ("type", "id", "property"))
    snapshot = given.get("snapshot")
    branch = given.get("branch")
    if branch is not None:
        branch = trimmed_argument(branch, "branch")
    if branch is not None and snapshot is not None:
        raise InvalidArgument(
            "give a branch or a snapshot, not both: a snapshot names its branch",
            argument="snapshot",
        )
    await context.authorize_state(Action.READ, branch, snapshot)
    return await context.read(
        lambda: context.graph.blob(
            entity, type_name, entity_id, name, branch=branch, snapshot=snapshot
        )
    )


def _required(context: RequestContext, name: str) -> str:
    value = context.query.get(name)
    if value is None:
        raise InvalidArgument(f"the parameter {name} is missing", argument=name)
    return value


def _elsewhere(reader: BlobReader) -> Response:
    headers = {
        "Location": str(reader.uri),
        "Cache-Control": "no-store",
        _SNAPSHOT: reader.graph_commit_id,
    }
    return Response(status_code=302, headers=headers)


def _condition(context: RequestContext, reader: BlobReader, etag: str) -> Response | None:
    """What a condition of the request makes of it; `None` if it is to be answered."""
    if_match = context.header_values("if-match")
    if if_match and not matches_strongly(if_match, etag):
        error = BlobPreconditionFailed("the value is another one than If-Match names", etag=etag)
        refusal = answer_error(error, context.request_id)
        refusal.headers["ETag"] = etag
        return refusal
    if_none_match = context.header_values("if-none-match")
    if if_none_match and matches_weakly(if_none_match, etag):
        return Response(status_code=304, headers={"ETag": etag, _SNAPSHOT: reader.graph_commit_id})
    return None


def _headers(reader: BlobReader, etag: str) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", "ETag": etag, _SNAPSHOT: reader.graph_commit_id}


def _unsatisfiable(context: RequestContext, wanted: ByteRange, length: int) -> Response:
    error = BlobRangeError(
        f"the blob has {length:,} bytes and none of this range",
        start=wanted.start,
        end=wanted.end,
        length=length,
    )
    refusal = answer_error(error, context.request_id)
    refusal.headers["Content-Range"] = f"bytes */{length}"
    return refusal


def _bytes(
    context: RequestContext,
    reader: BlobReader,
    wanted: ByteRange,
    status: int,
    headers: dict[str, str],
) -> Response:
    headers["Content-Length"] = str(wanted.end - wanted.start)
    pieces = _pieces(reader, wanted)
    return StreamAnswer(context, pieces, media_type=OCTETS, status=status, headers=headers)


def _pieces(reader: BlobReader, wanted: ByteRange) -> Iterator[bytes]:
    for start in range(wanted.start, wanted.end, MAX_BLOB_READ_BYTES):
        yield reader.read(start, min(start + MAX_BLOB_READ_BYTES, wanted.end))


_PARAMETERS: Final = (
    Parameter(
        name="entity", is_required=True, enum=("node", "edge"), description="The kind of entity."
    ),
    Parameter(name="type", is_required=True, description="The type of the entity."),
    Parameter(name="id", is_required=True, description="The id of the entity."),
    Parameter(name="property", is_required=True, description="A Blob property of the type."),
    BRANCH,
    Parameter(name="snapshot", description="A commit to read instead of the head of a branch."),
    Parameter(
        name="If-Match", where="header", description="Answer only if the value has this tag."
    ),
    Parameter(
        name="If-None-Match", where="header", description="Answer only if it has another tag."
    ),
)

OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/blob",
        operation_id="cluster_getBlob",
        tag="blobs",
        summary="The bytes of a blob",
        handler=read_blob,
        media_types=(OCTETS,),
        statuses=(400, 410, 412, 416, 429, 504),
        success=(200, 206, 302, 304),
        parameters=(
            *_PARAMETERS,
            Parameter(name="Range", where="header", description="One range of bytes."),
            Parameter(
                name="If-Range",
                where="header",
                description="The range counts only if the value has this tag.",
            ),
        ),
        inflight="stream",
        shows_declared_only=True,
    ),
    Operation(
        method="HEAD",
        path=f"{GRAPH_PATH}/blob",
        operation_id="cluster_headBlob",
        tag="blobs",
        summary="What is known of a blob",
        handler=look_at_blob,
        media_types=(OCTETS,),
        statuses=(400, 410, 412, 429, 504),
        success=(200, 302, 304),
        parameters=_PARAMETERS,
        shows_declared_only=True,
    ),
)
