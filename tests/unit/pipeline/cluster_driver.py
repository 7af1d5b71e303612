"""A driver on a cluster: `python cluster_driver.py ROOT SOURCE MODE`.

It prints one line for each step of progress, and at last its report or its error.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.session import SparkMode

if TYPE_CHECKING:
    from omnigraph.pipeline.pipeline import Pipeline


def main(root: str, source: str, mode: Any) -> None:  # noqa: ANN401 - the load checks it
    """Make one load."""
    try:
        with Graph.open(root) as graph, graph.pipeline(shared_filesystem=True) as pipeline:
            _lose_patience(pipeline)
            report = pipeline.load(
                source,
                mode=mode,
                progress=lambda told: _say("progress", [told.stage, told.done, told.total]),
            )
    except OmnigraphError as error:
        _say("error", [type(error).__name__, error.message])
        return
    _say(
        "report",
        {
            "tables": {each.table: each.added for each in report.tables},
            "retries": {each.name: each.retries for each in report.stages},
        },
    )


def _lose_patience(pipeline: Pipeline) -> None:
    """Make a Connect client give up on a dead server in seconds; by itself it takes ten minutes."""
    session = pipeline._session
    if session.mode is SparkMode.CONNECT:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session.spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])


def _say(kind: str, what: object) -> None:
    sys.stdout.write(json.dumps([kind, what]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
