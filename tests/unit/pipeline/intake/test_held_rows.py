"""Rows that wait to be written are bounded over all types of a part; runs without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.load_jobs import spark_load

from omnigraph import Graph
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import MAIN_BRANCH
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

TYPES = ("A", "B", "C")
SETTINGS = replace(Settings(), pipeline=replace(Settings().pipeline, batch_bytes=4_096))


@pytest.mark.parametrize(("held_bytes", "files"), [(1 << 30, {1}), (2_000, set(range(2, 12)))])
def test_the_largest_type_is_written_when_all_together_hold_much(
    tmp_path: Path, held_bytes: int, files: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.pipeline.intake.row_stager._HELD_BYTES", held_bytes)
    monkeypatch.setattr("omnigraph.pipeline.files.splits._STEP_BYTES", 4_096)
    path = tmp_path / "in.jsonl"
    path.write_text(
        "".join(
            f"{json.dumps({'type': kind, 'data': {'name': f'n{n:04}'}})}\n"
            for n in range(300)
            for kind in TYPES
        )
    )
    schema = "\n".join(f"node {kind} {{ name: String @key }}" for kind in TYPES)
    with Graph.init(tmp_path / "g", schema=schema) as graph:
        source = plan_source(SourceRequest(source=str(path)), SETTINGS)
        options = LoadRequest(mode=LoadMode.APPEND, branch=MAIN_BRANCH)
        coordinator = graph._graph
        spark_load(graph, None, SETTINGS, [source], options, external=DENY_ALL).report()
        snapshot = open_snapshot(coordinator, None, MAIN_BRANCH)
        for kind in TYPES:
            assert graph.snapshot().count(kind) == 300
            handle = snapshot.handle(snapshot.catalog.node_types[kind])
            assert len(coordinator.tables.fragments(handle)) in files
