"""What a call of `optimize` did, as callers see it: per table what was joined, built and left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.graph.maintenance.index_report import BuiltIndex, PendingIndex, SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptimizeStats:
    """One table, after the call."""

    table_key: str
    fragments_removed: int
    fragments_added: int
    committed: bool
    """This call made a new version of the table."""

    published_dataset_version: int
    lance_head_version: int
    """Above the published one if something moved the table that the graph knows nothing of."""

    built: tuple[BuiltIndex, ...] = ()
    pending_indexes: tuple[PendingIndex, ...] = ()
    skipped: SkipReason | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "committed": self.committed,
            "skipped": None if self.skipped is None else self.skipped.value,
            "published_dataset_version": self.published_dataset_version,
            "lance_head_version": self.lance_head_version,
            "built": [index.to_dict() for index in self.built],
            "pending_indexes": [index.to_dict() for index in self.pending_indexes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What one call did to the tables of a branch, nodes before edges, by type name."""

    branch: str
    engine: str
    """The lane that ran."""

    commit: Commit | None
    """`None` if there was nothing to do."""

    manifest_fragments_removed: int
    """How many fewer fragments the line of the branch has."""

    tables: tuple[TableOptimizeStats, ...]

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
            "manifest_fragments_removed": self.manifest_fragments_removed,
            "tables": [table.to_dict() for table in self.tables],
        }
