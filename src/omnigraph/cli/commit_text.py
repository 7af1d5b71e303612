"""What a commit did, in a few words for a line of a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit

_MOST_DECISIONS: Final = 10
_SIGNS: Final = {"added": "+", "changed": "~", "removed": "-"}


def rows_text(commit: Commit) -> str:
    """How many rows it added, changed and removed; `-` if none."""
    tables = commit.stats.get("tables", {})
    counts = {name: sum(table.get(name, 0) for table in tables.values()) for name in _SIGNS}
    told = [f"{sign}{counts[name]:,}" for name, sign in _SIGNS.items() if counts[name]]
    return " ".join(told) or "-"


def pipeline_text(commit: Commit) -> str:
    """The pipeline whose run it was, and where the cursors of that run ended; `-` for others."""
    run = commit.stats.get("pipeline")
    if run is None:
        return "-"
    cursors = [
        f"{name} to {_plain(each.get('value'))}" for name, each in run.get("cursors", {}).items()
    ]
    return f"{run.get('name')}{': ' if cursors else ''}{', '.join(cursors)}"


def merge_text(commit: Commit) -> str | None:
    """Of a merge the branch that was merged, and how it went."""
    merge = commit.stats.get("merge")
    return None if merge is None else f"{merge.get('source')}: {merge.get('outcome')}"


def decisions_text(commit: Commit) -> str | None:
    """Of a merge with conflicts how they were decided, the first of them one by one."""
    merge = commit.stats.get("merge", {})
    count = merge.get("decided_count", 0)
    told = [
        f"{each['type']} {each['id']} {each['kind']}: {each['take']}"
        for each in merge.get("decided", [])[:_MOST_DECISIONS]
    ]
    more = [f"{count - len(told):,} more"] if count > len(told) else []
    return "; ".join((*told, *more)) or None


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
