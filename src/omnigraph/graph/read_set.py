"""What a prepared write has asked about committed rows, so that it can be asked again.

When a table moved between capture and commit, the rows that changed are held against the questions:
a write that none of them concerns goes on as it is. The answer may say "affected" too often, never
too seldom.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.rows import TableRef
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.tables import TableStorage

Keys: TypeAlias = "pa.Array[pa.StringScalar] | pa.ChunkedArray[pa.StringScalar]"


Holds: TypeAlias = "Callable[[Keys], bool]"
"""Whether one of these texts is among those that were asked for."""


@dataclass(slots=True)
class Questions:
    """What was asked of one table."""

    is_all: bool = False
    """Every row mattered."""

    ids: list[Keys] = field(default_factory=list)
    """Rows were looked up by id."""

    columns: dict[str, list[Keys]] = field(default_factory=dict)
    """Rows were looked up by the text of a column: `src`, `dst`."""

    values: bool = False
    """Rows were looked up by other values: any added or changed row may answer now."""

    lookups: dict[str, list[Holds]] = field(default_factory=dict)
    """Rows were looked up by more texts of a column than are kept; they can be asked for."""


class ReadSet:
    """The questions of one attempt, by table."""

    def __init__(self) -> None:
        self._asked: dict[TableRef, Questions] = {}

    @property
    def tables(self) -> set[TableRef]:
        """The tables that the outcome depends on."""
        return set(self._asked)

    def ask_nothing(self, ref: TableRef) -> None:
        """The table is written and none of its rows was read."""
        self._of(ref)

    def ask_all(self, ref: TableRef) -> None:
        """The outcome depends on every row."""
        self._of(ref).is_all = True

    def ask_ids(self, ref: TableRef, ids: Keys) -> None:
        """The outcome depends on whether these rows exist and what they hold."""
        self._of(ref).ids.append(ids)

    def ask_column(self, ref: TableRef, column: str, keys: Keys) -> None:
        """The outcome depends on which rows hold these texts in a column."""
        self._of(ref).columns.setdefault(column, []).append(keys)

    def ask_values(self, ref: TableRef) -> None:
        """The outcome depends on which rows hold some other values."""
        self._of(ref).values = True

    def ask_lookup(self, ref: TableRef, column: str, holds: Holds) -> None:
        """As `ask_ids` (for the column `id`) and `ask_column`, for texts that lie elsewhere."""
        self._of(ref).lookups.setdefault(column, []).append(holds)

    def is_affected(
        self, ref: TableRef, store: TableStorage, now: TableHandle, before: TableHandle
    ) -> bool:
        """Whether what changed between two states of a table touches what was asked of it."""
        asked = self._asked[ref]
        found = store.changed_since(now, before.pin.version)
        touched = pa.chunked_array([found.changed, found.removed])
        if not len(touched):
            return False
        if asked.is_all or asked.values:
            return True
        if any(_overlap(touched, keys) for keys in asked.ids):
            return True
        if any(holds(touched) for holds in asked.lookups.get("id", ())):
            return True
        columns = [*asked.columns, *(each for each in asked.lookups if each != "id")]
        if not columns:
            return False
        # A row may have left the answer, or entered it: both its forms are held against it.
        wanted = list(dict.fromkeys(columns))
        earlier = pa.concat_arrays([found.changed, found.removed])
        forms = (
            store.take_ids(before, earlier, columns=wanted),
            store.take_ids(now, found.changed, columns=wanted),
        )
        return any(
            any(_overlap(rows[column], keys) for keys in asked.columns.get(column, ()))
            or any(holds(rows[column]) for holds in asked.lookups.get(column, ()))
            for rows in forms
            for column in wanted
        )

    def _of(self, ref: TableRef) -> Questions:
        return self._asked.setdefault(ref, Questions())


def _overlap(left: Keys, right: Keys) -> bool:
    found = pc.is_in(left, value_set=right)
    return bool(pc.any(found).as_py())
