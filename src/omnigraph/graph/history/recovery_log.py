"""The audit of recoveries, as callers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.rows import RecoveryRow


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRecord:
    """How one interrupted write was settled."""

    operation_id: str
    recovery_kind: str
    writer_kind: str
    recovery_for_actor: str | None
    recovered_by: dict[str, Any]
    recovered_at: int
    tables: tuple[dict[str, Any], ...]
    graph_commit_id: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body = {name: getattr(self, name) for name in self.__slots__}
        return body | {"tables": [dict(table) for table in self.tables]}


def list_recoveries(
    lines: ManifestCoordinator, branch: str | None, limit: int
) -> list[RecoveryRecord]:
    """Recoveries that a branch's line records, or those of all live branches, newest first.

    Raises:
        BranchNotFound: there is no such branch.
        InvalidArgument: the limit is not positive.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(
            f"limit must be a number of at least 1, not {limit!r}", argument="limit"
        )
    asked = lines.live_lines() if branch is None else [lines.read(lines.branch_id(branch))]
    rows = {row.operation_id: row for line in asked for row in line.recoveries()}
    newest = sorted(
        rows.values(), key=lambda row: (row.recovered_at, row.operation_id), reverse=True
    )
    return [_record(row) for row in newest[:limit]]


def _record(row: RecoveryRow) -> RecoveryRecord:
    return RecoveryRecord(
        operation_id=row.operation_id,
        recovery_kind=row.recovery_kind,
        writer_kind=row.writer_kind,
        recovery_for_actor=row.recovery_for_actor,
        recovered_by=dict(row.recovered_by),
        recovered_at=row.recovered_at,
        tables=tuple(dict(table) for table in row.tables),
        graph_commit_id=row.graph_commit_id,
    )
