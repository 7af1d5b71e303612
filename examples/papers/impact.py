"""Reads, asks, measures and follows the sample on Spark: a PySpark job over one graph.

    python examples/papers/impact.py                   # a graph in a temporary folder
    python examples/papers/impact.py papers.omni       # a new graph in this folder

Which papers matter most by their citations becomes a property, as one commit, and a stream tells
that it changed. Java 17 or later must be installed.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from omnigraph import Graph
from omnigraph.pipeline import register
from omnigraph.pipeline.pipeline import Pipeline

HERE = Path(__file__).parent
PLACE = "  review_score: F64?"
WITH_IMPACT = f"  impact: F64?\n{PLACE}"


def make(where: Path) -> Graph:
    """The sample, with a property for what is measured."""
    schema = (HERE / "schema.pg").read_text(encoding="utf-8")
    graph = Graph.init(where, schema=schema.replace(PLACE, WITH_IMPACT))
    graph.load(HERE / "papers-small.ndjson", mode="append", engine="local")
    return graph


def show_read(pipeline: Pipeline) -> None:
    """Reads two types as frames and joins them in Spark."""
    papers = pipeline.read(type="Paper", columns=["id", "published"])
    cites = pipeline.read(edge="Cites", columns=["src", "dst"])
    cited = cites.join(papers, cites.dst == papers.id).groupBy(F.year("published").alias("year"))
    counts = cited.count().orderBy("year").collect()
    print("Citations by the year of what is cited")
    for row in counts:
        print(f"  {row['year']}  {row['count']}")


def show_query(pipeline: Pipeline) -> None:
    """Asks a query of `queries.gq` for a frame."""
    frame = pipeline.query((HERE / "queries.gq").read_text(encoding="utf-8"), "topic_overview")
    print(f"Topics: {frame.count()} rows of {', '.join(frame.columns)}")


def write_impact(graph: Graph, pipeline: Pipeline) -> None:
    """Ranks papers by their citations, and writes the ranks as one commit."""
    scores = pipeline.analytics.pagerank(edge="Cites")
    report = scores.write_to("Paper.impact")
    print(f"Impact of {report.tables[0].changed} papers, measured on {scores.engine}")
    source = (
        "query top() { match { $p: Paper } return { $p.slug, $p.impact }"
        " order { $p.impact desc } limit 3 }"
    )
    for row in graph.query(source):
        print(f"  {row['p.slug']}  {row['p.impact']:.3f}")


def follow(spark: SparkSession, where: Path, scratch: Path, since: str) -> None:
    """Streams what was committed since, up to the head of `main`."""
    told: list[str] = []

    def keep(batch: DataFrame, number: int) -> None:  # noqa: ARG001 - as Spark calls it
        rows = batch.groupBy("seq", "op", "type").count().orderBy("seq").collect()
        told.extend(f"  {row['count']} {row['type']}: {row['op']}" for row in rows)

    register(spark)
    stream = (
        spark.readStream.format("omnigraph")
        .options(graph=str(where), start=f"after:{since}")
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    print("Changes since the load", *told, sep="\n")


def run(where: Path, scratch: Path) -> None:
    """The whole job, on the session that is active, else on one that the pipeline starts."""
    with make(where) as graph, graph.pipeline() as pipeline:
        loaded = graph.snapshot().graph_commit_id
        show_read(pipeline)
        show_query(pipeline)
        write_impact(graph, pipeline)
        follow(SparkSession.active(), where, scratch, loaded)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the job where it is told to."""
    parser = argparse.ArgumentParser(description="Measure the sample on Spark.")
    parser.add_argument("graph", nargs="?", type=Path, help="a new folder")
    where = parser.parse_args(arguments).graph
    with tempfile.TemporaryDirectory() as scratch:
        run((where or Path(scratch, "papers.omni")).absolute(), Path(scratch))


if __name__ == "__main__":
    main()
