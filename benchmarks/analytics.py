"""What measures of a whole graph cost in this process, beside a library that holds it in memory.

PageRank and connected components over generated edges: reading them from the graph, computing, and
the same computed by rustworkx over a graph that it has built, if it is installed. Answers are
compared first; both iterate to the same tolerance. `--edges 10000000` is the size of the bar, and
`--target` fails when computing takes more than three times as long as there. Peak memory is that of
this process before rustworkx is asked.
"""

import argparse
import importlib
import importlib.util
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import Graph
from omnigraph.pipeline.analytics.local.components import connected_components
from omnigraph.pipeline.analytics.local.pagerank import pagerank
from omnigraph.pipeline.analytics.local.topology import Topology, read_nodes, read_topology
from omnigraph.pipeline.analytics.measures import Measure, PageRank
from omnigraph.pipeline.analytics.scope import find_scope
from omnigraph.settings import load_settings

SCHEMA = """
node Person { handle: String @key  rank: F64? }
edge Knows: Person -> Person
"""
BAR = 3.0
ROUNDS = 5
EDGES_PER_WRITE = 2_000_000
NODES_PER_EDGE = 0.1
RANKS = PageRank(tol=1e-6, max_iter=100)


@dataclass(frozen=True)
class Case:
    """A measure, how it is computed from numbers, and how by the library."""

    name: str
    ours: Callable[[Topology], Any]  # Any: an array
    theirs: Callable[[Any], Any]  # Any: of a library without types


def make_graph(where: Path, edges: int) -> Graph:
    """A seeded graph; some nodes have very many edges, as in graphs of people."""
    rng = np.random.default_rng(1)
    nodes = max(2, int(edges * NODES_PER_EDGE))
    handles = pa.array([f"u{number:08d}" for number in range(nodes)])
    graph = Graph.init(
        where, schema=SCHEMA, settings=load_settings({"OMNIGRAPH_DURABILITY": "process"})
    )
    with graph.write() as write:
        write.append("Person", pa.table({"handle": handles}))
        write.commit()
    for start in range(0, edges, EDGES_PER_WRITE):
        count = min(EDGES_PER_WRITE, edges - start)
        sources = rng.integers(0, nodes, count)
        targets = (nodes * rng.random(count) ** 3).astype(np.int64)
        ends = {
            "src": handles.take(pa.array(sources, pa.int64())),
            "dst": handles.take(pa.array(targets, pa.int64())),
        }
        with graph.write() as write:
            write.append("Knows", pa.table(ends))
            write.commit()
    return graph


def taken(call: Callable[[], object], rounds: int) -> float:
    """The least time in seconds."""
    times = []
    for _ in range(rounds):
        begun = perf_counter()
        call()
        times.append(perf_counter() - begun)
    return min(times)


def in_memory(topology: Topology) -> Any:  # noqa: ANN401 - as above
    """The same graph as the library holds it; `None` if it is not installed."""
    if importlib.util.find_spec("rustworkx") is None:
        return None
    library: Any = importlib.import_module("rustworkx")  # Any: as above
    made = library.PyDiGraph(multigraph=True)
    made.add_nodes_from([None] * topology.nodes)
    pairs = zip(topology.sources.tolist(), topology.targets.tolist(), strict=True)
    made.extend_from_edge_list(list(pairs))
    return made


def their_ranks(made: Any) -> Any:  # noqa: ANN401 - as above
    library: Any = importlib.import_module("rustworkx")  # Any: as above
    # It stops at the tolerance times the nodes.
    nodes = made.num_nodes()
    found = library.pagerank(made, alpha=RANKS.damping, tol=RANKS.tol / nodes, max_iter=100)
    return np.array([found[node] for node in range(nodes)])


def their_components(made: Any) -> Any:  # noqa: ANN401 - as above
    library: Any = importlib.import_module("rustworkx")  # Any: as above
    return library.weakly_connected_components(made)


def our_ranks(topology: Topology) -> Any:  # noqa: ANN401 - as above
    return pagerank(topology, RANKS, lambda _done, _most: None)


CASES = (
    Case("PageRank", our_ranks, their_ranks),
    Case("connected components", connected_components, their_components),
)


def require_same(topology: Topology, made: Any) -> None:  # noqa: ANN401 - as above
    """Stop if answers differ."""
    if not np.allclose(our_ranks(topology), their_ranks(made), atol=1e-6 / topology.nodes):
        raise SystemExit("wrong ranks")
    parts = their_components(made)
    if len(np.unique(connected_components(topology))) != len(parts):
        raise SystemExit("wrong components")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--target", action="store_true", help="fail above the bar")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        make_graph(Path(folder) / "graph", options.edges) as graph,
    ):
        measure: Measure = RANKS
        scope = find_scope(graph.snapshot(), "Knows", measure)
        begun = perf_counter()
        nodes = read_nodes(scope)
        topology = read_topology(scope, nodes)
        reading = perf_counter() - begun
        print(f"{topology.nodes:,} nodes, {len(topology.sources):,} edges")
        print(f"{'reading them from the graph':<40} {reading:8.2f} s")
        ours = {case.name: taken(partial(case.ours, topology), ROUNDS) for case in CASES}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{'peak memory of this process':<40} {peak:8,} MiB")
        made = in_memory(topology)
        if made is not None:
            require_same(topology, made)
        worst = 0.0
        for case in CASES:
            line = f"{case.name:<40} {ours[case.name]:8.2f} s"
            if made is not None:
                theirs = taken(partial(case.theirs, made), ROUNDS)
                ratio = ours[case.name] / theirs
                worst = max(worst, ratio)
                line += f"   rustworkx {theirs:8.2f} s   ratio {ratio:.2f} (bar {BAR})"
            print(line)
        if made is None:
            print("rustworkx is not installed; nothing is compared", file=sys.stderr)
        if options.target and worst > BAR:
            raise SystemExit("slower than the bar")


if __name__ == "__main__":
    main()
