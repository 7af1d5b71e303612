"""Questions about committed rows whose keys are those of the staged rows of a load.

There may be more of them than are kept in memory. So the staged rows are asked instead, once
somebody was faster: whether they hold what the changed rows hold. They are those of the check that
asked, also if some are left out of the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import one_array
from omnigraph.graph.commit.read_set import forms_of, is_claimed
from omnigraph.storage.predicates import In

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.graph.commit.read_set import Keys
    from omnigraph.pipeline.staging.detached_views import StagedView
    from omnigraph.storage.changes import ChangedRows
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_store import TableStorage

_BATCH_BYTES: Final = 16 << 20
"""What is read at a time: keys are compared with whole batches."""

_LISTED_KEYS: Final = 8_192
"""Up to so many keys a table is asked for; beyond them it is read."""


@dataclass(frozen=True, slots=True, eq=False)
class StagedRows:
    """The rows that a load brings to one table."""

    store: TableStorage
    view: StagedView

    def have(self, name: str, keys: Keys) -> bool:
        """Whether one of them holds one of these texts in a column."""
        return bool(len(keys)) and any(
            pc.any(pc.is_in(batch.column(0), value_set=one_array(keys))).as_py()
            for batch in self._read([name])
        )

    def sharing(self, names: Sequence[str], rows: pa.Table) -> pa.Table:
        """Ids and members of a tuple, of those that have the first member of one of the rows."""
        first = one_array(rows[names[0]]).drop_null()
        tables = (_with(batch, names[0], first) for batch in self._read(["id", *names]))
        return pa.concat_tables([rows.select(["id", *names]).slice(0, 0), *tables])

    def _read(self, names: Sequence[str]) -> Iterable[pa.RecordBatch]:
        if self.view.handle is None:
            return ()
        return self.store.scan(
            self.view.handle,
            columns=names,
            fragments=self.view.fragments,
            batch_bytes=_BATCH_BYTES,
        )


@dataclass(frozen=True, slots=True)
class StagedExistence:
    """Whether the rows exist whose ids staged rows hold in a column."""

    staged: StagedRows
    name: str = "id"
    columns: tuple[str, ...] = ()

    def is_met(self, changed: ChangedRows) -> bool:
        """One of them came or went."""
        return self.staged.have(self.name, pa.concat_arrays([changed.added, changed.removed]))


@dataclass(frozen=True, slots=True)
class StagedById:
    """What the rows hold that have the ids of staged rows."""

    staged: StagedRows
    columns: tuple[str, ...] = ()

    def is_met(self, changed: ChangedRows) -> bool:
        """One of them was written or is gone."""
        return self.staged.have("id", pa.concat_arrays([changed.changed, changed.removed]))


@dataclass(frozen=True, slots=True)
class StagedSources:
    """Which edges start where staged edges start."""

    staged: StagedRows
    columns: tuple[str, ...] = ("src",)

    def is_met(self, changed: ChangedRows) -> bool:
        """One of those edges came, went or moved."""
        return any(self.staged.have("src", rows["src"]) for rows in forms_of(changed))


@dataclass(frozen=True, slots=True)
class LeftSources:
    """Which edges start where an edge starts whose staged form may start elsewhere."""

    staged: StagedRows
    base: TableHandle = field(compare=False)
    """The committed edges that the load was checked against."""
    columns: tuple[str, ...] = ("src",)

    def is_met(self, changed: ChangedRows) -> bool:
        """One of those edges came, went or moved."""
        return any(
            self.staged.have("id", edges["id"])
            for rows in forms_of(changed)
            for edges in self._edges_at(one_array(rows["src"]).unique())
        )

    def _edges_at(self, sources: pa.Array[Any]) -> Iterator[pa.Table]:  # Any: texts
        reader = self.staged.store.scan(
            self.base,
            columns=["id", "src"],
            predicate=In("src", sources) if len(sources) <= _LISTED_KEYS else None,
            batch_bytes=_BATCH_BYTES,
        )
        for batch in reader:
            yield _with(batch, "src", sources)


@dataclass(frozen=True, slots=True)
class StagedTuples:
    """Which rows hold the tuples that staged rows are to have, other than those very rows."""

    staged: StagedRows
    columns: tuple[str, ...]

    def is_met(self, changed: ChangedRows) -> bool:
        """Another row holds one of the tuples, or did."""
        return any(
            is_claimed(rows, self.staged.sharing(self.columns, rows)) for rows in forms_of(changed)
        )


def _with(batch: pa.RecordBatch, name: str, values: pa.Array[Any]) -> pa.Table:  # Any: of any type
    return pa.Table.from_batches([batch]).filter(pc.is_in(batch.column(name), value_set=values))
