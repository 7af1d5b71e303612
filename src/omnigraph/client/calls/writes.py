"""Requests that write rows: mutations and loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.client import decoding
from omnigraph.client.call import Call
from omnigraph.client.calls.requests import (
    branch_name,
    condition,
    json_params,
    key_header,
    not_served,
    parameters,
    post,
)
from omnigraph.errors import ResourceLimit
from omnigraph.ids import MAIN_BRANCH
from omnigraph.limits import MAX_REQUEST_LOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.results.mutation_result import MutationResult

_LOAD_OPTIONS: Final[Mapping[str, tuple[object, ...]]] = {
    "format": (None, "ndjson"),
    "engine": ("auto", "local"),
    "on_error": ("fail",),
    "rejects": (None,),
    "max_rejects": (None,),
    "max_reject_ratio": (None,),
    "embed": (False,),
    "cascade": (False, None),
    "partial": (False,),
    "dry_run": (False,),
    "if_commit": (None,),
    "progress": (None,),
}
"""Options of an embedded load, and the values with which they ask for nothing."""


def mutate(
    source: str,
    name: str | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str = MAIN_BRANCH,
    if_commit: str | None = None,
    idempotency_key: str | None = None,
    timeout_s: float | None = None,
) -> Call[MutationResult]:
    """A mutation; one with a condition goes to the route that knows conditions."""
    body = {
        "query": source,
        "name": name,
        "params": json_params(params),
        "branch": branch_name(branch),
    }
    return post(
        "mutate" if if_commit is None else "mutate/if-graph-commit",
        body,
        decoding.mutation_result,
        headers=condition(if_commit),
        is_write=True,
        key=idempotency_key,
        timeout_s=timeout_s,
        source=source,
    )


def load(
    content: bytes,
    *,
    mode: str,
    branch: str = MAIN_BRANCH,
    from_: str | None = None,
    idempotency_key: str | None = None,
) -> Call[JobReport]:
    """A load of lines.

    Raises:
        ResourceLimit: they are more than one request may have.
    """
    if len(content) > MAX_REQUEST_LOAD_BYTES:
        raise ResourceLimit(
            f"the input has more than {MAX_REQUEST_LOAD_BYTES:,} bytes, which is what one request"
            " takes; load it with access to storage: omnigraph load --store URI",
            resource="graph_batch_request_bytes",
            limit=MAX_REQUEST_LOAD_BYTES,
            actual=len(content),
        )
    return Call(
        method="POST",
        path="load/ndjson",
        query=parameters(
            branch=branch_name(branch), mode=mode, **({"from": from_} if from_ else {})
        ),
        headers={"Content-Type": "application/x-ndjson"} | key_header(idempotency_key),
        content=content,
        decode=decoding.load_report,
        is_write=True,
        key=idempotency_key,
    )


def refuse_load_options(given: Mapping[str, object]) -> None:
    """Refuse what a load of a request does not have; what says nothing is no wish.

    Raises:
        NotServed: an option needs the storage of the graph.
        TypeError: there is no such option.
    """
    for name, value in given.items():
        if name not in _LOAD_OPTIONS:
            raise TypeError(f"load() got an unexpected keyword argument {name!r}")
        if value not in _LOAD_OPTIONS[name]:
            raise not_served(
                f"load({name}={value!r})", "load with access to storage: omnigraph load --store URI"
            )
