"""Requests that read: rows, plans, snapshots, exports, blobs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph.client import decoding
from omnigraph.client.call import Call
from omnigraph.client.calls.requests import (
    branch_name,
    branch_or_main,
    get,
    json_params,
    not_served,
    one_target,
    optional_branch,
    parameters,
    post,
    target_text,
)
from omnigraph.errors import InvalidArgument
from omnigraph.graph.query.target import QueryTarget
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.client.calls.requests import Decoder
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.query_result import QueryResult

T = TypeVar("T")

ARROW: Final = "application/vnd.apache.arrow.stream"


def query(
    source: str,
    name: str | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    snapshot: ReadTarget | None = None,
    executor: str = "auto",
    timeout_s: float | None = None,
) -> Call[QueryResult]:
    """Rows as Arrow."""
    require_local(executor)
    body, target = _read_body(source, name, params, branch, snapshot)
    return post(
        "query",
        body,
        lambda answer: decoding.query_result(answer, target),
        headers={"Accept": ARROW},
        timeout_s=timeout_s,
        source=source,
    )


def explain(
    source: str,
    name: str | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    snapshot: ReadTarget | None = None,
    executor: str = "auto",
    analyze: bool = False,
) -> Call[Plan]:
    """How a query runs."""
    require_local(executor)
    body, target = _read_body(source, name, params, branch, snapshot)
    return post(
        "explain",
        body | {"analyze": analyze},
        lambda answer: decoding.plan(answer, target),
        source=source,
    )


def snapshot(
    at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH
) -> Call[decoding.RemoteSnapshot]:
    """The tables of a head, or of a state of the branch."""
    return get("snapshot", decoding.remote_snapshot, branch=branch_name(branch), at=target_text(at))


def export(
    *,
    types: Iterable[str] | None = None,
    branch: str | None = None,
    snapshot: ReadTarget | None = None,
) -> Call[None]:
    """A stream of lines."""
    one_target(branch, snapshot)
    body: dict[str, object] = (
        {"branch": branch_or_main(branch)}
        if snapshot is None
        else {"snapshot": target_text(snapshot)}
    )
    if types is not None:
        body["type_names"] = list(types)
    return post("export", body, lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobQuery:
    """Which blob is meant, and in which state of the graph."""

    cell: tuple[tuple[str, str], ...]
    place: tuple[tuple[str, str], ...]

    def at(self, commit_id: str) -> BlobQuery:
        """The same blob at one commit."""
        return replace(self, place=(("snapshot", commit_id),))

    def call(self, method: str, decode: Decoder[T], headers: Mapping[str, str]) -> Call[T]:
        """A request for it."""
        query = (*self.cell, *self.place)
        return Call(method=method, path="blob", query=query, headers=headers, decode=decode)


def blob(
    kind: str,
    type_name: str,
    entity_id: str,
    property_name: str,
    *,
    branch: str | None = None,
    snapshot: ReadTarget | None = None,
) -> BlobQuery:
    """Which blob is meant, to be asked about more than once."""
    one_target(branch, snapshot)
    return BlobQuery(
        cell=parameters(entity=kind, type=type_name, id=entity_id, property=property_name),
        place=parameters(branch=optional_branch(branch), snapshot=target_text(snapshot)),
    )


def blob_head(wanted: BlobQuery) -> Call[decoding.BlobFacts]:
    """What is known of a blob, without its bytes."""
    return wanted.call("HEAD", decoding.blob_facts, {})


def blob_refusal(wanted: BlobQuery) -> Call[None]:
    """The same question with a body, which tells why there is no answer."""
    return wanted.call("GET", lambda _: None, {"Range": "bytes=0-0"})


def blob_range(wanted: BlobQuery, etag: str, start: int, end: int) -> Call[bytes]:
    """Bytes of a blob, if it is still the same."""
    headers = {"Range": f"bytes={start}-{end - 1}", "If-Match": etag}
    return wanted.call("GET", lambda answer: answer.content, headers)


def _read_body(
    source: str,
    name: str | None,
    params: Mapping[str, object] | None,
    branch: str | None,
    snapshot: ReadTarget | None,
) -> tuple[dict[str, object], QueryTarget]:
    one_target(branch, snapshot)
    if not isinstance(source, str):
        raise InvalidArgument(
            f"source is the text of a query, not {type(source).__name__}", argument="source"
        )
    if snapshot is None:
        target = QueryTarget(branch=branch_or_main(branch), snapshot=None)
    else:
        target = QueryTarget(branch=None, snapshot=target_text(snapshot))
    body = {"query": source, "name": name, "params": json_params(params), **target.to_dict()}
    return {key: value for key, value in body.items() if value is not None}, target


def require_local(executor: str) -> None:
    """Refuse the lane that only an open graph could have.

    Raises:
        NotServed: it is Spark.
        InvalidArgument: there is no such lane.
    """
    if executor == "spark":
        raise not_served("executor='spark'", "leave the executor out")
    if executor not in ("auto", "local"):
        raise InvalidArgument(
            f"executor is 'auto', 'local' or 'spark', not {executor!r}", argument="executor"
        )
