"""The stream of changes that Spark reads, in batches of any size, leads to what the branch shows.

Seeded histories on several branches. What Spark does is played: it asks how far a batch goes, keeps
the offsets as text, has tasks read the batch, and after a failure asks a new reader for the same
batch again.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.property.entity_histories import SCHEMA, exported
from tests.property.test_feeds import FeedHistory
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.graph.changes.entity_change import Image
from omnigraph.pipeline.datasource import change_stream
from omnigraph.pipeline.datasource.change_stream import CHANGE_COLUMNS, ChangeStreamReader
from omnigraph.pipeline.datasource.source import OmnigraphDataSource

if TYPE_CHECKING:
    from pathlib import Path

    from tests.property.entity_histories import State

_SPARK_COLUMNS = from_arrow_schema(CHANGE_COLUMNS, prefer_timestamp_ntz=False)


@dataclass(kw_only=True)
class Stream:
    """A query of Spark over the changes of one branch, and the copy that it keeps."""

    path: str
    branch: str
    rng: Random
    checkpoint: str | None = None
    state: State = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def catch_up(self) -> None:
        """Run the query until nothing is new; batches may fail, and the query start anew."""
        while not self._run():
            pass

    def _run(self) -> bool:
        most = self.rng.choice((1, 2, 5, 100, None))
        limited = {} if most is None else {"maxCommitsPerTrigger": str(most)}
        options = {"graph": self.path, "branch": self.branch, "start": "beginning", **limited}
        reader = OmnigraphDataSource(options).streamReader(_SPARK_COLUMNS)
        assert isinstance(reader, ChangeStreamReader)
        reader.prepareForTriggerAvailableNow()
        at = reader.initialOffset() if self.checkpoint is None else json.loads(self.checkpoint)
        limit = self.rng.choice((reader.getDefaultReadLimit(), ReadAllAvailable()))
        while (end := reader.latestOffset(at, limit)) != at:
            rows = self._read(reader, at, end)
            if self.rng.random() < 0.2:
                return False
            self._apply(rows)
            at, self.checkpoint = end, json.dumps(end)
        return True

    def _read(
        self, reader: ChangeStreamReader, start: dict[str, str], end: dict[str, str]
    ) -> list[dict[str, Any]]:
        """The rows of a batch, from tasks that end in any order."""
        parts = reader.partitions(start, end)
        self.rng.shuffle(parts)
        task: ChangeStreamReader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
        batches = [batch for part in parts for batch in task.read(part)]
        return pa.Table.from_batches(batches, schema=CHANGE_COLUMNS).to_pylist()

    def _apply(self, rows: list[dict[str, Any]]) -> None:
        rows.sort(key=lambda row: row["seq"])
        for row in rows:
            if self.told[-1:] != [row["graph_commit_id"]]:
                # Every commit comes once, and whole.
                assert row["graph_commit_id"] not in self.told
                self.told.append(row["graph_commit_id"])
            key = row["type"], row["id"]
            before = self.state.pop(key, None)
            assert (before is None) == (row["op"] == "insert") == (row["before"] is None)
            assert before is None or json.loads(row["before"]) == before.properties
            assert (row["after"] is None) == (row["op"] == "delete")
            if row["after"] is not None:
                ends = None if row["src"] is None else (row["src"], row["dst"])
                self.state[key] = Image(properties=json.loads(row["after"]), endpoints=ends)


def _play(folder: Path, seed: int, steps: int) -> None:
    with Graph.init(folder / "g", schema=SCHEMA, settings=quick()) as graph:
        rng = Random(seed)  # noqa: S311 - no secret
        history = FeedHistory(graph=graph, rng=rng)
        history.remember("main")
        streams: dict[str, Stream] = {}
        for step in range(steps):
            history.step()
            for branch in history.branches:
                made = Stream(path=str(folder / "g"), branch=branch, rng=rng)
                streams.setdefault(branch, made)
            if step % 4 == 3:
                streams[rng.choice(history.branches)].catch_up()
        for branch, stream in streams.items():
            stream.catch_up()
            assert stream.state == exported(graph, branch)
            whole = graph.changes.follow(branch=branch, start="beginning")
            assert stream.told == [each.cause.graph_commit_id for each in whole if each.changes]


@pytest.mark.parametrize("seed", [5])
def test_a_stream_leads_to_the_head(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_stream, "_TASKS", 3)
    monkeypatch.setattr(change_stream, "_ROWS", 2)
    _play(tmp_path, seed, 10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2_000, 2_020))
def test_streams_lead_to_the_head_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_stream, "_TASKS", 4)
    _play(tmp_path, seed, 30)
