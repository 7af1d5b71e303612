"""What the outcome of a load depends on, to be asked again when others were faster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from omnigraph.graph.job_report import LoadMode
from omnigraph.graph.tables import ref_of
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.key_columns import unique_tuples

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from omnigraph.graph.rows import TableRef
    from omnigraph.graph.write_txn import WriteTxn
    from omnigraph.pipeline.staged_views import StagedViews


def ask_for_load(
    txn: WriteTxn, mode: LoadMode, views: StagedViews, given_ids: AbstractSet[TableRef]
) -> None:
    """Put into the read set what the checks of a load looked up.

    Texts are not listed there: they are compared with the staged rows once somebody was faster.
    """
    for ref in views.views:
        item = txn.tables.types[ref]
        if mode is LoadMode.OVERWRITE:
            txn.read_set.ask_all(ref)
        is_new = mode is LoadMode.APPEND or not txn.line.pins[ref].row_count
        if is_new and ref in given_ids:
            _ask(txn, views, ref, "id", of=(ref, "id"))
        if unique_tuples(item):
            txn.read_set.ask_values(ref)
        if isinstance(item, EdgeType):
            _ask_for_ends(txn, views, ref, item)
    if mode is LoadMode.OVERWRITE:
        for edge in txn.catalog.edge_types.values():
            ends = {ref_of(txn.catalog.node_types[n]) for n in (edge.from_type, edge.to_type)}
            if ends & views.views.keys():
                txn.read_set.ask_all(ref_of(edge))


def _ask_for_ends(txn: WriteTxn, views: StagedViews, ref: TableRef, item: EdgeType) -> None:
    for column, name in (("src", item.from_type), ("dst", item.to_type)):
        node = ref_of(txn.catalog.node_types[name])
        _ask(txn, views, node, "id", of=(ref, column))
    if item.card != (0, None):
        _ask(txn, views, ref, "src", of=(ref, "src"))


def _ask(
    txn: WriteTxn, views: StagedViews, ref: TableRef, column: str, *, of: tuple[TableRef, str]
) -> None:
    """Texts of a column were asked for: those that staged rows of a table hold in theirs."""
    txn.read_set.ask_lookup(ref, column, partial(views.holds, *of))
