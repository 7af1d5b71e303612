"""A variable of an interface gives what variables of its types give, one after the other."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest
from tests.extended import thinned
from tests.reference.clauses import ClauseWriter, Scope
from tests.reference.constants import Constants
from tests.reference.evaluator import ReferenceGraph
from tests.reference.graphs import generate_graph
from tests.reference.storing import quick, store

from omnigraph import Graph
from omnigraph.errors import QueryInvalid

_QUERIES_PER_GRAPH = 2


@pytest.mark.parametrize("seed", thinned(range(60)))
def test_the_rows_of_an_interface_are_those_of_its_types(seed: int, tmp_path: Path) -> None:
    graph = generate_graph(seed)
    store(graph, tmp_path / "g", seed=seed).close()
    with Graph.open(tmp_path / "g", mode="read_only", settings=quick()) as handle:
        for interface, types in graph.catalog.implementing.items():
            for declared, clauses, params in _clauses(graph, interface, seed):
                tail = f"{clauses} }} return {{ $x, type($x) as t }} }}"
                found, *each = (
                    _rows(handle, f"query q({declared}) {{ match {{ $x: {kind} {tail}", params)
                    for kind in (interface, *types)
                )
                wanted = [row for rows in each for row in rows]
                wanted.sort(key=lambda row: (row[0].encode(), row[1]))
                assert found == wanted, (interface, clauses, params)


def _rows(handle: Graph, source: str, params: Mapping[str, object]) -> list[tuple[str, str]]:
    """Ids and types; none where a block cannot hold for the type."""
    try:
        answer = handle.query(source, params=params)
    except QueryInvalid:
        return []
    return [(str(row["x"]), str(row["t"])) for row in answer]


def _clauses(
    graph: ReferenceGraph, interface: str, seed: int
) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    """Parameters and conditions on one variable, some with a block that walks from it."""
    types = {*graph.catalog.implementing[interface]}
    edges = [
        edge.name[0].lower() + edge.name[1:]
        for edge in graph.catalog.edge_types.values()
        if edge.from_type in types and (edge.to_type not in types or edge.to_type == edge.from_type)
    ]
    for number in range(_QUERIES_PER_GRAPH):
        rng = Random(f"interface {seed} {interface} {number}")  # noqa: S311 - no secret
        constants = Constants(rng=rng, graph=graph)
        writer = ClauseWriter(rng=rng, graph=graph, constants=constants)
        # A walk that a type cannot begin counts 0 for the interface; for the type it is an error.
        drawn = writer.filters(Scope({"x": interface}), 2)
        clauses = [each for each in drawn if "count {" not in each]
        if edges and rng.random() < 0.5:
            clauses.append(f"exists {{ $x {rng.choice(edges)} $_ }}")
        yield constants.declarations(), " ".join(clauses), constants.given
