"""A driver on a cluster: `python cluster_driver.py ROOT SOURCE MODE [MARKS]`.

It prints one line for each step of progress, and at last its report or its error. With a folder for
marks, every attempt of a task of the intake leaves one when it has written its files, and the first
attempt of one task then waits for another attempt.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.spark import lanes, tasks
from omnigraph.pipeline.spark.session import SparkMode

if TYPE_CHECKING:
    from omnigraph.pipeline.pipeline import Pipeline


SLOW_TASK = 3
_PATIENCE_S = 120


def main(root: str, source: str, mode: Any, marks: str | None = None) -> None:  # noqa: ANN401 - the load checks it
    """Make one load."""
    if marks is not None:
        _slow_down(marks)
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


def _slow_down(marks: str) -> None:
    """Put around every task of the intake what marks its attempts and slows one of them down."""
    real = tasks.run_tasks

    def around(function: Any) -> Any:  # noqa: ANN401 - passed on as it came
        def run(task: Any) -> Any:  # noqa: ANN401
            import time
            from pathlib import Path

            from pyspark import TaskContext

            done = list(function(task))
            context = TaskContext.get()
            assert context is not None
            number, attempt = context.partitionId(), context.attemptNumber()
            Path(marks, f"{number}-{attempt}").touch()
            until = time.perf_counter() + _PATIENCE_S
            while (number, attempt) == (SLOW_TASK, 0) and time.perf_counter() < until:
                if Path(marks, f"{number}-1").exists():
                    break
                time.sleep(0.05)
            return done

        return run

    def run_tasks(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        session, stage, told, function, schema = given
        inner = around(function) if stage == "intake" else function
        return real(session, stage, told, inner, schema, **more)

    vars(lanes)["run_tasks"] = run_tasks


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
