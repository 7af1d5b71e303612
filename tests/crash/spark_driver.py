"""A driver with a Java of its own: `python -m tests.crash.spark_driver ROOT BRANCH JOB`.

It says `ready` when Spark runs, makes one load, and says `done` with the commit.
"""

from __future__ import annotations

import sys

from tests.crash.spark_loads import JOBS

from omnigraph import Graph


def main(root: str, branch: str, job: str) -> None:
    """Make the load."""
    with Graph.open(root, actor="child") as graph, graph.pipeline():
        _say("ready")
        made = JOBS[job].send(graph, branch)
        assert made is not None
        _say(f"done {made.graph_commit_id}")


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
