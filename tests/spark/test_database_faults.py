"""Faults of real database drivers are told apart, without a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.derby_tables import DRIVER, protect

from omnigraph import Graph
from omnigraph.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

HIVE = "org.apache.hive.jdbc.HiveDriver"
FEED = """
version: 1
name: feed
mode: append
sources:
  events:
    format: jdbc
    options:
      {{url: "{url}", dbtable: EVENTS, driver: {driver}, user: ann, password: "${{PASSWORD}}"}}
nodes:
  - {{type: Event, from: events, columns: {{name: NAME}}}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema="node Event { name: String @key }") as opened:
        yield opened


@pytest.mark.parametrize(
    ("url", "driver", "fault"),
    [
        ("jdbc:hive2://localhost:1/hidden", HIVE, "port"),
        ("jdbc:hive2://no.such.host.invalid:10000/hidden", HIVE, "host"),
        ("jdbc:derby:FOLDER/hidden", DRIVER, "database"),
        ("jdbc:derby:FOLDER/db", DRIVER, "password"),
    ],
)
def test_faults_of_a_database_are_told_apart(
    tmp_path: Path,
    graph: Graph,
    session: PipelineSession,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    driver: str,
    fault: str,
) -> None:
    if fault == "password":
        protect(session.spark, tmp_path, "ann", "right-hidden")
    monkeypatch.setenv("PASSWORD", "wrong-hidden")
    file = tmp_path / "feed.yaml"
    file.write_text(FEED.format(url=url.replace("FOLDER", str(tmp_path)), driver=driver))
    with pytest.raises(SourceError) as told:
        graph.pipeline(session.spark).run(file)
    assert told.value.details["fault"] == fault
    assert "hidden" not in f"{told.value.message}{told.value.details}"
