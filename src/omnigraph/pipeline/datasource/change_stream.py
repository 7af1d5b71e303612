"""The change feed of a branch as a stream of Spark, of whole commits.

The offset of a stream is the cursor of the feed, so a checkpoint belongs to one branch and one
filter, and nothing is kept for it in the graph. A batch that runs again has the same commits. Spark
calls this in Python processes of its own; each call opens the graph.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from omnigraph.graph.changes.feed import ChangeFeed
from omnigraph.pipeline.datasource.errors import told_to_spark
from omnigraph.pipeline.datasource.graph import open_source_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit

    from omnigraph.graph.changes.entity_change import EntityChange, Image
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.pipeline.datasource.options import StreamOptions

_FIELDS: Final[Sequence[pa.Field[Any]]] = [  # Any: of several types
    pa.field("graph_commit_id", pa.string(), nullable=False),
    pa.field("seq", pa.int64(), nullable=False),
    *(pa.field(name, pa.string(), nullable=False) for name in ("op", "kind", "type", "id")),
    *(pa.field(name, pa.string()) for name in ("src", "dst", "before", "after")),
]
CHANGE_COLUMNS: Final = pa.schema(_FIELDS)
"""A row is one change of one entity; `seq` is the number of its commit."""

_CURSOR: Final = "cursor"
_TASKS: Final = 256
"""Into how many tasks the commits of a batch are cut at most."""
_ROWS: Final = 2_048
"""Of one piece of a task's answer."""
_ENCODER: Final = msgspec.json.Encoder()


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tells Spark how far the branch is, and reads the changes between two cursors."""

    def __init__(self, options: StreamOptions) -> None:
        with open_source_graph(options.graph, options.storage) as graph:
            # A relative path may mean another folder in a task.
            self._options = replace(options, graph=str(graph.storage.location))
            feed = ChangeFeed(graph, options.branch, options.wanted)
            self._first = feed.first_cursor(cursor=options.cursor, start=options.start)
        self._last: str | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """Where a stream without a checkpoint begins."""
        return {_CURSOR: self._first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a batch has at most; to Spark, commits are files."""
        most = self._options.most_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End at the head as it is now."""
        self._last = self.reportLatestOffset()[_CURSOR]

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """The head of the branch."""
        return {_CURSOR: self._ahead(self._first, None)}

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802 - Spark's name
        """How far the next batch goes; the start, if there is nothing new."""
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return {_CURSOR: self._ahead(start[_CURSOR], most)}

    def _ahead(self, cursor: str, most: int | None) -> str:
        with told_to_spark(), self._feed() as feed:
            return feed.cursor_ahead(cursor, most, until=self._last)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The commits of a batch in stretches."""
        with told_to_spark(), self._feed() as feed:
            stretches = feed.stretches(start[_CURSOR], end[_CURSOR], _TASKS)
        return [InputPartition(stretch) for stretch in stretches]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The changes of one stretch; runs on an executor."""
        with told_to_spark(), self._feed() as feed:
            rows = (
                _row(commit, change)
                for commit, changes in feed.commits(*partition.value)
                for change in changes
            )
            while some := list(islice(rows, _ROWS)):
                yield pa.RecordBatch.from_pylist(some, schema=CHANGE_COLUMNS)

    @contextmanager
    def _feed(self) -> Iterator[ChangeFeed]:
        options = self._options
        with open_source_graph(options.graph, options.storage) as graph:
            yield ChangeFeed(graph, options.branch, options.wanted)


def _row(commit: CommitRow, change: EntityChange) -> dict[str, str | int | None]:
    image = change.after or change.before
    src, dst = (None, None) if image is None or image.endpoints is None else image.endpoints
    return {
        "graph_commit_id": commit.commit_id,
        "seq": commit.seq,
        "op": change.op.value,
        "kind": change.kind.value,
        "type": change.type_name,
        "id": change.id,
        "src": src,
        "dst": dst,
        "before": _text(change.before),
        "after": _text(change.after),
    }


def _text(image: Image | None) -> str | None:
    return None if image is None else _ENCODER.encode(image.properties).decode()
