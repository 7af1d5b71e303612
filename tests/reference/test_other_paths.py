"""Small graphs take the short ways; here thresholds are moved so that the long ones are taken."""

from functools import cache
from pathlib import Path

import pytest
from tests.extended import thinned
from tests.reference.agreement import make_case
from tests.reference.graphs import generate_graph
from tests.reference.queries import Compiled
from tests.reference.storing import quick, store

from omnigraph import Graph
from omnigraph.engine import expand, order, scan, streamed_groups, tables, walk
from omnigraph.graph.query import topology

_QUERIES = 40
_PATHS: dict[str, dict[tuple[object, str], int]] = {
    "streamed groups": {(streamed_groups, "LARGE_SCAN"): 0},
    "sorts by DataFusion": {(order, "SORT_IN_DATAFUSION"): 0},
    "best rows first": {(order, "TOP_OF"): 1},
    "whole numberings": {
        (expand, "FEW_IDS"): 0,
        (topology, "FEW"): 0,
        (tables, "SCAN_INSTEAD_OF_TAKE"): 0,
    },
    "ids one by one": {(topology, "LOOKUP_COST"): 0},
    "whole columns": {(tables, "SCAN_INSTEAD_OF_TAKE"): 1_000_000},
    "one walker at a time": {(walk, "VISITED_CELLS"): 1},
    "texts beside a scan": {(scan, "MANY_HITS"): 1_000_000},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@cache
def _stored(folder: Path, seed: int) -> Path:
    """The graph of a seed on disk; it is only read, and no threshold has to do with writing."""
    path = folder / str(seed)
    store(generate_graph(seed), path, commits=2, churn=True, seed=seed).close()
    return path


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("seed", thinned([1000, 1001]))
def test_every_way_answers_as_the_reference_does(
    path: str, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for (module, name), value in _PATHS[path].items():
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, value)
    graph = generate_graph(seed)
    in_memory = ("whole numberings", "ids one by one", "one walker at a time")
    mode = "csr" if path in in_memory else "indexed"
    settings = quick(TRAVERSAL_MODE=mode)
    with Graph.open(_stored(folder, seed), mode="read_only", settings=settings) as opened:
        for query, compiled in Compiled().queries(graph, seed, _QUERIES):
            case = make_case(graph, seed, query, compiled)
            answer = opened.query(query.text, params=query.params).to_arrow()
            problem = case.difference(answer)
            assert problem is None, case.report(path, problem)
