"""The changes of a branch as a stream of Spark: whole commits, checkpoints, a copy kept in step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from omnigraph import Graph
from omnigraph.pipeline import register
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

    Sink = Callable[[Any, int], None]  # Any: a frame of either client

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process"})
    with Graph.init(tmp_path / "g", schema=SCHEMA, settings=settings) as opened:
        for name in ("ann", "bob", "cy"):
            add(opened, name)
        knows = '{"edge":"Knows","from":"ann","to":"bob","data":{"id":"k","since":"2024-02-29"}}'
        opened.load(knows.encode(), mode="append", engine="local")
        opened.mutate('query q() { delete Person where name = "bob" }')
        opened.mutate('query q() { update Person set { age: 41 } where name = "ann" }')
        yield opened


def add(graph: Graph, name: str) -> None:
    line = json.dumps({"type": "Person", "data": {"name": name, "age": 40}})
    graph.load(line.encode(), mode="append", engine="local")


class Reader:
    """Runs one stream up to the head of the branch, again and again from one checkpoint."""

    def __init__(self, folder: Path, session: PipelineSession) -> None:
        self._folder = folder
        self._spark = session.spark
        register(session.spark)

    def run(self, sink: Sink, **options: str) -> str:
        """What ended it; empty if it came to the head."""
        from pyspark.errors import StreamingQueryException

        query = (
            self._spark.readStream.format("omnigraph")
            .options(graph=str(self._folder / "g"), start="beginning", **options)
            .load()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(240)
        except StreamingQueryException as error:
            return str(error)
        return str(query.exception() or "")


class Kept:
    """A sink that keeps the rows of each batch in order, and fails when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.fails_at: int | None = None

    def __call__(self, batch: Any, _: int) -> None:  # noqa: ANN401 - a frame of either client
        if len(self.batches) == self.fails_at:
            self.fails_at = None
            raise RuntimeError("the sink fails once")
        ordered = batch.orderBy("seq", "kind", "type", "id")
        self.batches.append([row.asDict() for row in ordered.collect()])

    @property
    def told(self) -> list[tuple[int, str, str, str]]:
        """What every row says, without images."""
        rows = (row for batch in self.batches for row in batch)
        return [(row["seq"], row["op"], row["type"], row["id"]) for row in rows]


TOLD = [
    (1, "insert", "Person", "ann"),
    (2, "insert", "Person", "bob"),
    (3, "insert", "Person", "cy"),
    (4, "insert", "Knows", "k"),
    (5, "delete", "Knows", "k"),
    (5, "delete", "Person", "bob"),
    (6, "update", "Person", "ann"),
]


@pytest.mark.extended
def test_a_stream_tells_commits_whole_in_batches_of_so_many(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    kept = Kept()
    # The first commit of a graph changes nothing.
    assert Reader(tmp_path, session).run(kept, maxCommitsPerTrigger="4") == ""
    assert kept.told == TOLD
    assert [len({row["seq"] for row in batch}) for batch in kept.batches] == [3, 3]
    (commit,) = {each.graph_commit_id for each in graph.commits if each.graph_manifest_version == 4}
    assert kept.batches[1][0] == {
        "graph_commit_id": commit,
        "seq": 4,
        "op": "insert",
        "kind": "edge",
        "type": "Knows",
        "id": "k",
        "src": "ann",
        "dst": "bob",
        "before": None,
        "after": '{"since":"2024-02-29"}',
    }
    update = kept.batches[1][-1]
    assert (update["before"], update["after"]) == (
        '{"name":"ann","age":40}',
        '{"name":"ann","age":41}',
    )


@pytest.mark.extended
def test_a_stream_goes_on_from_its_checkpoint_after_a_failure_and_later(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    reader, kept = Reader(tmp_path, session), Kept()
    kept.fails_at = 1
    assert "the sink fails once" in reader.run(kept, maxCommitsPerTrigger="2")
    assert reader.run(kept) == ""
    assert kept.told == TOLD
    add(graph, "dan")
    assert reader.run(kept) == ""
    assert kept.told == [*TOLD, (7, "insert", "Person", "dan")]
    assert "change_cursor_rejected" in reader.run(kept, ops="delete")


@pytest.mark.extended
def test_a_copy_in_parquet_is_kept_in_step(
    tmp_path: Path, graph: Graph, session: PipelineSession
) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    spark = session.spark

    def copy(number: int) -> str:
        return str(tmp_path / "people" / str(number))

    def keep(batch: Any, number: int) -> None:  # noqa: ANN401 - a frame of either client
        changed = batch.groupBy("id").agg(F.max_by(F.struct("after"), "seq").alias("last"))
        person = F.from_json("last.after", "name string, age int").alias("person")
        people = changed.filter("last.after is not null").select("id", person)
        people = people.select("id", "person.*")
        if number > 0:
            before = spark.read.parquet(copy(number - 1))
            people = before.join(changed, "id", "left_anti").unionByName(people)
        people.write.mode("overwrite").parquet(copy(number))

    reader = Reader(tmp_path, session)
    assert reader.run(keep, types="Person", maxCommitsPerTrigger="2") == ""
    add(graph, "dan")
    assert reader.run(keep, types="Person", maxCommitsPerTrigger="2") == ""
    last = max(int(each.name) for each in (tmp_path / "people").iterdir())
    rows = spark.read.parquet(copy(last)).orderBy("id").collect()
    assert [(row["id"], row["age"]) for row in rows] == [("ann", 41), ("cy", 40), ("dan", 40)]
