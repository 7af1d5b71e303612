"""Topologies that are built in the background once probing has cost as much."""

import time

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.engine import warming
from omnigraph.engine.runtime_cache import TableVersion

SCHEMA = "node N { name: String @key }\nedge E: N -> N"
WALK = "query q($n: String) { match { $a: N { name: $n }  $a e $b } return { $b } }"


def _filled(graph: Graph) -> Graph:
    names = [f"n{number:03d}" for number in range(200)]
    with graph.write() as write:
        write.append("N", pa.table({"name": names}))
        write.append("E", pa.table({"src": names[:-1], "dst": names[1:]}))
        write.commit()
    graph.maintenance.ensure_indices()
    return graph


def _is_built(graph: Graph) -> bool:
    snapshot = graph.snapshot()
    version = TableVersion.of(snapshot.handle(snapshot.type("E")))
    return graph._engine.caches.topologies.peek(version) is not None


def _wait_for(graph: Graph) -> bool:
    for _ in range(3_000):
        if _is_built(graph):
            return True
        time.sleep(0.01)
    return False


def test_walks_from_single_nodes_get_a_topology_in_the_end(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "PROBE_COST", 25)
    graph = _filled(graphs.init(SCHEMA))
    expected = [{"b": "n008"}]
    for _ in range(2):
        assert graph.query(WALK, params={"n": "n007"}).to_dicts() == expected
    assert not _is_built(graph)
    assert graph.query(WALK, params={"n": "n007"}).to_dicts() == expected
    assert _wait_for(graph)
    assert graph.explain(WALK).ops[1]["mode"] == "csr"
    assert graph.query(WALK, params={"n": "n007"}).to_dicts() == expected


def test_a_mode_that_is_set_is_kept(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "PROBE_COST", 10_000_000)
    graph = _filled(graphs.init(SCHEMA, TRAVERSAL_MODE="indexed"))
    for _ in range(3):
        graph.query(WALK, params={"n": "n007"})
    assert graph._engine._warmer._worker is None
    assert not _is_built(graph)


def test_closing_ends_the_work(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "PROBE_COST", 10_000_000)
    graph = _filled(graphs.init(SCHEMA))
    graph.query(WALK, params={"n": "n007"})
    graph.close()
    assert graph._engine._warmer._worker is None
    graph.close()
