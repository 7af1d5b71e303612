"""What commands that change no row have in common: the words for what they left, and the body."""

from typing import TYPE_CHECKING, Any, Final, Literal

from omnigraph.errors import UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.api import Graph
    from omnigraph.api.maintenance_lane import MaintenanceRequest
    from omnigraph.cli.session import Session
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.maintenance.index_report import PendingIndex

SPARK_STAGES: Final = {"session": "starting Spark", "handshake": "asking Spark"}
_REASONS: Final = {"no_rows": "no rows yet", "no_vectors": "no vectors yet"}


def left_of(pending: "Iterable[PendingIndex]", *, is_busy: bool) -> str:
    """Why a table is not as it should be yet: `vec (no vectors yet)`."""
    waiting = [f"{index.property_name} ({_REASONS[index.reason]})" for index in pending]
    if is_busy:
        waiting.append("others write to it too often: run this again later")
    return ", ".join(waiting) or "-"


def announce_lane(
    session: "Session",
    graph: "Graph",
    request: "MaintenanceRequest",
    given: Engine | None,
    of_spark: "Mapping[str, object]",
) -> Literal["local", "spark"]:
    """Choose where it runs, and say so with the reason: before Spark starts, which takes seconds.

    `given` is what the command line says, `of_spark` what else it may say of Spark.

    Raises:
        UsageError: something is said of Spark, and it runs in this process.
    """
    from omnigraph.api.maintenance_lane import choose_maintenance_lane

    lane = choose_maintenance_lane(graph, request, given or Engine.AUTO)
    wishes = [option for option, value in of_spark.items() if value]
    if wishes and lane.engine is Engine.LOCAL:
        raise UsageError(
            f"{wishes[0]} is about Spark, and this runs in this process ({lane.why}); leave it out,"
            " or give --engine spark"
        )
    session.output.announce(f"engine {lane.engine.value}: {lane.why}")
    return "spark" if lane.engine is Engine.SPARK else "local"


# Any: a report as JSON.
def with_commit(body: dict[str, Any], commit: "Commit | None") -> dict[str, Any]:
    """A report whose commit is the one of the contract."""
    from omnigraph.graph.bodies import commit_body

    return body | {"commit": None if commit is None else commit_body(commit)}
