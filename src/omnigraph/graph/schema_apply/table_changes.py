"""What a schema change does to tables: made, ended, renamed, given and relieved of columns.

`compare_tables` is pure. Everything of one table is one chain of at most three transactions: the
columns that are filled with defaults, which is staged before the lease is taken; the columns that
come and go, which is metadata; and the text indexes of new `@index` Strings, untrained.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from omnigraph.graph.manifest.intent import NamedTable, PlannedPin
from omnigraph.ids import Incarnation, TableId
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.storage.layout import layout_of
from omnigraph.storage.signals import AlreadyExists, CommitRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow, TableRef
    from omnigraph.graph.manifest.table_refs import CatalogTables
    from omnigraph.lang import AcceptedSchema
    from omnigraph.storage.handles import StagedWrite, TableHandle, TableLayout
    from omnigraph.storage.table_storage import TableStorage

    Stage = Callable[[TableHandle], StagedWrite]

_Type = TypeVar("_Type", NodeType, EdgeType)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What becomes of one table that goes on."""

    ref: TableRef
    layout: TableLayout
    """As it is afterwards."""
    is_renamed: bool
    fills: Mapping[str, pa.Scalar[pa.DataType]] = field(default_factory=dict)
    """By new property: the value that rows which are there get."""
    adds_columns: bool = False
    dropped: tuple[str, ...] = ()
    """Columns that are removed from the table."""
    adds_text_index: bool = False


def compare_tables(
    before: CatalogTables, after: AcceptedSchema, line: ManifestLine, *, is_hard: bool
) -> list[TableChange]:
    """The tables that both schemas have, and what is different about them."""
    by_id = _types_by_id(after)
    return [
        _compare(ref, old, by_id[ref.table_id], line.pins[ref], is_hard=is_hard)
        for ref, old in sorted(before.types.items())
        if ref.table_id in by_id
    ]


def _types_by_id(schema: AcceptedSchema) -> dict[int | None, NodeType | EdgeType]:
    nodes, edges = schema.catalog.node_types.values(), schema.catalog.edge_types.values()
    return {item.type_id: item for item in nodes} | {item.type_id: item for item in edges}


def _compare(
    ref: TableRef,
    old: NodeType | EdgeType,
    new: NodeType | EdgeType,
    pin: PinRow,
    *,
    is_hard: bool,
) -> TableChange:
    before, after = layout_of(old), layout_of(new)
    known = {item.property_id for item in old.properties.values()}
    kept = {item.property_id for item in new.properties.values()}
    added = [item for item in new.properties.values() if item.property_id not in known]
    gone = [item for item in old.properties.values() if item.property_id not in kept]
    fills = {
        item.name: pa.scalar(item.default.value, arrow_type(item.type))
        for item in added
        if pin.row_count and item.default is not None and not item.type.nullable
    }
    return TableChange(
        ref=ref,
        layout=after,
        is_renamed=before.table_key != after.table_key,
        fills=fills,
        adds_columns=len(added) > len(fills),
        dropped=tuple(item.column or item.name for item in gone) if is_hard else (),
        adds_text_index=bool(_text_indexes(after) - _text_indexes(before)),
    )


def _text_indexes(layout: TableLayout) -> set[int]:
    return {layout.property_ids[name] for name in layout.text_indexes}


def stage_change(txn: WriteTxn, change: TableChange) -> StagedWrite | None:
    """The transactions of one table; `None` if it is not touched."""
    store, stamp = txn.store, txn.stamp
    steps: list[Stage] = []
    if change.fills:
        steps.append(lambda base: store.stage_filled_columns(base, change.fills, stamp))
    if change.adds_columns or change.dropped:
        steps.append(lambda base: store.stage_columns(base, stamp, dropped=change.dropped))
    if change.adds_text_index:
        steps.append(lambda base: store.stage_text_indexes(base, stamp))
    if not steps:
        return None
    base = store.open(change.layout, txn.writable(change.ref).pin)
    return store.chain(steps[0](base), *steps[1:])


def renamed_pin(change: TableChange, pin: PinRow) -> PlannedPin:
    """The pin of a table that gets another name and nothing else.

    It is published again, because a pin carries the name of its table: a later type may take the
    old one.
    """
    return PlannedPin(
        table_id=pin.ref.table_id,
        incarnation=pin.ref.incarnation,
        table_key=change.layout.table_key,
        location=pin.location,
        branch=pin.branch,
        version=pin.version,
        row_count=pin.row_count,
        transaction=pin.transaction,
        expected_branch=pin.branch,
        expected_version=pin.version,
    )


def ended_tables(before: CatalogTables, after: AcceptedSchema) -> list[NamedTable]:
    """The tables of types that the new schema does not have."""
    kept = _types_by_id(after)
    return [
        NamedTable(
            table_id=ref.table_id,
            incarnation=ref.incarnation,
            table_key=layout.table_key,
            location=layout.location,
        )
        for ref, layout in sorted(before.layouts.items())
        if ref.table_id not in kept
    ]


class NewTables:
    """The tables of new types, made once for all attempts of one apply."""

    def __init__(self, store: TableStorage) -> None:
        self._store = store
        self._made: dict[tuple[int, str], tuple[int, PlannedPin]] = {}

    def make(
        self, before: CatalogTables, after: AcceptedSchema
    ) -> tuple[AcceptedSchema, list[PlannedPin]]:
        """The schema with the incarnations that its new tables got, and the pins of those.

        A table that an apply which died has left at a place is not used again: nobody knows how
        far its making came.
        """
        known = {ref.table_id for ref in before.types}
        pins: list[PlannedPin] = []

        def placed(item: _Type) -> _Type:
            if item.type_id in known:
                return item
            incarnation, pin = self._table_of(item)
            pins.append(pin)
            return replace(item, incarnation=incarnation)

        catalog = after.catalog
        nodes = {name: placed(item) for name, item in catalog.node_types.items()}
        edges = {name: placed(item) for name, item in catalog.edge_types.items()}
        return replace(after, catalog=replace(catalog, node_types=nodes, edge_types=edges)), pins

    def _table_of(self, item: NodeType | EdgeType) -> tuple[int, PlannedPin]:
        key = (item.type_id or 0, str(item.describe()))
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._create(item)
        return made

    def _create(self, item: NodeType | EdgeType) -> tuple[int, PlannedPin]:
        incarnation = item.incarnation or 1
        while True:
            layout = layout_of(replace(item, incarnation=incarnation))
            try:
                pin = self._store.create_table(layout)
            except (AlreadyExists, CommitRefused):
                incarnation += 1
                continue
            return incarnation, PlannedPin(
                table_id=TableId(layout.table_id),
                incarnation=Incarnation(layout.incarnation),
                table_key=layout.table_key,
                location=layout.location,
                branch=pin.branch,
                version=pin.version,
                row_count=0,
            )


def registration_of(pin: PlannedPin) -> NamedTable:
    """The row that makes a new table known."""
    return NamedTable(
        table_id=pin.table_id,
        incarnation=pin.incarnation,
        table_key=pin.table_key,
        location=pin.location,
    )
