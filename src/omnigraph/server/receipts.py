"""Answers of writes: what was committed, and whether an earlier request had committed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.server.answers import JsonAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.server.request_context import RequestContext

REPLAYED: Final = "Idempotent-Replayed"


def answer_receipt(
    context: RequestContext, body: Mapping[str, object], commit: Commit | None
) -> Response:
    """The receipt of a write, which is counted unless it is the receipt of an earlier one."""
    if context.is_replayed:
        return JsonAnswer(body, headers={REPLAYED: "true"})
    if commit is not None:
        context.record.trail.commit = commit.graph_commit_id
        context.server.metrics.commits.add(context.served.graph_id, commit.kind)
    return JsonAnswer(body)
