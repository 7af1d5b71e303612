"""Types by the names that callers use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument
from omnigraph.lang.suggest import nearest_names

if TYPE_CHECKING:
    from omnigraph.lang import Catalog, EdgeType, NodeType


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """The type that a name means: `Person`, or `node:Link` and `edge:Link` when both exist.

    Raises:
        InvalidArgument: there is none, or there are two.
    """
    if not isinstance(name, str):
        raise InvalidArgument(
            f"a type is given by its name, not by {type(name).__name__}", argument="type"
        )
    kind, colon, bare = name.rpartition(":")
    if kind not in ("", "node", "edge") or (colon and not kind):
        raise InvalidArgument(
            f"{name!r} names no type; write Person, node:Person or edge:Knows", type=name
        )
    nodes = {} if kind == "edge" else catalog.node_types
    edges = {} if kind == "node" else catalog.edge_types
    if bare in nodes and bare in edges:
        raise InvalidArgument(
            f"{bare!r} is a node type and an edge type; write node:{bare} or edge:{bare}",
            type=name,
        )
    item = nodes.get(bare) or edges.get(bare)
    if item is None and kind == "node" and bare in catalog.edge_types:
        raise InvalidArgument(
            f"{bare!r} is an edge type; name it with --edge, edge= or edge:{bare}", type=name
        )
    if item is None and kind == "edge" and bare in catalog.node_types:
        raise InvalidArgument(
            f"{bare!r} is a node type; name it with --type, type= or node:{bare}", type=name
        )
    if item is None:
        near = nearest_names(bare, [*nodes, *edges])
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise InvalidArgument(f"there is no type {name!r}{hint}", type=name)
    return item
