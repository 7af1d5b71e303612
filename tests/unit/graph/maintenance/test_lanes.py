"""Which lane maintenance takes: what is asked for, else what the work and the machine say."""

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import Opened, committed, people, upsert

from omnigraph import Graph
from omnigraph.api.maintenance_lane import choose_maintenance_lane, request_of
from omnigraph.errors import InvalidArgument
from omnigraph.graph.maintenance import lane
from omnigraph.pipeline.spark import java
from omnigraph.settings import Engine, SparkSettings


def chosen(graph: Graph, engine: str = "auto", *, joins: bool = True) -> tuple[Engine, str]:
    found = choose_maintenance_lane(graph, request_of(None, "main", joins=joins), engine)
    return found.engine, found.why


def grown(graphs: Opened, times: int) -> Graph:
    graph = graphs.init()
    for number in range(times):
        upsert(graph, f"p{number}")
    return graph


def test_what_is_asked_for_comes_first(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = grown(graphs, 1)
    assert chosen(graph) == (
        Engine.LOCAL,
        "no table has more than 64 fragments or 10,000,000 rows to work on",
    )
    assert chosen(graph, "spark") == (Engine.SPARK, "--engine spark")
    wished = replace(graph._settings, spark=SparkSettings(engine=Engine.SPARK))
    monkeypatch.setattr(graph, "_settings", wished)
    assert chosen(graph) == (Engine.SPARK, "OMNIGRAPH_ENGINE is spark")
    assert chosen(graph, "local") == (Engine.LOCAL, "--engine local")
    with pytest.raises(InvalidArgument, match="engine is 'auto'"):
        chosen(graph, "fast")


def test_many_fragments_or_rows_go_to_spark_and_what_is_covered_counts_for_nothing(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = grown(graphs, 4)
    monkeypatch.setattr(lane, "MOST_FRAGMENTS", 3)
    why = "node:Person has 4 fragments to work on"
    assert chosen(graph) == chosen(graph, joins=False) == (Engine.SPARK, why)
    graph.maintenance.ensure_indices(engine="local")
    assert chosen(graph, joins=False)[0] is Engine.LOCAL
    assert chosen(graph) == (Engine.SPARK, why)
    graph.maintenance.optimize(engine="local")
    assert chosen(graph)[0] is Engine.LOCAL
    monkeypatch.setattr(lane, "MOST_ROWS", 1)
    with graph.write() as writer:
        writer.append("Person", pa.concat_tables([people("new"), people("newer")]))
        committed(writer.commit())
    assert chosen(graph, joins=False) == (Engine.SPARK, "node:Person has 2 rows to work on")


def test_without_java_it_stays_here_unless_spark_is_asked_for(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = grown(graphs, 4)
    monkeypatch.setattr(lane, "MOST_FRAGMENTS", 3)
    monkeypatch.setattr(java, "_ask_java", lambda: "")
    engine, why = chosen(graph)
    assert engine is Engine.LOCAL
    assert why.startswith("node:Person has 4 fragments to work on, but Spark needs Java")
    assert graph.maintenance.optimize().engine == "local"
    assert chosen(graph, "spark")[0] is Engine.SPARK
