"""What a commit keeps of the load that made it, so that its receipt can be given again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.job_report import TableReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.job_report import LoadMode


def load_stats(mode: LoadMode, reports: Sequence[TableReport]) -> dict[str, object]:
    """What the tables themselves do not tell."""
    return {
        "mode": mode.value,
        "read": {each.table: each.read for each in reports},
        "superseded": {each.table: each.superseded for each in reports if each.superseded},
    }


def committed_tables(stats: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[TableReport]:
    """The tables of a load, from the statistics of its commit; nodes first."""
    load, moved = stats.get("load", {}), stats.get("tables", {})
    superseded = load.get("superseded", {})
    found = [
        TableReport(
            table=table, read=read, **moved.get(table, {}), superseded=superseded.get(table, 0)
        )
        for table, read in load.get("read", {}).items()
    ]
    return sorted(found, key=lambda each: each.order)
