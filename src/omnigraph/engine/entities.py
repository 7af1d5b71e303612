"""Entities of one type, numbered: what the columns of a binding table point into.

A variable is bound to small numbers; ids and properties are looked up when something needs them,
for the rows that are left then.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.errors import InternalError
from omnigraph.graph.arrays import ascending, one_array, row_ids_of, text_array
from omnigraph.graph.query.compare import repeated
from omnigraph.graph.query.topology import RowNumbers, find_ids
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.engine.tables import QueryTable
    from omnigraph.graph.arrays import Ids, Numbers, RowIds, Values
    from omnigraph.graph.query.topology import TypeIndex


class Entities:
    """Rows of one table. Of their ids, row ids and columns, some are known and the rest is read."""

    def __init__(
        self,
        table: QueryTable,
        size: int,
        *,
        ids: Ids | None = None,
        row_ids: RowIds | None = None,
        columns: Mapping[str, Values] | None = None,
        is_ascending: bool = False,
        type_index: TypeIndex | None = None,
    ) -> None:
        self.table = table
        self.size = size
        self.type_index = type_index
        """Set when these are all rows of the table, in its order."""
        self._ids = ids
        self._row_ids = row_ids
        self._columns: dict[str, Values] = dict(columns or {})
        self._is_ascending = is_ascending
        self._ranks: Numbers | None = None
        self._by_row_id: RowNumbers | None = None

    @classmethod
    def whole(cls, table: QueryTable, index: TypeIndex) -> Entities:
        """All rows of a table."""
        return cls(
            table,
            len(index.ids),
            ids=index.ids,
            row_ids=index.row_ids,
            is_ascending=True,
            type_index=index,
        )

    @classmethod
    def scanned(cls, table: QueryTable, rows: pa.Table) -> Entities:
        """The rows of a scan, in the order they came; with row ids if it read them."""
        columns = {name: one_array(rows[name]) for name in rows.column_names}
        row_ids = columns.pop(ROW_ID, None)
        ids = columns.get("id")
        return cls(
            table,
            rows.num_rows,
            ids=None if ids is None else text_array(ids),
            row_ids=None if row_ids is None else row_ids_of(row_ids),
            columns=columns,
        )

    @classmethod
    def of_ids(cls, table: QueryTable, ids: Ids) -> Entities:
        """The entities with these ids, which ascend; nothing of them will be read."""
        return cls(table, len(ids), ids=ids, is_ascending=True)

    @classmethod
    def none(cls, table: QueryTable) -> Entities:
        """No entity at all."""
        return cls(
            table,
            0,
            ids=pa.array([], pa.string()),
            row_ids=np.zeros(0, np.uint64),
            is_ascending=True,
        )

    @cached_property
    def everything(self) -> Numbers:
        """The number of each; who holds this very array is bound to all of them."""
        return np.arange(self.size)

    def is_everything(self, at: Numbers) -> bool:
        """Whether these numbers are known to be all, in order."""
        return at is self.__dict__.get("everything")

    @property
    def ids(self) -> Ids:
        """The id of each."""
        if self._ids is None:
            self._ids = text_array(self.read(["id"])["id"])
        return self._ids

    @property
    def row_ids(self) -> RowIds:
        """The row id of each."""
        if self._row_ids is None:
            raise InternalError(f"entities of {self.table.item.name} were bound without their rows")
        return self._row_ids

    @property
    def knows_rows(self) -> bool:
        """Whether properties can be read."""
        return self._row_ids is not None

    @property
    def ranks(self) -> Numbers | None:
        """The place of each in the order of ids; `None` if that is its number."""
        if self._is_ascending:
            return None
        if self._ranks is None:
            order = ascending(self.ids)
            self._ranks = np.empty(self.size, np.int64)
            self._ranks[order] = np.arange(self.size)
        return self._ranks

    def rank(self, at: Numbers) -> Numbers:
        """Numbers that compare as the ids of these entities do."""
        ranks = self.ranks
        return at if ranks is None else ranks[at]

    def id_rank(self, at: Numbers) -> Numbers:
        """The same, where two entities may have one id: then their numbers are equal."""
        return self.rank(at)

    @property
    def identity(self) -> str | None:
        """The property whose value is the id."""
        return self.table.identity

    def type_names(self, at: Numbers) -> Values:
        """The name of the type of each."""
        return repeated(self.table.item.name, pa.string(), len(at))

    def has(self, name: str) -> bool:
        """Whether a column is in memory."""
        return name in self._columns

    def read(self, names: Iterable[str], at: Numbers | None = None) -> dict[str, Values]:
        """Columns of the entities at these numbers, or of all."""
        if at is not None and self.is_everything(at):
            at = None
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self._columns]
        if missing and self._ids is not None:
            for name in ("id", self.table.identity):
                if name is not None and name in missing:
                    self._columns[name] = self._ids
                    missing.remove(name)
        out = {
            name: self._columns[name] if at is None else self._columns[name].take(at)
            for name in wanted
            if name not in missing
        }
        if missing:
            out.update(self._read_hot(missing, at))
            missing = [name for name in missing if name not in out]
        if missing:
            row_ids = self.row_ids if at is None else self.row_ids[at]
            columns = self.table.take(row_ids, missing)
            if at is None:
                self._columns.update(columns)
            out.update(columns)
        return out

    def _read_hot(self, names: Sequence[str], at: Numbers | None) -> dict[str, Values]:
        """Those of the columns that are in memory whatever this query read."""
        hot = self.table.hot(names)
        if not hot:
            return {}
        if self.type_index is None:
            index = self.table.cached_type_index(is_moved=False)
            if index is None:
                return {}
            at = index.by_row_id.find(self.row_ids if at is None else self.row_ids[at])
        if at is None:
            return hot
        taken = {name: values.take(pa.array(at, pa.int64())) for name, values in hot.items()}
        size_bytes = sum(values.nbytes for values in taken.values())
        self.table.budget.charge(size_bytes, f"a read of {self.table.item.name}")
        return taken

    def find(self, row_ids: RowIds) -> Numbers:
        """The number of each row; `ABSENT` if it is none of these."""
        if self.type_index is not None:
            return self.type_index.by_row_id.find(row_ids)
        if self._by_row_id is None:
            self._by_row_id = RowNumbers(self.row_ids)
        return self._by_row_id.find(row_ids)

    def numbers_among(self, at: Numbers, ids: Ids, *, is_kept: bool = False) -> Numbers:
        """For each of these distinct numbers its position among ascending ids, or `ABSENT`.

        `is_kept` says that the ids outlive the query, so that the way to them is worth keeping.
        """
        if self._ids is ids:
            return at
        index = self.type_index or (self.table.cached_type_index() if self.knows_rows else None)
        if is_kept and index is not None:
            alignments = self.table.caches.alignments
            if self.type_index is None:
                at = index.by_row_id.find(self.row_ids[at])
            elif self.is_everything(at):
                return alignments.between(index.ids, ids)
            return alignments.find(index.ids, ids, at)
        return find_ids(ids, text_array(self.read(["id"], at)["id"]))


def distinct(at: Numbers, entities: Entities) -> tuple[Numbers, Numbers]:
    """The distinct bound numbers, ascending, and for each given one its place among them."""
    if entities.is_everything(at):
        return at, at
    return distinct_numbers(at, entities.size)


def distinct_numbers(at: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """The distinct numbers below `size`, ascending, and for each given one its place."""
    if len(at) == 1:
        return at, np.zeros(1, np.int64)
    if len(at) * 8 < size:
        used, inverse = np.unique(at, return_inverse=True)
        return used, inverse
    is_used = np.zeros(size, bool)
    is_used[at] = True
    used = np.flatnonzero(is_used)
    if len(used) == size:
        return used, at
    place = np.empty(size, np.int64)
    place[used] = np.arange(len(used))
    return used, place[at]
