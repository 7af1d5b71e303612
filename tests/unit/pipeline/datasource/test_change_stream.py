"""Where a stream of changes begins, and what it refuses; Spark is not needed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.unit.graph.graphs import quick

from omnigraph import Graph
from omnigraph.pipeline.datasource.change_stream import ChangeStreamReader
from omnigraph.pipeline.datasource.errors import DataSourceFailed
from omnigraph.pipeline.datasource.source import OmnigraphDataSource

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "node Person { name: String @key }"


def reader_of(path: Path, **options: str) -> ChangeStreamReader:
    source = OmnigraphDataSource({"graph": str(path), **options})
    names = {"start": "now"}
    reader = source.streamReader(OmnigraphDataSource({"graph": str(path), **names}).schema())
    assert isinstance(reader, ChangeStreamReader)
    return reader


def add(graph: Graph, name: str) -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}')


def ids(reader: ChangeStreamReader) -> list[str]:
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [row["id"] for batch in batches for row in batch.to_pylist()]


def test_a_stream_goes_on_from_the_cursor_of_a_feed_and_of_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "g"
    with Graph.init(path, schema=SCHEMA, settings=quick()) as graph:
        add(graph, "ann")
        stream = graph.changes.baseline(types=["Person"])
        list(stream)
        assert stream.baseline is not None
        cursor = stream.baseline.resume_cursor
        from_now = reader_of(path, start="now")
        for name in ("bob", "cy"):
            add(graph, name)
        assert ids(reader_of(path, cursor=cursor, types="Person")) == ["bob", "cy"]
        assert ids(from_now) == ["bob", "cy"]
        assert ids(reader_of(path, start="after:2")) == ["cy"]
        assert ids(reader_of(path, start="beginning", ops="delete")) == []
        with pytest.raises(DataSourceFailed, match="change_cursor_rejected"):
            reader_of(path, cursor=cursor)
        with pytest.raises(DataSourceFailed, match=r"invalid_argument.*Persn"):
            reader_of(path, start="now", types="Persn")
        with pytest.raises(DataSourceFailed, match="branch_not_found"):
            reader_of(path, start="now", branch="nope")


def test_available_now_ends_at_the_head_of_that_moment(tmp_path: Path) -> None:
    path = tmp_path / "g"
    with Graph.init(path, schema=SCHEMA, settings=quick()) as graph:
        add(graph, "ann")
        reader = reader_of(path, start="beginning")
        reader.prepareForTriggerAvailableNow()
        add(graph, "bob")
        assert ids(reader) == ["ann"]
        assert ids(reader_of(path, start="beginning")) == ["ann", "bob"]
