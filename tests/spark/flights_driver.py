"""A driver that dies in a run: `python -m tests.spark.flights_driver ROOT PIPELINE POINT`."""

from __future__ import annotations

import os
import sys

from tests.crash.spark_loads import join_running_java

from omnigraph import Graph
from omnigraph.failpoints import armed


def main(root: str, pipeline: str, point: str) -> None:
    """Run until the point, then be gone."""
    join_running_java()
    with Graph.open(root) as graph, armed(point, lambda: os._exit(9)):
        graph.pipeline().run(pipeline)


if __name__ == "__main__":
    main(*sys.argv[1:])
