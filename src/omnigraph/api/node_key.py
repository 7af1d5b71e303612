"""The id of a node from the values of its key, for edges that are built outside of a load."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Protocol

from omnigraph.errors import InvalidArgument
from omnigraph.lang import Catalog, render_key
from omnigraph.lang.types import Scalar
from omnigraph.lang.values import UnfitValue, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.lang.types import PropType


class TellsCatalog(Protocol):
    """The accepted schema of a graph."""

    @property
    def catalog(self) -> Catalog:
        """What it means."""
        ...


class TellsSchema(Protocol):
    """A graph, open or behind a server."""

    @property
    def schema(self) -> TellsCatalog:
        """Its schema."""
        ...


def key(of: Catalog | TellsSchema | Snapshot, type: str, values: Mapping[str, object]) -> str:
    """The id of the node of a type that has these key values, whether or not it exists.

    Args:
        of: a graph, whose main branch tells the schema, a snapshot of an open graph, or a catalog
            (`graph.schema.catalog`), which is the quickest for many rows.
        type: a node type with a key.
        values: a value for each property of the key, as Python or as in a graph file.

    Raises:
        InvalidArgument: there is no such type, it has no key, or the values do not fit it.
    """
    catalog = _catalog(of)
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


def _catalog(of: object) -> Catalog:
    """The schema that an object tells."""
    if isinstance(of, Catalog):
        return of
    catalog = getattr(getattr(of, "schema", of), "catalog", None)
    if isinstance(catalog, Catalog):
        return catalog
    raise InvalidArgument(
        "the schema is told by a graph, by a snapshot of an open graph, or by a catalog, not by"
        f" {_named(of)}; give the graph",
        argument="of",
    )


def _named(of: object) -> str:
    return of.__class__.__name__


def _read(value: Any, kind: PropType) -> object:  # noqa: ANN401 - as Python, NumPy or pandas has it
    moment = getattr(getattr(value, "dtype", None), "kind", None) == "M"
    if moment and not isinstance(value, date):
        # To the microsecond: a finer one has no value of Python.
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime) and kind.scalar is Scalar.DATE and _is_midnight(value):
        value = value.date()
    if isinstance(value, date):  # A datetime is one, too.
        return read_json(value.isoformat(), kind)
    plain = getattr(value, "item", None)  # Of a number of NumPy.
    return read_json(plain() if callable(plain) else value, kind)


def _is_midnight(moment: datetime) -> bool:
    # The time of data frames that stands for none is not equal to itself, and has no hours.
    return moment == moment and moment.tzinfo is None and moment.time() == time.min
