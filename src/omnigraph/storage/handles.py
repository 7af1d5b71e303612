"""The values that pass between the graph layer and the tables: pins, handles, staged writes.

A handle is opaque above this package. It stands for exactly one version of one line of one table
and never changes; whatever needs the newest version asks for it by name.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from lance import LanceDataset, Transaction

    from omnigraph.ids import BranchId, Incarnation, OperationId, TableId, TableKey

LINE_PREFIX = "b-"
"""Before the id of a graph branch: the Lance branch that holds its line."""

CREATION = "create_table"
"""The kind of a version that belongs to the creation of its table, before any line names it."""


def lance_branch(branch_id: BranchId) -> str | None:
    """The Lance branch that holds the line of a graph branch; `None` is the main line."""
    return None if branch_id == "main" else f"{LINE_PREFIX}{branch_id}"


def own_object(dataset: LanceDataset) -> LanceDataset:
    """The same version as an object of its own.

    Calls that change a table borrow the object for themselves, and a handle is shared with threads
    that read it meanwhile: one of the two would fail.
    """
    return copy(dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What storage knows of a type: where its table is and which column holds which property."""

    table_id: TableId
    incarnation: Incarnation
    table_key: TableKey
    location: str
    """Path of the dataset, relative to the root of the graph."""

    schema: pa.Schema
    """Columns as the catalog names them: the system columns, then the properties."""

    system_columns: tuple[str, ...] = ("id",)
    """Those of the schema that are no properties: `id`, of an edge `src` and `dst` as well."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """By property name: the physical column, where the two differ."""

    property_ids: Mapping[str, int] = field(default_factory=dict)
    """By property name: the stable id, which index names carry."""

    blobs: frozenset[str] = frozenset()
    """Properties whose bytes are stored as Lance blobs."""

    text_indexes: tuple[str, ...] = ()
    """Free String properties whose inverted index exists from the table's birth, untrained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of one line of a table: what a manifest row names."""

    location: str
    branch: str | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table at exactly one pin."""

    layout: TableLayout
    pin: Pin
    dataset: LanceDataset = field(repr=False, compare=False)
    """Only `storage/` touches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStamp:
    """Who makes a version: the operation and the kind of writer."""

    operation_id: OperationId
    kind: str

    @property
    def properties(self) -> dict[str, str]:
        """The transaction properties that prove who made a version."""
        return {"omnigraph.operation": self.operation_id, "omnigraph.kind": self.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One transaction of a staged write: its identity now, its content when its turn comes.

    The first link of a table is staged before the lease is taken; a later one is staged on the
    handle that the commit before it returned. Both carry a uuid that was chosen beforehand, so the
    sidecar can name them.
    """

    uuid: str
    operation: str
    """Lance's word: `Append`, `Update`, `Delete`, `Overwrite`, `Rewrite`, `CreateIndex`, …"""

    stage: Callable[[TableHandle], Transaction]
    """The transaction on this base; for a first link the base it was staged at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWrite:
    """Files written for one table, not visible, bound to the version they were staged at."""

    base: TableHandle
    links: tuple[Link, ...] = ()
    rows_added: int = 0
    rows_changed: int = 0
    rows_removed: int = 0
    rows_unchanged: int = 0
    """Given rows that are in the table as they are, and were left out."""
    rows_after: int = 0
    """Live rows of the table when all links have landed."""

    files: tuple[str, ...] = ()
    """What was written, relative to the root of the graph: for syncing and orphan accounting."""

    rebase: Callable[[TableHandle], StagedWrite] | None = field(default=None, repr=False)
    """The same change on a newer base: appends move unchanged, the rest is staged again."""

    restaged_rows: int = 0
    """How many rows `rebase` reads or writes again."""

    fragments_removed: int = 0
    fragments_added: int = 0
    """Of a compaction."""

    @property
    def is_noop(self) -> bool:
        """Nothing to commit: the table is left out of the sidecar and of the publish."""
        return not self.links


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTrace:
    """Who made a version, as far as its transaction tells; all `None` if it cannot be read."""

    version: int
    uuid: str | None = None
    operation_id: str | None = None
    kind: str | None = None
    operation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkState:
    """A table's line for a graph branch, as it is on storage."""

    parent_branch: str | None
    parent_version: int
    head: int
