"""A process with a Java of its own, in the zone of its environment: runs a pipeline of a folder.

Arguments: the folder, and the jar of the database's driver. Prints how many rows were added, or the
fault of the database.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.spark.conftest import ENVIRON

from omnigraph import Graph
from omnigraph.errors import SourceError
from omnigraph.pipeline.spark.session import open_session
from omnigraph.settings import load_settings

_CONF = "OMNIGRAPH_SPARK_CONF"


def main(folder: Path, jar: str) -> None:
    """Run it, and tell."""
    settings = load_settings({**ENVIRON, _CONF: f"{ENVIRON[_CONF]};spark.jars={jar}"})
    with (
        open_session(settings, command="tests") as session,
        Graph.open(folder / "graph") as graph,
    ):
        for file in sorted(folder.glob("*.yaml")):
            try:
                report = graph.pipeline(session.spark).run(file)
                told: object = sum(each.added for each in report.tables)
            except SourceError as error:
                told = [error.details.get("fault"), error.message]
            print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
