"""What a prepared write has asked about committed rows, so that it can be asked again.

Whoever reads committed rows to decide something puts the question here as it asks, in these words
and in no others, whether it runs in this process or on executors. When a table moved between
capture and commit, the rows that changed are held against the questions, in the form that they had
and in the one that they have: a write that none of them concerns goes on as it is. The answer may
say "affected" too often, never too seldom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import column, contained, group_codes, is_given
from omnigraph.storage.predicates import columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.storage.changes import ChangedRows
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.predicates import Predicate
    from omnigraph.storage.table_store import TableStorage

Keys: TypeAlias = "pa.Array[pa.StringScalar] | pa.ChunkedArray[pa.StringScalar]"


class Question(Protocol):
    """Rows of a table that the outcome of a write depends on."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What it looks at besides the id of a row."""
        ...

    def is_met(self, changed: ChangedRows) -> bool:
        """Whether changed rows may make another answer."""
        ...


@dataclass(frozen=True, slots=True)
class AllRows:
    """Every row matters."""

    columns: tuple[str, ...] = ()

    def is_met(self, changed: ChangedRows) -> bool:
        """Any change counts."""
        return bool(changed.before.num_rows or changed.after.num_rows)


@dataclass(frozen=True, slots=True)
class RowsById:
    """Whether these rows exist, and what they hold."""

    ids: Keys
    columns: tuple[str, ...] = ()

    def is_met(self, changed: ChangedRows) -> bool:
        """One of them was written or is gone."""
        return _overlap(changed.changed, self.ids) or _overlap(changed.removed, self.ids)


@dataclass(frozen=True, slots=True)
class Existence:
    """Whether these rows exist, whatever they hold."""

    ids: Keys
    columns: tuple[str, ...] = ()

    def is_met(self, changed: ChangedRows) -> bool:
        """One of them came or went."""
        return _overlap(changed.added, self.ids) or _overlap(changed.removed, self.ids)


@dataclass(frozen=True, slots=True)
class RowsByText:
    """Which rows hold one of these texts in a column: edges at nodes."""

    name: str
    texts: Keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The one that holds them."""
        return (self.name,)

    def is_met(self, changed: ChangedRows) -> bool:
        """A row left the answer, or entered it."""
        return any(_overlap(rows[self.name], self.texts) for rows in forms_of(changed))


@dataclass(frozen=True, slots=True)
class RowsMatching:
    """Which rows satisfy a predicate, and what they hold."""

    predicate: Predicate
    store: TableStorage

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the predicate."""
        return tuple(sorted(columns_of(self.predicate) - {"id"}))

    def is_met(self, changed: ChangedRows) -> bool:
        """A row satisfies it, or did."""
        return any(self.store.filtered(rows, self.predicate).num_rows for rows in forms_of(changed))


@dataclass(frozen=True, slots=True)
class RowsRead:
    """What the rows hold that satisfied a predicate; that others do by now is no concern."""

    predicate: Predicate
    store: TableStorage

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the predicate."""
        return tuple(sorted(columns_of(self.predicate) - {"id"}))

    def is_met(self, changed: ChangedRows) -> bool:
        """One of them was written or is gone."""
        return bool(self.store.filtered(changed.before, self.predicate).num_rows)


@dataclass(frozen=True, slots=True)
class OtherHolders:
    """Which rows hold the tuples that some records are to have, other than those very rows.

    Two writers that leave the same tuple with its row do not meet. One who frees the tuple does not
    meet them either, but whoever takes it then is another row that holds it.
    """

    claims: pa.Table
    """`id` and the members of a tuple of each record, none null."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The members."""
        return tuple(name for name in self.claims.column_names if name != "id")

    def is_met(self, changed: ChangedRows) -> bool:
        """Another row holds one of the tuples, or did."""
        return any(is_claimed(rows, self.claims) for rows in forms_of(changed))


class ReadSet:
    """The questions of one attempt, by table."""

    def __init__(self) -> None:
        self._asked: dict[TableRef, list[Question]] = {}

    @property
    def tables(self) -> set[TableRef]:
        """The tables that the outcome depends on."""
        return set(self._asked)

    def ask_nothing(self, ref: TableRef) -> None:
        """The table is written and none of its rows was read."""
        self._asked.setdefault(ref, [])

    def ask(self, ref: TableRef, *questions: Question) -> None:
        """The outcome depends on these rows."""
        self._asked.setdefault(ref, []).extend(questions)

    def is_affected(
        self, ref: TableRef, store: TableStorage, now: TableHandle, before: TableHandle
    ) -> bool:
        """Whether what changed between two states of a table touches what was asked of it."""
        asked = self._asked[ref]
        if not asked:
            return False
        columns = dict.fromkeys(name for question in asked for name in question.columns)
        changed = store.changed_since(now, before, list(columns))
        return any(question.is_met(changed) for question in asked)


def forms_of(changed: ChangedRows) -> Sequence[pa.Table]:
    """The rows as they were and as they are: one may have left an answer, or entered it."""
    return [rows for rows in (changed.before, changed.after) if rows.num_rows]


def is_claimed(rows: pa.Table, claims: pa.Table) -> bool:
    """Whether a row holds the tuple that is claimed for another id."""
    names = [name for name in claims.column_names if name != "id"]
    claims = _sharing(claims, rows, names)
    rows = _sharing(rows, claims, names)
    count = claims.num_rows
    if not count or not rows.num_rows:
        return False
    members = [pa.concat_arrays([column(claims, name), column(rows, name)]) for name in names]
    ids = pa.concat_arrays([column(claims, "id"), column(rows, "id")])
    tuples, pairs = group_codes(members), group_codes([*members, ids])
    of_any = np.bincount(tuples[:count], minlength=len(tuples))
    of_itself = np.bincount(pairs[:count], minlength=len(pairs))
    return bool((of_any[tuples[count:]] > of_itself[pairs[count:]]).any())


def _sharing(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with every member of a tuple, each of which some other row has too."""
    for name in names:
        held = column(rows, name)
        is_shared = is_given(held) & contained(held, column(others, name))
        rows = rows.filter(pa.array(is_shared))
    return rows


def _overlap(left: Keys, right: Keys) -> bool:
    shared = pc.is_in(left, value_set=right)
    return bool(pc.any(shared).as_py())
