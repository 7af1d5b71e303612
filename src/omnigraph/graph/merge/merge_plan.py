"""What a merge would do, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.graph.merge.conflicts import conflict_table

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.graph.merge.conflicts import Conflict
    from omnigraph.graph.merge.merge_result import Outcome


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """What a merge would do; nothing was written."""

    source: str
    target: str
    outcome: Outcome
    source_commit_id: str
    target_commit_id: str
    base_commit_id: str | None
    tables: dict[str, dict[str, int]]
    """By type as `node:Person`: how many rows of the target are inserted, updated, deleted."""
    conflict_list: tuple[Conflict, ...] = ()
    """The first 10,000, in order."""
    conflict_count: int = 0

    @property
    def conflicts(self) -> pa.Table:
        """The conflicts as a table: a row for each contested property."""
        return conflict_table(self.conflict_list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "source": self.source,
            "target": self.target,
            "outcome": self.outcome.value,
            "source_commit_id": self.source_commit_id,
            "target_commit_id": self.target_commit_id,
            "base_commit_id": self.base_commit_id,
            "tables": self.tables,
            "conflict_count": self.conflict_count,
            "conflicts": [conflict.to_dict() for conflict in self.conflict_list],
        }
