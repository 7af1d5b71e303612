"""The engine against the reference: generated graphs and queries, both ways to traverse.

One way reads every property from the tables, the other one from columns in memory.
"""

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.reference.agreement import Case, make_case
from tests.reference.graphs import generate_graph
from tests.reference.queries import Compiled
from tests.reference.storing import quick, store
from tests.unit.engine.graphs import heat

from omnigraph import Graph
from omnigraph.engine import match

_QUERIES_PER_GRAPH = 40
_QUICK_GRAPHS = 6
_SOME_GRAPHS = 50
_ALL_GRAPHS = 500
_SEEDS = [
    *thinned(range(_SOME_GRAPHS), keep=_QUICK_GRAPHS),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_SOME_GRAPHS, _ALL_GRAPHS)),
]


@pytest.mark.parametrize("seed", _SEEDS)
def test_both_traversal_modes_answer_as_the_reference_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3:
        # Few rows are not folded otherwise, and there are few in these graphs.
        monkeypatch.setattr(match, "FOLDED_ROWS", 0)
    graph = generate_graph(seed)
    store(graph, tmp_path / "g", commits=1 + seed % 3, churn=seed % 2 == 1, seed=seed).close()
    with ExitStack() as opened:
        modes = {
            mode: opened.enter_context(
                Graph.open(
                    tmp_path / "g",
                    mode="read_only",
                    settings=quick(TRAVERSAL_MODE=mode, COLUMN_CACHE_BYTES=column_bytes),
                )
            )
            for mode, column_bytes in (("indexed", "0"), ("csr", "1000000"))
        }
        heat(modes["csr"])
        for query, compiled in Compiled().queries(graph, seed, _QUERIES_PER_GRAPH):
            case = make_case(graph, seed, query, compiled)
            for mode, handle in modes.items():
                problem = case.difference(_answer(case, handle, mode))
                assert problem is None, case.report(mode, problem)


@pytest.mark.parametrize("mode", ["indexed", "csr"])
@pytest.mark.parametrize(
    "seed",
    [
        *thinned(range(2_000, 2_020), keep=2),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2_020, 2_150)),
    ],
)
def test_columns_that_come_and_go_change_no_answer(seed: int, mode: str, tmp_path: Path) -> None:
    graph = generate_graph(seed)
    store(graph, tmp_path / "g", commits=2, churn=True, seed=seed).close()
    settings = quick(TRAVERSAL_MODE=mode, COLUMN_CACHE_BYTES=str(100 + 50 * (seed % 20)))
    with Graph.open(tmp_path / "g", mode="read_only", settings=settings) as opened:
        columns = opened._engine.caches.columns
        for query, compiled in Compiled().queries(graph, seed, _QUERIES_PER_GRAPH):
            heat(opened)
            assert columns.nbytes <= columns.most_bytes
            case = make_case(graph, seed, query, compiled)
            problem = case.difference(_answer(case, opened, mode))
            assert problem is None, case.report(mode, problem)


def _answer(case: Case, handle: Graph, mode: str) -> pa.Table:
    try:
        return handle.query(case.query.text, params=case.query.params).to_arrow()
    except Exception as error:
        error.add_note(case.report(mode, "the query failed"))
        raise
