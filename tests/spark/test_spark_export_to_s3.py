"""An export of a graph in a bucket to a bucket, by the command, with executors of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
import pytest

from omnigraph import Graph
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from tests.s3.stand_in import StandIn

pytestmark = pytest.mark.s3

PROGRAM = Path(sys.executable).with_name("omnigraph")
SPARK = ["--spark-master", "local[1,4]", "--spark-conf", "spark.driver.memory=1g"]


@pytest.mark.extended
def test_files_in_a_bucket_are_those_of_the_stream(s3: StandIn, tmp_path: Path) -> None:
    schema = "node Person { name: String @key }\nedge Knows: Person -> Person"
    settings = load_settings(s3.environment())
    with Graph.init(s3.uri("g"), schema=schema, settings=settings) as graph:
        graph.mutate('query q() { insert Person { name: "b" } insert Person { name: "a" } }')
        graph.mutate('query q() { insert Knows { from: "a", to: "b" } }')
        expected = b"".join(graph.export())
    environ = {**os.environ, **s3.environment(), "HOME": str(tmp_path), "OMNIGRAPH_SPARK_CDS": "0"}
    words = ["export", s3.uri("g"), "--out", s3.uri("out"), *SPARK]
    result = subprocess.run(
        [PROGRAM, *words], env=environ, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    store = s3.endpoint.store("out")
    names = sorted(each["path"] for each in obstore.list(store).collect())
    assert names == [
        "_manifest.json",
        "part-edge-Knows-00000.ndjson",
        "part-node-Person-00000.ndjson",
    ]
    content = json.loads(bytes(obstore.get(store, "_manifest.json").bytes()))
    found = [bytes(obstore.get(store, each["path"]).bytes()) for each in content["files"]]
    assert b"".join(found) == expected
    again = subprocess.run(
        [PROGRAM, *words], env=environ, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "it holds _manifest.json; name an empty or a new folder" in again.stderr
