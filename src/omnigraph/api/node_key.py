"""The id of a node from the values of its key, for edges that are built outside of a load."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument
from omnigraph.lang import Catalog, render_key
from omnigraph.lang.values import UnfitValue, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.api.graph import Graph
    from omnigraph.lang.types import PropType


def key(of: Catalog | Graph, type: str, values: Mapping[str, object]) -> str:
    """The id of the node of a type that has these key values, whether or not it exists.

    Args:
        of: an open graph, whose main branch tells the schema, or a compiled catalog.
        type: a node type with a key.
        values: a value for each property of the key, as Python or as in a graph file.

    Raises:
        InvalidArgument: there is no such type, it has no key, or the values do not fit it.
    """
    catalog = of if isinstance(of, Catalog) else of.snapshot().catalog
    node = catalog.node_types.get(type)
    if node is None:
        known = ", ".join(sorted(catalog.node_types))
        raise InvalidArgument(f"there is no node type {type!r}; there are {known}", argument="type")
    if node.key is None:
        raise InvalidArgument(
            f"{type} has no @key: its nodes get an id of their own", argument="type"
        )
    if set(values) != set(node.key):
        raise InvalidArgument(
            f"the key of {type} is {', '.join(node.key)}, not {', '.join(values) or 'nothing'}",
            argument="values",
        )
    kinds = [node.properties[name].type for name in node.key]
    try:
        members = [_read(values[name], kind) for name, kind in zip(node.key, kinds, strict=True)]
        return render_key(members, kinds)
    except UnfitValue as error:
        raise InvalidArgument(f"no key of {type}: {error}", argument="values") from error


def _read(value: object, kind: PropType) -> object:
    if isinstance(value, date):  # A datetime is one, too.
        return read_json(value.isoformat(), kind)
    plain = getattr(value, "item", None)  # Of a number of NumPy.
    return read_json(plain() if callable(plain) else value, kind)
