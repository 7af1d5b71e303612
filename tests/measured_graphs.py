"""Small graphs for measures: with loops, parallel edges, isolated and dangling nodes, and weights.

Ids sort otherwise than numbers do, so that an order by number, by id and by arrival differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pyarrow as pa

from omnigraph import Graph
from omnigraph.pipeline.analytics.local.topology import Topology
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.arrays import Floats, Numbers

SCHEMA = """
node Place { name: String @key  rank: F64?  part: String?  number: I64?  note: String? }
node Firm { name: String @key  rank: F64? }
edge Road: Place -> Place { length: F64?  node: U32? }
edge Seat: Firm -> Place { since: I32? }
"""
_SEATED = 8
"""Graphs of so many places have firms enough for seats."""


@dataclass(frozen=True, kw_only=True)
class Roads:
    """Edges between nodes that are numbered in the order of their ids."""

    ids: list[str]
    sources: Numbers
    targets: Numbers
    lengths: Floats

    @property
    def topology(self) -> Topology:
        return Topology(len(self.ids), self.sources, self.targets, self.lengths)

    @property
    def directed(self) -> nx.MultiDiGraph:
        made = nx.MultiDiGraph()
        made.add_nodes_from(range(len(self.ids)))
        made.add_weighted_edges_from(
            zip(self.sources.tolist(), self.targets.tolist(), self.lengths.tolist(), strict=True),
            weight="length",
        )
        return made

    @property
    def undirected(self) -> nx.MultiGraph:
        # `to_undirected` of networkx makes one edge of two that go there and back.
        made = nx.MultiGraph()
        made.add_nodes_from(range(len(self.ids)))
        made.add_edges_from(self.directed.edges(data=True))
        return made

    @property
    def plain(self) -> nx.Graph:
        """Undirected, each pair once, without loops."""
        made = nx.Graph(self.undirected)
        made.remove_edges_from(list(nx.selfloop_edges(made)))
        return made


def make_roads(seed: int, *, nodes: int = 40, edges: int = 60) -> Roads:
    """A generated graph; about a third of its nodes have no edge at all."""
    rng = np.random.default_rng(seed)
    joined = rng.choice(nodes, max(1, nodes * 2 // 3), replace=False)
    sources, targets = rng.choice(joined, (2, edges))
    again = rng.integers(0, edges, edges // 5)
    loops = rng.choice(joined, 3)
    sources = np.concatenate((sources, sources[again], loops))
    targets = np.concatenate((targets, targets[again], loops))
    lengths = rng.integers(0, 40, len(sources)) / 8
    ids = sorted((f"p{number * 7}" for number in range(nodes)), key=str.encode)
    return Roads(ids=ids, sources=sources, targets=targets, lengths=lengths)


def make_graph(where: Path, roads: Roads, **variables: str) -> Graph:
    """The same as a stored graph; firms have the ids of places, and a seat in some."""
    settings = load_settings(
        {"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_ENGINE": "auto", **variables}
    )
    graph = Graph.init(where, schema=SCHEMA, settings=settings)
    ids = pa.array(roads.ids, pa.string())

    def named(numbers: Numbers) -> pa.Array[pa.StringScalar]:
        return ids.take(pa.array(numbers, pa.int64()))

    firms = ids.slice(0, len(ids) // 2)
    shuffled = np.random.default_rng(1).permutation(len(ids))
    with graph.write() as write:
        write.append("Place", pa.table({"name": named(shuffled)}))
        write.append("Firm", pa.table({"name": firms}))
        ends = {"src": named(roads.sources), "dst": named(roads.targets)}
        nodes = pa.array(np.arange(len(roads.sources)) % 5, pa.uint32())
        write.append("Road", pa.table({**ends, "length": roads.lengths, "node": nodes}))
        if len(ids) >= _SEATED:
            seats = {"src": named(np.array([0, 0, 1, 2])), "dst": named(np.array([0, 1, 1, 3]))}
            write.append("Seat", pa.table(seats))
        write.commit()
    return graph
