"""Asks Spark what generated queries ask, and holds the answer against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference.agreement import make_case
from tests.reference.graphs import generate_graph
from tests.reference.queries import Compiled
from tests.reference.storing import quick, store

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from tests.reference.agreement import Case


def require_agreement(seed: int, queries: int, folder: Path) -> None:
    """Spark and the engine answer the queries of a graph as the reference does."""
    graph = generate_graph(seed)
    store(graph, folder / "g", commits=1 + seed % 3, churn=seed % 2 == 1, seed=seed).close()
    with Graph.open(folder / "g", mode="read_only", settings=quick()) as opened:
        for query, compiled in Compiled().queries(graph, seed, queries):
            case = make_case(graph, seed, query, compiled)
            for executor in ("local", "spark"):
                problem = case.difference(_answer(case, opened, executor))
                assert problem is None, case.report(executor, problem)


def _answer(case: Case, graph: Graph, executor: str) -> pa.Table:
    try:
        return graph.query(
            case.query.text,
            params=case.query.params,
            executor=executor,  # type: ignore[arg-type]  # one of two of its words
            timeout_s=0,
        ).to_arrow()
    except Exception as error:
        error.add_note(case.report(executor, "the query failed"))
        raise
