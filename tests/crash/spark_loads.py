"""The loads on Spark that crash tests make: the same rows as files, each under a key of its own."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.loads import Load
from tests.crash.model import knows, person

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph import Graph
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.jobs.report import JobReport

GATEWAY = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
"""How PySpark is told of a Java that runs already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Load):
    """A load of a file on Spark; sent again under its key, it is made once."""

    name: str
    is_keyed: bool = True

    def send(self, graph: Graph, branch: str) -> Commit | None:
        """Make the write."""
        return self.run(graph, branch).commit

    def run(self, graph: Graph, branch: str) -> JobReport:
        """Run the job."""
        return graph.load(
            self.path_for(Path(str(graph._graph.storage.location))),
            mode=self.mode,
            branch=branch,
            engine="spark",
            idempotency_key=self.name if self.is_keyed else None,
        )

    def path_for(self, root: Path) -> Path:
        """The input, beside the graph; it is written once, so that every run reads the same."""
        path = root.with_name(f"{root.name}-{self.name}.jsonl")
        if not path.exists():
            path.write_text("".join(f"{json.dumps(each)}\n" for each in self._records()))
        return path


def join_running_java() -> None:
    """Make the Spark of another process the active session of this one, as its own driver."""
    if not all(os.environ.get(name) for name in GATEWAY):
        return
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    spark = gateway.jvm.org.apache.spark
    context = spark.api.java.JavaSparkContext.fromSparkContext(spark.SparkContext.getOrCreate())
    SparkSession(SparkContext(jsc=context, gateway=gateway))


_CROWD = tuple(person(f"s{n}", 100 + n) for n in range(24))
_UNNAMED = {"src": "s1", "dst": "p1", "since": 7}

JOBS: Mapping[str, Job] = {
    each.name: each
    for each in (
        Job(
            name="spark_append",
            mode="append",
            rows={
                "Person": _CROWD,
                "Knows": (*(knows(f"sk{n}", f"s{n}", "p0", n) for n in range(24)), _UNNAMED),
            },
        ),
        Job(
            name="spark_merge",
            mode="merge",
            rows={
                "Person": (person("p0", 100), *_CROWD),
                "Knows": (
                    knows("k0", "p0", "s2", 1999),
                    *(knows(f"sk{n}", f"s{n}", "p1", n) for n in range(20)),
                    # Repeated in one input, the last one stays.
                    knows("k0", "p0", "s2", 2000),
                    _UNNAMED,
                ),
            },
        ),
        Job(
            name="spark_merge_unkeyed",
            mode="merge",
            is_keyed=False,
            rows={
                "Person": (person("p1", 111), *_CROWD),
                "Knows": (knows("k1", "p1", "s3", 12), knows("sk", "s4", "p0", 13)),
            },
        ),
        Job(
            name="spark_overwrite",
            mode="overwrite",
            rows={
                "Person": (person("p2", 202), person("p3", 203), *_CROWD),
                "Knows": (
                    *(knows(f"sk{n}", "p2", f"s{n}", n) for n in range(20)),
                    {"src": "p2", "dst": "s1", "since": 7},
                ),
            },
        ),
    )
}
"""Each touches two tables, and in small splits several tasks."""
