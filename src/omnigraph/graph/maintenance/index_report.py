"""What building indexes did, as callers see it: per table what was built, covered and left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit


class PendingReason(StrEnum):
    """Why an index cannot be built yet."""

    NO_ROWS = "no_rows"
    NO_VECTORS = "no_vectors"
    """Every vector is null or zero."""


class SkipReason(StrEnum):
    """Why a table was left as it is."""

    BUSY = "busy"
    """Others wrote to it each time before its indexes were ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndex:
    """An index that was built or extended."""

    property_name: str
    kind: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"property": self.property_name, "kind": self.kind}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRows:
    """How many rows of a table a declared index covers; the others are scanned."""

    property_name: str
    kind: str
    rows_covered: int
    rows: int

    @property
    def is_complete(self) -> bool:
        """Every row is covered."""
        return self.rows_covered >= self.rows

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "property": self.property_name,
            "kind": self.kind,
            "rows_covered": self.rows_covered,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingIndex:
    """A declared index that cannot be built yet, which is no error."""

    table_key: str
    property_name: str
    reason: PendingReason

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "property": self.property_name,
            "reason": self.reason.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIndexStats:
    """The declared indexes of one table, after the call."""

    table_key: str
    committed: bool
    """This call made a new version of the table."""

    published_dataset_version: int
    built: tuple[BuiltIndex, ...] = ()
    coverage: tuple[IndexRows, ...] = ()
    pending_indexes: tuple[PendingIndex, ...] = ()
    skipped: SkipReason | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "committed": self.committed,
            "skipped": None if self.skipped is None else self.skipped.value,
            "published_dataset_version": self.published_dataset_version,
            "built": [index.to_dict() for index in self.built],
            "coverage": [index.to_dict() for index in self.coverage],
            "pending_indexes": [index.to_dict() for index in self.pending_indexes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What one call did to the tables of a branch, nodes before edges, by type name."""

    branch: str
    engine: str
    """The lane that ran."""

    commit: Commit | None
    """`None` if there was nothing to build."""

    tables: tuple[TableIndexStats, ...]

    @property
    def pending_indexes(self) -> tuple[PendingIndex, ...]:
        """Those of all tables."""
        return tuple(index for table in self.tables for index in table.pending_indexes)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "branch": self.branch,
            "engine": self.engine,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "tables": [table.to_dict() for table in self.tables],
        }
