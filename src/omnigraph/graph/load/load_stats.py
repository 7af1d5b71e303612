"""What a commit keeps of the load that made it, so that its receipt can be given again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph.graph.jobs.report import RejectReport, TableReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.jobs.report import LoadMode


def load_stats(
    mode: LoadMode,
    reports: Sequence[TableReport],
    rejects: RejectReport | None = None,
    *,
    branch_created: bool = False,
) -> dict[str, object]:
    """What the tables themselves do not tell."""
    stats: dict[str, object] = {
        "mode": mode.value,
        "read": {each.table: each.read for each in reports},
        "superseded": {each.table: each.superseded for each in reports if each.superseded},
    }
    if branch_created:
        stats["branch_created"] = True
    unchanged = {each.table: each.unchanged for each in reports if each.unchanged}
    if unchanged:
        stats["unchanged"] = unchanged
    if rejects is not None and rejects.violations:
        stats["rejected"] = {each.table: each.rejected for each in reports if each.rejected}
        stats["violations"] = dict(rejects.violations)
        stats["rejects_uri"] = rejects.uri
    return stats


def committed_tables(stats: Mapping[str, Any]) -> list[TableReport]:
    """The tables of a load, from the statistics of its commit; nodes first."""
    load, moved = stats.get("load", {}), stats.get("tables", {})
    superseded, rejected = load.get("superseded", {}), load.get("rejected", {})
    unchanged = load.get("unchanged", {})
    reports = [
        TableReport(
            table=table,
            read=read,
            **moved.get(table, {}),
            unchanged=unchanged.get(table, 0),
            rejected=rejected.get(table, 0),
            superseded=superseded.get(table, 0),
        )
        for table, read in load.get("read", {}).items()
    ]
    return sorted(reports, key=lambda each: each.order)


def made_branch(stats: Mapping[str, Any]) -> bool:
    """Whether a load made the branch that it wrote to, from the statistics of its commit."""
    return stats.get("load", {}).get("branch_created") is True


def committed_rejects(stats: Mapping[str, Any]) -> RejectReport:
    """The bad rows of a load, from the statistics of its commit."""
    load = stats.get("load", {})
    return RejectReport(violations=load.get("violations", {}), uri=load.get("rejects_uri"))
