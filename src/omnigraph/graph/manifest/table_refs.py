"""Tables as a line of the manifest names them: from a pin and a catalog to what storage opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.graph.manifest.rows import TableRef
from omnigraph.ids import Incarnation, TableId, TableKey
from omnigraph.lang.catalog import NodeType
from omnigraph.storage.handles import Pin, TableLayout
from omnigraph.storage.layout import layout_of

if TYPE_CHECKING:
    from omnigraph.graph.manifest.rows import PinRow
    from omnigraph.lang import Catalog
    from omnigraph.lang.catalog import EdgeType

_NO_COLUMNS = pa.schema([])


def bare_layout(ref: TableRef, table_key: str, location: str) -> TableLayout:
    """Enough of a layout to move a table's versions, without knowing its columns."""
    return TableLayout(
        table_id=ref.table_id,
        incarnation=ref.incarnation,
        table_key=TableKey(table_key),
        location=location,
        schema=_NO_COLUMNS,
    )


def pin_of(row: PinRow) -> Pin:
    """The version of a table that a row names."""
    return Pin(location=row.location, branch=row.branch, version=row.version)


def ref_of(item: NodeType | EdgeType) -> TableRef:
    """The table of an accepted type."""
    if item.type_id is None or item.incarnation is None:
        raise ValueError(f"the type {item.name} has no ids; accept the schema first")
    return TableRef(TableId(item.type_id), Incarnation(item.incarnation))


def key_of(item: NodeType | EdgeType) -> str:
    """A type's table as messages and reports name it: `node:Person`, `edge:Knows`."""
    return f"{'node' if isinstance(item, NodeType) else 'edge'}:{item.name}"


class CatalogTables:
    """The types of an accepted catalog by their tables, with their layouts."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.types: dict[TableRef, NodeType | EdgeType] = {
            **{ref_of(node): node for node in catalog.node_types.values()},
            **{ref_of(edge): edge for edge in catalog.edge_types.values()},
        }
        self.layouts = {ref: layout_of(item) for ref, item in self.types.items()}
