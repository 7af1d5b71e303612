"""What a command that fails on Spark shows, with a Java of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.conftest import ENVIRON

from omnigraph import Graph

PROGRAM = Path(sys.executable).with_name("omnigraph")
FILE = """
version: 1
name: people
graph: people.omni
mode: append
sources: {people: {format: csv, path: people.csv}}
nodes:
  - {type: Person, from: people, columns: {name: name, age: {expr: "cast(age as int)"}}}
"""


@pytest.mark.extended
def test_a_failed_task_shows_no_stack_of_java_and_names_the_log_that_has_it(tmp_path: Path) -> None:
    Graph.init(
        tmp_path / "people.omni", schema="node Person { name: String @key age: I32? }"
    ).close()
    (tmp_path / "people.csv").write_text("name,age\nada,36\nbob,old\n")
    (tmp_path / "people.yaml").write_text(FILE)
    # The log is set up by the command alone.
    conf = ENVIRON["OMNIGRAPH_SPARK_CONF"].replace("spark.log.level=OFF;", "")
    ended = subprocess.run(
        [PROGRAM, "run", "people.yaml", "--quiet"],
        env={
            **os.environ,
            **ENVIRON,
            "OMNIGRAPH_SPARK_CONF": conf,
            "OMNIGRAPH_HOME": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
    )
    assert ended.returncode == 1
    *_, error, named = ended.stderr.splitlines()
    assert error.startswith("error: source 'people' cannot be read: ")
    assert "\tat " not in ended.stderr
    assert "ERROR" not in ended.stderr
    (log,) = (tmp_path / "logs").iterdir()
    assert named == f"  what Spark logged is in {log}"
    assert "\tat org.apache.spark" in log.read_text()
