"""Ctrl-C while Spark takes rows in: nothing is committed, and no process stays."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import Graph

PROGRAM = Path(sys.executable).with_name("omnigraph")
SCHEMA = "node Person { name: String @key  note: String }"
LINES = 120_000
OURS = (
    "omnigraph load → ",
    "engine spark: a folder",
    "INFO omnigraph.cli.progress ",
    "error: ",
    "operation ",
)

pytestmark = pytest.mark.timeout(400)


def write_people(folder: Path) -> None:
    folder.mkdir()
    with (folder / "people.jsonl").open("w") as file:
        for number in range(LINES):
            file.write(
                f'{{"type": "Person", "data": {{"name": "p{number}", "note": "{number:0200}"}}}}\n'
            )


def wait_for_staged_file(people: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a task has written a part of its rows; many tasks are left then."""
    before = set(people.rglob("*.lance"))
    while not set(people.rglob("*.lance")) - before:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
            pytest.fail(f"it ended first: {process.communicate()}")


@pytest.mark.extended
def test_an_interrupt_during_intake_ends_with_130_and_commits_nothing(tmp_path: Path) -> None:
    people = tmp_path / "people.omni"
    with Graph.init(people, schema=SCHEMA) as graph:
        before = graph.snapshot().graph_commit_id
    write_people(tmp_path / "in")
    process = subprocess.Popen(
        [PROGRAM, "load", people, "--data", tmp_path / "in", "--mode", "append"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # As a terminal does: the signal reaches Java and the workers too.
        start_new_session=True,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "OMNIGRAPH_SPARK_MASTER": "local[1,4]",
            "OMNIGRAPH_SPARK_CONF": "spark.driver.memory=1g;spark.driver.host=127.0.0.1"
            ";spark.driver.bindAddress=127.0.0.1",
            "OMNIGRAPH_PIPELINE_SPLIT_BYTES": "1MiB",
        },
    )
    wait_for_staged_file(people, process)
    os.killpg(process.pid, signal.SIGINT)
    # Java and the workers hold these streams too: it returns when all of them are gone.
    out, error = process.communicate()
    assert (process.returncode, out) == (130, b""), error
    said = error.decode()
    assert "error: interrupted while reading the input" in said
    assert re.search(r"; the Spark jobs omnigraph-intake-\w+ were cancelled; ", said), said
    lines = [line for line in error.decode().splitlines() if not line.startswith(OURS)]
    # Java itself tells of the modules that it was started with.
    assert all("incubator modules" in line for line in lines), lines
    assert [each for each in (people / "__staging").rglob("*") if each.is_file()] == []
    with Graph.open(people) as graph:
        assert graph.snapshot().graph_commit_id == before
        assert graph.maintenance.recoveries() == []
        line = b'{"type": "Person", "data": {"name": "p0", "note": ""}}'
        assert graph.load(line, mode="append").commit is not None
