"""A baseline: every entity of one commit, and the cursor from which the change feed goes on.

A stream without its last record is incomplete and has no cursor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from omnigraph.graph.changes.change_pages import Baseline
from omnigraph.graph.changes.feed import ChangeFeed
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.pins import pinned
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.ndjson.export import export_lines, select_types
from omnigraph.graph.validation.violation import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.changes.entity_change import ChangeFilter
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator


class BaselineStream:
    """The bytes of a baseline; the last line is the record of it."""

    def __init__(self, graph: GraphCoordinator, branch: str, wanted: ChangeFilter) -> None:
        snapshot = open_snapshot(graph, None, branch)
        feed = ChangeFeed(graph, branch, wanted)
        self.baseline = Baseline(
            snapshot_commit_id=snapshot.graph_commit_id,
            resume_cursor=feed.cursor_at(snapshot.graph_commit_id),
        )
        self._store = graph.tables
        self._pinned = partial(pinned, graph, "baseline")
        self._snapshot = snapshot
        self._types = [
            key_of(item)
            for item in select_types(snapshot, None)
            if wanted.wants(item, kind_of(item))
        ]

    def __iter__(self) -> Iterator[bytes]:
        if self._types:
            yield from export_lines(self._store, self._snapshot, self._types, pinned=self._pinned)
        yield msgspec.json.encode({"baseline": self.baseline.to_dict()}) + b"\n"
