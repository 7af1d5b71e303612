"""What one write does to its tables, and the final image that follows from it.

The last record of an id is its image; a removed id that is also written is written. Rows that have
no id, because their key is broken, are reported by check 1 and take no part in the image.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import (
    chosen,
    column,
    contained,
    is_given,
    last_of_each,
    no_texts,
    taken,
)
from omnigraph.graph.validation.committed import find_ids
from omnigraph.graph.validation.findings import Rows
from omnigraph.graph.validation.relation_rules import list_rules, table_order
from omnigraph.graph.validation.violation import kind_of
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from omnigraph.graph.arrays import Column, Mask, Positions
    from omnigraph.graph.validation.committed import CommittedRows
    from omnigraph.graph.validation.fitting import FittedRows
    from omnigraph.graph.validation.relation_rules import RuleList
    from omnigraph.lang.catalog import Catalog, NodeType


@dataclass(frozen=True, kw_only=True)
class TableDelta:
    """What a write does to one table."""

    rows: FittedRows
    """Added and changed rows, each whole, in input order."""
    strict_ids: Column = field(default_factory=no_texts)
    """Ids of rows that must not be committed yet."""
    removed: Column = field(default_factory=no_texts)
    replaces_all: bool = False
    """The rows take the place of the committed table, which counts as empty."""
    read: pa.Table | None = None
    """Committed rows that the writer has read, and whose change it would notice: `id` and columns.
    """
    repeats_edge_ids: bool = False
    """An edge id may come twice in the input, the last record wins: the rule of `merge` loads."""
    has_new_ids: bool = False
    """All ids were made for these rows: none comes twice, and none is committed."""

    @property
    def item(self) -> NodeType | EdgeType:
        """The type of the rows."""
        return self.rows.item

    @cached_property
    def _identified(self) -> Positions:
        return np.flatnonzero(is_given(column(self.rows.table, "id")))

    @cached_property
    def _last(self) -> Positions:
        if self.has_new_ids:
            return self._identified
        ids = taken(column(self.rows.table, "id"), self._identified)
        return self._identified[last_of_each(ids)]

    @cached_property
    def image(self) -> Part:
        """The rows that the write leaves: one per id."""
        return self._part(self._last)

    @cached_property
    def records(self) -> Part:
        """The rows that may not repeat a key or a unique tuple among themselves."""
        return self.image if self._may_repeat else self._part(self._identified)

    @cached_property
    def superseded(self) -> Positions:
        """Rows that are not written: a later record of the same edge is."""
        if not self._may_repeat or not self.repeats_ids:
            return np.zeros(0, np.intp)
        return np.setdiff1d(self._identified, self._last, assume_unique=True)

    @property
    def repeats_ids(self) -> bool:
        """Some id comes twice in the input."""
        return len(self._last) < len(self._identified)

    @property
    def _may_repeat(self) -> bool:
        return self.repeats_edge_ids and isinstance(self.item, EdgeType)

    @cached_property
    def touched(self) -> Column:
        """Ids whose committed rows do not survive as they are."""
        return pa.concat_arrays([self.image.ids, self.removed])

    @cached_property
    def gone(self) -> Column:
        """Ids that are removed and not written."""
        return chosen(self.removed, ~contained(self.removed, self.image.ids))

    def _part(self, at: Positions) -> Part:
        rows = Rows(ids=column(self.rows.table, "id"), lines=self.rows.lines)
        are_all = len(at) == self.rows.table.num_rows
        return Part(table=self.rows.table, rows=rows if are_all else rows.chosen(at), at=at)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of a delta."""

    table: pa.Table
    rows: Rows
    at: Positions

    @property
    def ids(self) -> Column:
        """The ids of these rows, none null."""
        return self.rows.ids

    def column(self, name: str) -> Column:
        """A column of these rows."""
        values = column(self.table, name)
        return values if len(self.at) == len(values) else taken(values, self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """All deltas of a write over the committed rows that it starts from."""

    by_table: Mapping[tuple[bool, str], TableDelta]
    """In the order of reporting."""
    committed: CommittedRows

    rules: RuleList
    """What the write has to keep."""

    @property
    def deltas(self) -> Collection[TableDelta]:
        """All of them, in the order of reporting."""
        return self.by_table.values()

    def delta(self, item: NodeType | EdgeType) -> TableDelta | None:
        """The delta of a type's table, if the write touches it."""
        return self.by_table.get(table_order(item))

    def delta_of(self, item: NodeType | EdgeType) -> TableDelta:
        """The delta of a table that the write touches, as the tables of most rules are."""
        return self.by_table[table_order(item)]

    def has_nodes(self, item: NodeType, ids: Column) -> Mask:
        """Which ids are nodes of the final image."""
        delta = self.delta(item)
        if delta is None:
            return contained(ids, find_ids(self.committed, item, ids))
        written = contained(ids, delta.image.ids)
        if delta.replaces_all or written.all():
            return written
        may_stay = ~written & ~contained(ids, delta.gone)
        stays = find_ids(self.committed, item, chosen(ids, may_stay))
        return written | (may_stay & contained(ids, stays))


def prepare_write(
    catalog: Catalog, deltas: Iterable[TableDelta], committed: CommittedRows
) -> Write:
    """The deltas in the order of reporting.

    Raises:
        InternalError: two deltas of one table.
    """
    by_table: dict[tuple[bool, str], TableDelta] = {}
    for delta in sorted(deltas, key=lambda delta: table_order(delta.item)):
        item = delta.item
        if table_order(item) in by_table:
            raise InternalError(
                f"two deltas for the table {kind_of(item)}:{item.name} in one write"
            )
        by_table[table_order(item)] = delta
    rules = list_rules(catalog, (delta.item for delta in by_table.values()))
    return Write(by_table=by_table, committed=committed, rules=rules)
