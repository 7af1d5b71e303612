"""Bad rows that are set aside in a bucket: the files of a local folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import obstore
import pytest
from tests.quarantine_inputs import SCHEMA, edge, person

from omnigraph import Graph
from omnigraph.failpoints import armed
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.s3.stand_in import StandIn

pytestmark = pytest.mark.s3


def test_rejects_and_their_mark_are_written_to_a_bucket(s3: StandIn, tmp_path: Path) -> None:
    waiting = [person("late")]

    def write() -> None:
        if waiting:  # The load of the other handle passes the same point.
            with Graph.open(tmp_path / "graph") as other:
                other.load(waiting.pop(), mode="append")

    text = person("bad", age=999) + edge("Knows", "x", "late", "fine") + person("fine")
    settings = load_settings(s3.environment())
    with (
        Graph.init(tmp_path / "graph", schema=SCHEMA, settings=settings) as graph,
        armed("load.post_stage_pre_lease", write),
    ):
        report = graph.load(
            text,
            mode="append",
            on_error="quarantine",
            rejects=s3.uri("rejects"),
            max_reject_ratio=1.0,
        )
    assert report.commit is not None
    assert report.rejects_uri == s3.uri(f"rejects/{report.operation_id}")
    store = s3.endpoint.store("rejects")
    # Only those of the attempt that was committed, in which the missing node was there.
    assert sorted(
        each["path"].rpartition("rejects/")[2] for each in obstore.list(store).collect()
    ) == [
        f"{report.operation_id}/_COMMITTED",
        f"{report.operation_id}/rejects.ndjson",
    ]
    lines = bytes(obstore.get(store, f"{report.operation_id}/rejects.ndjson").bytes()).splitlines()
    assert [json.loads(each)["line"] for each in lines] == [1]
    mark = bytes(obstore.get(store, f"{report.operation_id}/_COMMITTED").bytes())
    assert mark.decode().strip() == report.commit.graph_commit_id
