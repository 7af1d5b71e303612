"""Requests for stored queries."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.client import decoding
from omnigraph.client.calls.reads import ARROW
from omnigraph.client.calls.requests import (
    NO_PARTS,
    branch_or_main,
    condition,
    get,
    json_params,
    one_target,
    optional_branch,
    post,
    target_text,
)
from omnigraph.errors import StoredQueryNotFound
from omnigraph.graph.query.target import QueryTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.client.call import Answer, Call
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.lang import StoredQuery


def list_queries() -> Call[list[StoredQuery]]:
    """The stored queries."""
    return get("queries", decoding.stored_queries)


def get_query(name: str) -> Call[StoredQuery]:
    """One stored query."""

    def found(answer: Answer) -> StoredQuery:
        for stored in decoding.stored_queries(answer):
            if stored.name == name:
                return stored
        raise _unknown()

    return get("queries", found)


def invoke(
    name: str,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    snapshot: ReadTarget | None = None,
    if_commit: str | None = None,
    idempotency_key: str | None = None,
    expect_mutation: bool | None = None,
    timeout_s: float | None = None,
) -> Call[QueryResult | MutationResult]:
    """A stored query, which may be a mutation."""
    one_target(branch, snapshot)
    target = QueryTarget(
        branch=branch_or_main(branch) if snapshot is None else None,
        snapshot=target_text(snapshot),
    )
    given = {
        "params": json_params(params),
        "branch": optional_branch(branch),
        "snapshot": target_text(snapshot),
        "expect_mutation": expect_mutation,
    }
    if name in NO_PARTS:
        raise _unknown()
    path = f"queries/{quote(name, safe='')}"
    return post(
        path if if_commit is None else f"{path}/if-graph-commit",
        {key: value for key, value in given.items() if value is not None},
        lambda answer: decoding.invoked(answer, target),
        headers={"Accept": f"{ARROW}, application/json"} | condition(if_commit),
        is_write=expect_mutation is not False,
        key=idempotency_key,
        timeout_s=timeout_s,
    )


def _unknown() -> StoredQueryNotFound:
    return StoredQueryNotFound("stored query not found")
