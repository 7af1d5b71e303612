"""What a commit did, in a few words for a line of a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from omnigraph.graph.history.commit_graph import Commit

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


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
