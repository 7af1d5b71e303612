"""`HotColumns`: narrow columns of node tables in memory, by version, in the order of their ids.

A column is worth its memory once reads of it have cost a part of what loading it costs: a single
lookup loads nothing. Wide columns (lists, vectors, blobs, long texts) stay where they are. Those
least recently used go first, column by column.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.engine.runtime_cache import TableVersion
    from omnigraph.graph.arrays import Values

PropertyKey: TypeAlias = tuple[int, int, int]
"""A property of any version: the table, its incarnation, the id of the property."""

READ_COST = 10_000
"""What one read costs at least, in rows whose column could have been loaded instead."""

NUMBERING_COST = 8
"""Numbering a row by its id costs as much as loading so many values."""

PART_OF_LOADING = 4
"""Loading begins once reads have cost one part in so many of it."""

FEW_READS = 3
"""Nothing is loaded before so many reads, however small the table is."""

MOST_VALUE_BYTES = 64
"""Columns whose values take more than this on average stay on disk."""

SMALL_COLUMN_BYTES = 1 << 16
"""Up to here a column may have wide values."""

MOST_COUNTED = 1_024

MOST_VERSIONS = 32
"""Of so many versions columns are kept, however small they are."""

MOST_MOVES = 16
"""A column that nobody read through so many versions is left behind."""


@dataclass(slots=True)
class _Column:
    values: Values
    used: int
    """When it was used last, in uses of any column."""

    moves: int = 0
    """Through how many versions it was carried since somebody read it."""


class HotColumns:
    """Columns by table version and property id; safe to share between threads."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._columns: dict[TableVersion, dict[int, _Column]] = {}
        self._uses = itertools.count(1)
        self._bytes = 0
        self._spent: dict[PropertyKey, float] = {}
        self._unfit: set[PropertyKey] = set()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Memory of all columns."""
        return self._bytes

    def of(self, version: TableVersion) -> Mapping[int, Values]:
        """The columns that are there of a version and were read of late, by property id."""
        with self._lock:
            kept = self._columns.get(version, {})
            return {
                number: column.values
                for number, column in kept.items()
                if column.moves < MOST_MOVES
            }

    def find(self, version: TableVersion, number: int) -> Values | None:
        """A column, now the one used last; `None` if it is not there."""
        with self._lock:
            kept = self._columns.get(version)
            column = None if kept is None else kept.get(number)
            if column is None:
                return None
            column.used = next(self._uses)
            column.moves = 0
            return column.values

    def keep(self, version: TableVersion, columns: Mapping[int, Values]) -> None:
        """Have some columns of a version, and drop others until there is room."""
        with self._lock:
            for number, values in columns.items():
                self._put(version, number, _Column(values, next(self._uses)))
            self._make_room()

    def move(
        self, older: TableVersion, version: TableVersion, columns: Mapping[int, Values]
    ) -> None:
        """Have columns of an older version as a newer one has them; the old go first."""
        with self._lock:
            behind = self._columns.get(older, {})
            for column in behind.values():
                column.used = 0
            for number, values in columns.items():
                moves = behind[number].moves + 1 if number in behind else 1
                self._put(version, number, _Column(values, next(self._uses), moves))
            self._make_room()

    def _put(self, version: TableVersion, number: int, column: _Column) -> None:
        kept = self._columns.setdefault(version, {})
        if number in kept:
            self._bytes -= kept[number].values.nbytes
        kept[number] = column
        self._bytes += column.values.nbytes

    def _make_room(self) -> None:
        while self._bytes > self.most_bytes or len(self._columns) > MOST_VERSIONS:
            version, number = min(
                ((version, number) for version, kept in self._columns.items() for number in kept),
                key=lambda place: self._columns[place[0]][place[1]].used,
            )
            self._bytes -= self._columns[version].pop(number).values.nbytes
            if not self._columns[version]:
                del self._columns[version]

    def is_due(self, key: PropertyKey, cost: float, load_cost: float) -> bool:
        """Count what a read of a property has cost; whether to load its column now.

        Counted anew from there: what is loaded may be dropped again, or fail to be loaded.
        """
        with self._lock:
            if key in self._unfit or not self.most_bytes:
                return False
            spent = self._spent.pop(key, 0.0) + max(cost, READ_COST)
            if spent >= max(load_cost / PART_OF_LOADING, FEW_READS * READ_COST):
                return True
            while len(self._spent) >= MOST_COUNTED:
                self._spent.pop(next(iter(self._spent)))
            self._spent[key] = spent
            return False

    def refuse(self, key: PropertyKey) -> None:
        """A column turned out too wide; it is not tried again."""
        with self._lock:
            self._unfit.add(key)

    def most_of(self, rows: int) -> int:
        """The bytes up to which a column of so many rows is kept."""
        return min(self.most_bytes, max(SMALL_COLUMN_BYTES, MOST_VALUE_BYTES * rows))

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._columns.clear()
            self._bytes = 0
            self._spent.clear()
            self._unfit.clear()
