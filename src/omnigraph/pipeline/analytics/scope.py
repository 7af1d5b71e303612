"""The part of a snapshot that is measured: the nodes that an edge type joins, and its edges.

Nodes are pairs of a type and an id, because two types may have equal ids. They are ordered by type,
then by id (UTF-8 bytes), and everything that is said to be the smallest is so in this order. Where
an edge joins two types, a label spells a node as `Type:id`; a type name has no colon. All nodes of
these types belong to it, also those without an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.graph.type_names import find_type
from omnigraph.lang.catalog import EdgeType
from omnigraph.lang.ir import Column
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import STRING
from omnigraph.pipeline.analytics.measures import ShortestPaths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.lang.catalog import Catalog, NodeType
    from omnigraph.pipeline.analytics.measures import Measure

_EDGE_BYTES: Final = 16
_NODE_BYTES: Final = 32
ENTITY: Final = (Column("type", STRING), Column("id", STRING))
"""The columns that every result begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one measure reads."""

    snapshot: Snapshot
    edge: EdgeType
    nodes: tuple[NodeType, ...]
    """One type or two, in the order of their names."""
    weight: str | None

    @property
    def has_two_types(self) -> bool:
        """Whether labels tell the type."""
        return len(self.nodes) > 1

    @property
    def edge_count(self) -> int:
        """How many edges there are."""
        return self.snapshot.pin(self.edge).row_count

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return sum(self.snapshot.pin(item).row_count for item in self.nodes)

    def result_rows(self, measure: Measure) -> int:
        """How many rows a result has."""
        each = len(measure.landmarks) if isinstance(measure, ShortestPaths) else 1
        return self.node_count * each

    def local_bytes(self, measure: Measure) -> int:
        """What measuring in this process needs, about."""
        return _EDGE_BYTES * self.edge_count + _NODE_BYTES * self.result_rows(measure)

    def require_local(self, measure: Measure, most_bytes: int, remedy: str) -> None:
        """Refuse to measure here what does not fit.

        Raises:
            ResourceLimit: it does not.
        """
        needed = self.local_bytes(measure)
        if needed > most_bytes:
            raise ResourceLimit(
                f"{measure.name} over {self.edge_count:,} edges and {self.node_count:,} nodes takes"
                f" about {needed:,} bytes in this process, which may use {most_bytes:,}; {remedy}"
                " raise OMNIGRAPH_PIPELINE_ANALYTICS_LOCAL_BYTES",
                resource="analytics_local_bytes",
                limit=most_bytes,
                actual=needed,
            )

    def split_landmark(self, text: str) -> tuple[str, str]:
        """The type and the id of a landmark.

        Raises:
            InvalidArgument: of two types it names neither.
        """
        if not self.has_two_types:
            return self.nodes[0].name, text
        name, colon, entity_id = text.partition(":")
        names = [item.name for item in self.nodes]
        if not colon or name not in names:
            raise InvalidArgument(
                f"{self.edge.name} joins {' and '.join(names)}, so a landmark is written"
                f" {names[0]}:id or {names[1]}:id, not {text!r}",
                argument="landmarks",
            )
        return name, entity_id

    def unknown_landmark(self, text: str) -> InvalidArgument:
        """The error of a landmark that is not there."""
        names = " and no ".join(item.name for item in self.nodes)
        return InvalidArgument(
            f"there is no {names} with the id of the landmark {text!r} at commit"
            f" {self.snapshot.graph_commit_id}; landmarks are ids, not names",
            argument="landmarks",
        )

    def require_weights(self, absent: int, negative: int) -> None:
        """Refuse edges whose weight cannot be added up.

        Raises:
            InvalidArgument: there are some.
        """
        if not absent and not negative:
            return
        wrong = f"{absent:,} without a weight (null or not finite)" if absent else ""
        wrong += " and " if absent and negative else ""
        wrong += f"{negative:,} with a negative one" if negative else ""
        raise InvalidArgument(
            "distances need a weight of 0 or more on every edge, and"
            f" {self.edge.name}.{self.weight} has {wrong}; correct these edges, or take another"
            " property",
            argument="weight",
            absent=absent,
            negative=negative,
        )


def find_scope(snapshot: Snapshot, edge: str, measure: Measure) -> Scope:
    """What a measure of an edge type reads.

    Raises:
        InvalidArgument: there is no such edge type, or it has no such weight.
    """
    item = _edge_type(snapshot.catalog, edge)
    names = sorted({item.from_type, item.to_type}, key=str.encode)
    weight = measure.weight if isinstance(measure, ShortestPaths) else None
    if weight is not None:
        _require_weight(item, weight)
    nodes = tuple(snapshot.catalog.node_types[name] for name in names)
    scope = Scope(snapshot=snapshot, edge=item, nodes=nodes, weight=weight)
    for text in measure.landmarks if isinstance(measure, ShortestPaths) else ():
        scope.split_landmark(text)
    return scope


def result_columns(measure: Measure) -> Sequence[Column]:
    """The columns of a result."""
    return *ENTITY, *measure.columns


def _edge_type(catalog: Catalog, edge: str) -> EdgeType:
    if not isinstance(edge, str) or not edge:
        raise InvalidArgument(f"edge is the name of an edge type, not {edge!r}", argument="edge")
    bare = edge.removeprefix("edge:")
    if bare in catalog.edge_types or bare in catalog.node_types:
        item = find_type(catalog, f"edge:{bare}")
        if isinstance(item, EdgeType):
            return item
    hint = did_you_mean(bare, catalog.edge_types, otherwise="there are")
    raise InvalidArgument(f"there is no edge type `{bare}`{hint}", argument="edge", type=bare)


def _require_weight(item: EdgeType, name: str) -> None:
    known = {
        each.name: each.type
        for each in item.properties.values()
        if each.type.scalar.is_numeric and not each.type.is_list
    }
    if name in known:
        return
    if name in item.properties:
        raise InvalidArgument(
            f"{item.name}.{name} is a {item.properties[name].type}, and a weight is a number",
            argument="weight",
            property=name,
        )
    hint = did_you_mean(name, known, otherwise="its numbers are") or "; it has no numbers"
    raise InvalidArgument(
        f"{item.name} has no property `{name}`{hint}", argument="weight", property=name
    )
