"""What maintenance is due: which tables have too many fragments, and which indexes lag too far.

Read from metadata, for the tables that each live branch has written itself, but for vectors whose
index is missing: there the first of them is looked for. The rules bound
what is done for a row in its life: fragments are joined when they are many or hold many deleted
rows, and an index is brought up to date when the rows that it does not cover are a fixed share of
the table, so that the cost of building it anew is spread over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import BranchNotFound
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.storage.capabilities import wanted_indexes
from omnigraph.storage.handles import lance_branch
from omnigraph.storage.indexes import index_name
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.ids import BranchId
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.indexes import IndexSpec
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.table_storage import TableStorage

MOST_FRAGMENTS: Final = 40
"""Of fewer than `FULL_ROWS` rows."""

FULL_ROWS: Final = 1_048_576
DELETED_SHARE: Final = 0.1
FEWEST_ROWS: Final = 1_024
"""What concerns fewer rows than these costs a read nothing that could be noticed."""

LAGGING_SHARE: Final = 1 / 64


class Need(StrEnum):
    """What a table needs."""

    COMPACTION = "compaction"
    INDEXES = "indexes"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDue:
    """A table of a branch for which something is due."""

    branch: str
    table_key: str
    needs: tuple[Need, ...]
    rows: int
    fragments: int
    deleted_rows: int
    uncovered_rows: int
    """Rows that the index that lags most does not cover."""

    @property
    def reason(self) -> str:
        """Why it is due, in words."""
        reasons = {
            Need.COMPACTION: f"{self.fragments:,} fragments, {self.deleted_rows:,} deleted rows",
            Need.INDEXES: f"{self.uncovered_rows:,} of {self.rows:,} rows without an index",
        }
        return "; ".join(reasons[need] for need in self.needs)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body = {name: getattr(self, name) for name in self.__slots__}
        return body | {"needs": [need.value for need in self.needs], "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceStatus:
    """What is due, and why."""

    tables: tuple[TableDue, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"tables": [table.to_dict() for table in self.tables]}


def needs_compaction(fragments: Sequence[FragmentInfo]) -> bool:
    """Whether there are many small fragments, or one of many rows has too many deleted ones."""
    small = sum(fragment.rows < FULL_ROWS for fragment in fragments)
    return small > MOST_FRAGMENTS or any(
        fragment.deleted_rows >= FEWEST_ROWS
        and fragment.deleted_rows > DELETED_SHARE * (fragment.rows + fragment.deleted_rows)
        for fragment in fragments
    )


def needs_indexes(rows: int, uncovered: int) -> bool:
    """Whether so many rows are not covered that an index is to be brought up to date."""
    return uncovered >= max(FEWEST_ROWS, rows * LAGGING_SHARE)


def uncovered_rows(
    store: TableStorage, handle: TableHandle, specs: Iterable[IndexSpec], rows: int
) -> int:
    """The rows that the index that lags most does not cover; all of them if it is missing.

    An index that cannot be built yet, because no row has a vector, is not missing.
    """
    covered = {index.name: index.rows_covered for index in store.index_coverage(handle)}
    uncovered = 0
    for spec in specs:
        held = covered.get(index_name(handle.layout, spec))
        lag = rows - (held or 0)
        if lag > uncovered and (held is not None or store.is_buildable(handle, spec)):
            uncovered = lag
    return uncovered


def maintenance_status(graph: GraphCoordinator, branch: str | None) -> MaintenanceStatus:
    """What is due on one branch, or on all live ones.

    Raises:
        BranchNotFound: there is no such branch.
    """
    if branch is None:
        return MaintenanceStatus(tables=tuple(list_due(graph)))
    return MaintenanceStatus(tables=tuple(due_on(graph, branch, graph.branch_id(branch))))


def list_due(graph: GraphCoordinator) -> list[TableDue]:
    """The tables of all live branches for which something is due; nodes first, then by name."""
    due = []
    for branch_id, branch in graph.lines.live_branch_ids().items():
        due += due_on(graph, branch, branch_id)
    return due


def due_on(graph: GraphCoordinator, branch: str, branch_id: BranchId) -> list[TableDue]:
    """The tables of one branch for which something is due; none if it is deleted meanwhile.

    Nothing is due on a branch that a graph had before it was moved: it can only be read.
    """
    try:
        line = graph.lines.read(branch_id)
        if line.handle.moved is not None:
            return []
        return sorted(
            _due(graph, branch, line),
            key=lambda table: (table.table_key.startswith("edge:"), table.table_key),
        )
    except (BranchNotFound, ObjectMissing):
        return []


def _due(graph: GraphCoordinator, branch: str, line: ManifestLine) -> Iterator[TableDue]:
    own = lance_branch(line.branch_id)
    for ref, pin in line.pins.items():
        if pin.branch == own:
            table = _table(graph, branch, line, ref)
            if table.needs:
                yield table


def _table(graph: GraphCoordinator, branch: str, line: ManifestLine, ref: TableRef) -> TableDue:
    tables = graph.schemas.tables(line.schema.schema_hash)
    layout, pin = tables.layouts[ref], line.pins[ref]
    handle = graph.tables.open(layout, pin_of(pin))
    fragments = graph.tables.fragments(handle)
    specs = wanted_indexes(tables.types[ref])
    uncovered = uncovered_rows(graph.tables, handle, specs, pin.row_count)
    needs = {
        Need.COMPACTION: needs_compaction(fragments),
        Need.INDEXES: needs_indexes(pin.row_count, uncovered),
    }
    return TableDue(
        branch=branch,
        table_key=layout.table_key,
        needs=tuple(need for need, is_due in needs.items() if is_due),
        rows=pin.row_count,
        fragments=len(fragments),
        deleted_rows=sum(fragment.deleted_rows for fragment in fragments),
        uncovered_rows=uncovered,
    )
