"""Entities of a variable that an optional block binds: one more than there are, which is nothing.

The number after the last entity stands for "no solution". Its id and all its properties are null,
it sorts before every other, and no walk leaves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.engine.bindings import Bound
from omnigraph.engine.entities import Entities
from omnigraph.graph.arrays import text_array
from omnigraph.graph.query.topology import ABSENT
from omnigraph.lang.arrow_schema import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.arrays import Ids, Mask, Numbers, RowIds, Values

_NO_ROW = np.iinfo(np.uint64).max


class OptionalEntities(Entities):
    """Entities, and nothing as the last of them."""

    def __init__(self, given: Entities) -> None:
        super().__init__(given.table, given.size + 1)
        self.given = given
        """Those that exist."""

    def is_there(self, at: Numbers) -> Mask:
        """Which of the numbers stand for an entity."""
        return np.asarray(at < self.given.size, np.bool_)

    @property
    def ids(self) -> Ids:
        """The id of each; null for nothing."""
        if self._ids is None:
            self._ids = text_array(pa.concat_arrays([self.given.ids, pa.nulls(1, pa.string())]))
        return self._ids

    @property
    def row_ids(self) -> RowIds:
        """The row id of each; nothing has one that no row has."""
        if self._row_ids is None:
            self._row_ids = np.append(self.given.row_ids, np.uint64(_NO_ROW))
        return self._row_ids

    @property
    def knows_rows(self) -> bool:
        """Whether properties can be read."""
        return self.given.knows_rows

    @property
    def ranks(self) -> Numbers:
        """The place of each in the order of ids, nothing first."""
        if self._ranks is None:
            given = self.given.rank(np.arange(self.given.size))
            self._ranks = np.append(given + 1, 0)
        return self._ranks

    def id_rank(self, at: Numbers) -> Numbers:
        """Numbers that compare as ids do, nothing first."""
        out = np.zeros(len(at), np.int64)
        is_there = self.is_there(at)
        out[is_there] = self.given.id_rank(at[is_there]) + 1
        return out

    @property
    def identity(self) -> str | None:
        """The property whose value is the id."""
        return self.given.identity

    def type_names(self, at: Numbers) -> Values:
        """The name of the type of each; null for nothing."""
        is_there = self.is_there(at)
        places = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        return self.given.type_names(at[is_there]).take(places)

    def has(self, name: str) -> bool:
        """Whether a column is in memory."""
        return self.given.has(name)

    def read(self, names: Iterable[str], at: Numbers | None = None) -> dict[str, Values]:
        """Columns of the entities at these numbers, or of all."""
        at = np.arange(self.size) if at is None else at
        is_there = self.is_there(at)
        wanted = list(dict.fromkeys(names))
        if not is_there.any():
            return {name: pa.array([None] * len(at), self._type_of(name)) for name in wanted}
        places = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        columns = self.given.read(wanted, at[is_there])
        return {name: values.take(places) for name, values in columns.items()}

    def _type_of(self, name: str) -> pa.DataType:
        if self.given.has(name):
            return self.given.read([name], np.zeros(0, np.int64))[name].type
        declared = self.table.item.properties.get(name)
        return pa.string() if declared is None else arrow_type(declared.type)

    def find(self, row_ids: RowIds) -> Numbers:
        """The number of each row; `ABSENT` if it is none of these."""
        return self.given.find(row_ids)

    def numbers_among(self, at: Numbers, ids: Ids, *, is_kept: bool = False) -> Numbers:
        """For each of these distinct numbers its position among ascending ids, or `ABSENT`."""
        out = np.full(len(at), ABSENT, np.int64)
        is_there = self.is_there(at)
        out[is_there] = self.given.numbers_among(at[is_there], ids, is_kept=is_kept)
        return out


def optional(bound: Bound, chosen: Numbers, is_there: Mask) -> Bound:
    """A variable of solutions for rows of which only some have one."""
    given = bound.entities
    entities = given if isinstance(given, OptionalEntities) else OptionalEntities(given)
    at = np.full(len(is_there), entities.given.size, np.int64)
    at[is_there] = bound.at[chosen]
    return Bound(entities, at)
