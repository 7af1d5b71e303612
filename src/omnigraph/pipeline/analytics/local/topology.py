"""Nodes and edges of a snapshot as numbers.

Nodes are numbered in their order, so comparing numbers is comparing nodes. Parallel edges and loops
stay: what they count for is up to the measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import ascending, filled, one_array, places_in, text_array
from omnigraph.graph.query.topology import ABSENT, find_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.arrays import Floats, Ids, Numbers
    from omnigraph.pipeline.analytics.scope import Scope

_LEAST_ROWS: Final = 1 << 20
"""Finding ids begins by hashing all nodes, so it is done for many edges at once."""


@dataclass(frozen=True)
class Neighbours:
    """The edges at each node: places `starts[x]` to `starts[x + 1]` of the other two."""

    starts: Numbers
    targets: Numbers
    weights: Floats | None

    def at(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """All edges at some nodes: the place of the node among these, and that of the edge."""
        counts = self.starts[nodes + 1] - self.starts[nodes]
        which = np.repeat(np.arange(len(nodes)), counts)
        firsts = np.repeat(self.starts[nodes] - (np.cumsum(counts) - counts), counts)
        return which, firsts + np.arange(len(which))


@dataclass(frozen=True)
class Topology:
    """Edges between nodes from 0 to `nodes` - 1."""

    nodes: int
    sources: Numbers
    targets: Numbers
    weights: Floats | None = None

    @cached_property
    def out(self) -> Neighbours:
        """The edges that leave each node."""
        return neighbours(self.nodes, self.sources, self.targets, self.weights)

    @cached_property
    def into(self) -> Neighbours:
        """The edges that lead to each node."""
        return neighbours(self.nodes, self.targets, self.sources, self.weights)

    @cached_property
    def both(self) -> Neighbours:
        """The edges at each node, from either end."""
        weights = None if self.weights is None else np.concatenate([self.weights] * 2)
        return neighbours(
            self.nodes,
            np.concatenate((self.sources, self.targets)),
            np.concatenate((self.targets, self.sources)),
            weights,
        )


@dataclass(frozen=True)
class Nodes:
    """The nodes behind the numbers."""

    types: tuple[str, ...]
    ids: tuple[Ids, ...]
    """Of each type, ascending."""

    @cached_property
    def all_ids(self) -> Ids:
        """The id of each node."""
        return pa.concat_arrays(self.ids)

    def __len__(self) -> int:
        return sum(map(len, self.ids))

    @property
    def all_types(self) -> Ids:
        """The type of each node."""
        return pa.concat_arrays(
            [
                text_array(pa.repeat(pa.scalar(name, pa.string()), len(ids)))
                for name, ids in zip(self.types, self.ids, strict=True)
            ]
        )

    @cached_property
    def labels(self) -> Ids:
        """What each node is called where it stands for others."""
        if len(self.types) == 1:
            return self.all_ids
        join: Any = pc.binary_join_element_wise  # Any: the stubs take arrays alone
        return text_array(join(self.all_types, self.all_ids, ":"))

    def first_of(self, name: str) -> int:
        """The number of the first node of a type."""
        return sum(map(len, self.ids[: self.types.index(name)]))

    def find(self, name: str, entity_id: str) -> int:
        """The number of a node, or `ABSENT`."""
        at = int(find_ids(self.ids[self.types.index(name)], pa.array([entity_id], pa.string()))[0])
        return at if at == ABSENT else at + self.first_of(name)


def neighbours(
    nodes: int, sources: Numbers, targets: Numbers, weights: Floats | None = None
) -> Neighbours:
    """The edges by their source."""
    starts = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=nodes), out=starts[1:])
    order = np.argsort(sources, kind="stable")
    return Neighbours(starts, targets[order], None if weights is None else weights[order])


def read_nodes(scope: Scope) -> Nodes:
    """All nodes of a scope."""
    ids: list[Ids] = []
    for item in scope.nodes:
        rows = scope.snapshot.scan(f"node:{item.name}", columns=["id"]).read_all()
        texts = text_array(rows["id"])
        ids.append(text_array(texts.take(pa.array(ascending(texts), pa.int64()))))
    return Nodes(tuple(item.name for item in scope.nodes), tuple(ids))


def read_topology(scope: Scope, nodes: Nodes) -> Topology:
    """All edges of a scope, between the numbers of its nodes.

    Raises:
        InvalidArgument: a weight is missing or negative.
    """
    parts = [
        _numbered(scope, nodes, rows) for rows in _edge_rows(scope, max(_LEAST_ROWS, len(nodes)))
    ]
    none = np.zeros(0, np.int64)
    sources = np.concatenate([none, *(part.sources for part in parts)])
    targets = np.concatenate([none, *(part.targets for part in parts)])
    if scope.weight is None:
        return Topology(len(nodes), sources, targets)
    given = [part.weights for part in parts if part.weights is not None]
    weights = np.concatenate([np.zeros(0), *given])
    scope.require_weights(int((~np.isfinite(weights)).sum()), int((weights < 0).sum()))
    return Topology(len(nodes), sources, targets, weights)


def _edge_rows(scope: Scope, least: int) -> Iterator[pa.Table]:
    """The edges in tables of many rows."""
    columns = ["src", "dst", *([] if scope.weight is None else [scope.weight])]
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in scope.snapshot.scan(f"edge:{scope.edge.name}", columns=columns):
        held.append(batch)
        rows += batch.num_rows
        if rows >= least:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _numbered(scope: Scope, nodes: Nodes, rows: pa.Table) -> Topology:
    ends: list[Numbers] = []
    for column, name in (("src", scope.edge.from_type), ("dst", scope.edge.to_type)):
        ids = nodes.ids[nodes.types.index(name)]
        places = places_in(text_array(rows[column]), ids)
        if (places == ABSENT).any():
            raise InternalError(
                f"an edge {scope.edge.name} ends at a {name} that is not there; run omnigraph"
                " verify and report what it says"
            )
        ends.append(places + nodes.first_of(name))
    sources, targets = ends
    if scope.weight is None:
        return Topology(len(nodes), sources, targets)
    values = one_array(rows[scope.weight]).cast(pa.float64(), safe=False)
    weights = filled(values, pa.scalar(float("nan"))).to_numpy(zero_copy_only=False)
    return Topology(len(nodes), sources, targets, np.asarray(weights, np.float64))
