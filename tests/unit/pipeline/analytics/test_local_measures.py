"""The measures of this process against networkx, and against rules written out again."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from tests.extended import thinned
from tests.measured_graphs import Roads, make_roads

from omnigraph.pipeline.analytics.local.components import connected_components
from omnigraph.pipeline.analytics.local.degree import degrees
from omnigraph.pipeline.analytics.local.label_propagation import label_propagation
from omnigraph.pipeline.analytics.local.pagerank import pagerank
from omnigraph.pipeline.analytics.local.shortest_paths import distances
from omnigraph.pipeline.analytics.local.strong_components import strong_components
from omnigraph.pipeline.analytics.local.topology import Topology
from omnigraph.pipeline.analytics.local.triangles import triangles
from omnigraph.pipeline.analytics.measures import Direction, LabelPropagation, PageRank

_SIZES = [(40, 60), (1, 1), (12, 60), (90, 40), (60, 400), (300, 500)]
GENERATED = thinned(((seed, *_SIZES[seed % len(_SIZES)]) for seed in range(60)), keep=6)


@pytest.fixture
def roads(request: pytest.FixtureRequest) -> Roads:
    seed, nodes, edges = request.param
    return make_roads(seed, nodes=nodes, edges=edges)


generated = pytest.mark.parametrize(
    "roads", [pytest.param(case.values, marks=case.marks) for case in GENERATED], indirect=True
)


def silent(done: int, most: int) -> None:
    assert 0 <= done < most


def smallest_of_each(parts: list[set[int]], nodes: int) -> list[int]:
    smallest = list(range(nodes))
    for part in parts:
        for node in part:
            smallest[node] = min(part)
    return smallest


@generated
def test_degrees_count_every_edge_and_loops_at_either_end(roads: Roads) -> None:
    arriving, leaving = degrees(roads.topology)
    assert arriving.tolist() == [count for _, count in roads.directed.in_degree()]
    assert leaving.tolist() == [count for _, count in roads.directed.out_degree()]


@generated
def test_ranks_are_the_fixed_point_of_the_google_matrix(roads: Roads) -> None:
    ranks = pagerank(roads.topology, PageRank(tol=1e-13, max_iter=1_000), silent)
    matrix = np.asarray(nx.google_matrix(roads.directed, alpha=0.85, weight=None))
    values, vectors = np.linalg.eig(matrix.T)
    fixed = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(ranks, fixed / fixed.sum(), atol=1e-11)
    assert ranks.sum() == pytest.approx(1, abs=1e-12)


@generated
def test_components_are_named_by_their_smallest_node(roads: Roads) -> None:
    parts = list(nx.weakly_connected_components(roads.directed))
    found = connected_components(roads.topology)
    assert found.tolist() == smallest_of_each(parts, len(roads.ids))


@generated
def test_strong_components_are_named_by_their_smallest_node(roads: Roads) -> None:
    parts = list(nx.strongly_connected_components(roads.directed))
    found = strong_components(roads.topology)
    assert found.tolist() == smallest_of_each(parts, len(roads.ids))


@generated
def test_triangles_ignore_direction_loops_and_parallel_edges(roads: Roads) -> None:
    expected = nx.triangles(roads.plain)
    found = triangles(roads.topology, silent)
    assert found.tolist() == [expected[node] for node in range(len(roads.ids))]


@generated
@pytest.mark.parametrize("direction", Direction)
def test_distances_are_those_of_networkx(roads: Roads, direction: Direction) -> None:
    start = int(roads.sources[0])
    walked = {
        Direction.OUT: roads.directed,
        Direction.IN: roads.directed.reverse(),
        Direction.BOTH: roads.undirected,
    }[direction]
    hops = nx.single_source_shortest_path_length(walked, start)
    plain = Topology(len(roads.ids), roads.sources, roads.targets)
    found = distances(plain, start, direction)
    assert {at: far for at, far in enumerate(found.tolist()) if far < np.inf} == hops
    lengths = nx.single_source_dijkstra_path_length(walked, start, weight="length")
    found = distances(roads.topology, start, direction)
    assert {at: far for at, far in enumerate(found.tolist()) if far < np.inf} == lengths


@generated
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_labels_are_taken_by_all_nodes_at_once(roads: Roads, steps: int) -> None:
    labels = list(range(len(roads.ids)))
    for _ in range(steps):
        brought = [Counter[int]() for _ in labels]
        for one, other in zip(roads.sources.tolist(), roads.targets.tolist(), strict=True):
            if one != other:
                brought[one][labels[other]] += 1
                brought[other][labels[one]] += 1
        labels = [
            min(counts, key=lambda label: (-counts[label], label)) if counts else own
            for own, counts in zip(labels, brought, strict=True)
        ]
    found = label_propagation(roads.topology, LabelPropagation(max_iter=steps), silent)
    assert found.tolist() == labels


def shaped(nodes: int, sources: list[int], targets: list[int]) -> Topology:
    return Topology(nodes, np.array(sources, np.int64), np.array(targets, np.int64))


def test_what_is_too_far_for_a_float_is_not_reached() -> None:
    ends = np.array([0, 1]), np.array([1, 2])
    line = Topology(3, *ends, np.array([1e308, 1e308]))
    assert distances(line, 0, Direction.OUT).tolist() == [0.0, 1e308, np.inf]


def test_no_nodes_have_no_measures() -> None:
    empty = shaped(0, [], [])
    assert not len(pagerank(empty, PageRank(), silent))
    assert not len(connected_components(empty))
    assert not len(strong_components(empty))
    assert not len(triangles(empty, silent))
    assert not len(label_propagation(empty, LabelPropagation(), silent))


@pytest.mark.parametrize("is_closed", [False, True])
def test_long_ways_are_no_obstacle(*, is_closed: bool) -> None:
    count = 20_000
    order = np.random.default_rng(4).permutation(count)
    sources, targets = order, np.roll(order, -1)
    if not is_closed:
        sources, targets = sources[:-1], targets[:-1]
    line = Topology(count, sources, targets)
    assert not connected_components(line).any()
    expected = np.zeros(count) if is_closed else np.arange(count)
    assert np.array_equal(strong_components(line), expected)


def test_components_that_searches_do_not_reach_are_walked() -> None:
    # Two rings of many rounds, joined one way, and a chain of pairs: no search ends in time.
    ring = np.arange(200)
    sources = np.concatenate((ring, ring + 200, [0], 400 + np.arange(99)))
    targets = np.concatenate(
        (np.roll(ring, -1), np.roll(ring, -1) + 200, [200], 401 + np.arange(99))
    )
    pairs = 400 + np.arange(0, 100, 2)
    sources, targets = np.concatenate((sources, pairs + 1)), np.concatenate((targets, pairs))
    found = strong_components(Topology(500, sources, targets))
    assert found[:400].tolist() == [0] * 200 + [200] * 200
    assert found[400:].tolist() == [each for pair in pairs.tolist() for each in (pair, pair)]


def test_pairs_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    roads = make_roads(5, nodes=30, edges=300)
    whole = triangles(roads.topology, silent)
    monkeypatch.setattr("omnigraph.pipeline.analytics.local.triangles._PAIRS_AT_ONCE", 7)
    assert triangles(roads.topology, silent).tolist() == whole.tolist()
    assert whole.any()
