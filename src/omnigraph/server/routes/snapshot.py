"""The tables of a branch's head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from omnigraph.errors import PolicyError
from omnigraph.graph.access import Action
from omnigraph.graph.history.allowed_states import state_refused
from omnigraph.server.answers import answer
from omnigraph.server.bodies.reads import SnapshotDatasetOutput, SnapshotOutput
from omnigraph.server.operations import GRAPH_PATH, Operation, Parameter

if TYPE_CHECKING:
    from starlette.responses import Response

    from omnigraph.graph.history.snapshot_table import SnapshotTable
    from omnigraph.server.request_context import RequestContext

BRANCH: Final = Parameter(name="branch", description="The branch; `main` without it.")


async def snapshot(context: RequestContext) -> Response:
    """What a branch holds, or held, by metadata alone."""
    branch, at = context.query_branch(), context.query.get("at")
    await context.authorize(Action.READ, branch)

    def run() -> Response:
        try:
            taken = context.graph.snapshot(at, branch=branch)
        except PolicyError:
            if at is None:
                raise
            raise state_refused(Action.READ, at, context.actor) from None
        return answer(
            SnapshotOutput(
                graph_branch=branch,
                graph_manifest_version=taken.seq,
                internal_schema_version=taken.internal_schema_version,
                datasets=[_dataset(table) for table in taken.tables],
            ),
            headers={"Omnigraph-Graph-Commit": taken.graph_commit_id},
        )

    return await context.read(run)


def _dataset(table: SnapshotTable) -> SnapshotDatasetOutput:
    kind, _, name = table.table_key.partition(":")
    return SnapshotDatasetOutput(
        entity_kind="node" if kind == "node" else "edge",
        type_name=name,
        dataset_path=table.dataset_path,
        published_dataset_version=table.published_dataset_version,
        native_dataset_branch=table.native_dataset_branch,
        entity_count=table.entity_count,
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path=f"{GRAPH_PATH}/snapshot",
        operation_id="cluster_getSnapshot",
        tag="snapshots",
        summary="The tables of a branch's head",
        handler=snapshot,
        answer=SnapshotOutput,
        statuses=(400, 410, 429),
        parameters=(
            BRANCH,
            Parameter(
                name="at",
                description="A commit, a tag, or a number or time of the branch.",
            ),
        ),
    ),
)
