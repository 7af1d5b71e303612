"""A process with a Java of its own: adds rows to a database, runs the pipeline that follows it.

Arguments: the folder, then name and time on the clock of each row. Prints how many were added.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.conftest import ENVIRON
from tests.spark.derby_tables import TABLE, execute, rows_of

from omnigraph import Graph
from omnigraph.pipeline.spark.session import open_session
from omnigraph.settings import load_settings


def main(folder: Path, moments: list[tuple[str, str]]) -> None:
    """Add the rows, run, and tell."""
    with (
        open_session(load_settings(ENVIRON), command="tests") as session,
        Graph.open(folder / "graph") as graph,
    ):
        made = [] if (folder / "db").exists() else [TABLE]
        execute(session.spark, folder, [*made, *rows_of("events", moments)])
        report = graph.pipeline(session.spark).run(folder / "feed.yaml")
        print(json.dumps(sum(each.added for each in report.tables)))  # noqa: T201


if __name__ == "__main__":
    texts = sys.argv[2:]
    main(Path(sys.argv[1]), list(zip(texts[::2], texts[1::2], strict=True)))
