"""`omnigraph export`: the records of a branch on standard output, or in files."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pytest
from tests.unit.cli.exported_graph import ALL, make_people

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("graphs") / "people.omni")


def test_records_go_to_standard_output_and_nothing_else(call: Door, people: Path) -> None:
    result = call("export", people)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ALL


def test_the_bytes_are_those_of_the_python_api(people: Path, tmp_path: Path) -> None:
    with Graph.open(people, mode="read_only") as graph:
        expected = b"".join(graph.export())
    latin = {"HOME": str(tmp_path), "PYTHONIOENCODING": "latin-1"}
    result = subprocess.run([PROGRAM, "export", people], capture_output=True, env=latin, check=True)
    assert result.stdout == expected


@pytest.mark.parametrize("extra", [[], ["--json"], ["--jsonl"]])
@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--type", "Person"], ALL[1:3]),
        (["--type", "Link"], [ALL[0], ALL[3]]),
        (["--type", "edge:Link", "--type", "node:Link"], [ALL[0], ALL[3]]),
        (["--branch", "draft"], [ALL[0], ALL[2]]),
        (["--branch", "draft", "--type", "edge:Link"], []),
    ],
)
def test_types_and_a_branch_choose_what_is_printed(
    call: Door, people: Path, words: list[str], lines: list[str], extra: list[str]
) -> None:
    result = call("export", people, *words, *extra)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == lines


def test_the_graph_may_be_a_store(call: Door, people: Path) -> None:
    assert call("--store", people, "export").stdout.splitlines() == ALL


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--type", "Persom"], 1, "invalid_argument"),
        (["--branch", "nope"], 1, "branch_not_found"),
        (["--snapshot", "x"], 1, "commit_not_found"),
        (["--snapshot", "x", "--branch", "main"], 2, "usage"),
        (["--as", "ann"], 2, "usage"),
    ],
)
def test_what_is_refused_prints_no_record(
    call: Door, people: Path, words: list[str], code: int, reason: str
) -> None:
    result = call("export", people, *words, "--json")
    assert (result.returncode, result.stdout) == (code, "")
    assert json.loads(result.stderr)["reason"] == reason


def test_an_unknown_type_is_told_with_the_nearest_one(call: Door, people: Path) -> None:
    result = call("export", people, "--type", "Persom")
    assert result.returncode == 1
    assert "did you mean Person?" in result.stderr


@pytest.mark.extended
def test_a_closed_pipe_ends_an_export_quietly_with_0(tmp_path: Path) -> None:
    path = tmp_path / "many.omni"
    with Graph.init(path, schema="node N { name: String @key }") as graph, graph.write() as writer:
        writer.append("N", pa.table({"name": [f"n{number:06}" for number in range(50_000)]}))
        writer.commit()
    process = subprocess.Popen(
        [PROGRAM, "export", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"type":"N"')
    process.stdout.close()
    with process.stderr as stderr:
        said = stderr.read().splitlines()
    # A slow machine may tell that it is at work.
    complaints = [line for line in said if b"omnigraph.cli.progress" not in line]
    assert (process.wait(), complaints) == (0, [])


def test_an_export_leaves_no_trace(call: Door, people: Path) -> None:
    def listing() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in people.rglob("*")}

    before = listing()
    assert call("export", people).returncode == 0
    assert listing() == before


@pytest.mark.extended
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error(people: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [PROGRAM, "export", people],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(people.parent)},
        )
    assert result.returncode == 1
    assert "cannot write the output" in result.stderr


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "reason", "said"),
    [
        (["--format", "csv"], 2, "usage", "--format: standard output is NDJSON"),
        (["--jsonl", "--format", "csv"], 2, "usage", "--jsonl is NDJSON, and --format is csv"),
        (["--jsonl", "--format", "ndjson"], 2, "usage", "--format: standard output is NDJSON"),
        (["--out", "o", "--jsonl", "--format", "parquet"], 2, "usage", "--format is parquet"),
        (["--out", "full", "--jsonl"], 1, "root_not_empty", "it holds it"),
        (["--spark-conf", "a=b"], 2, "usage", "give --out URI"),
        (["--engine", "spark"], 2, "usage", "--engine spark: standard output"),
        (["--out", "o", "--engine", "local"], 2, "usage", "--out is written on Spark"),
        (["--out", "o", "--format", "xml"], 2, "usage", "ndjson"),
        (["--out", "o", "--type", "Persom"], 1, "invalid_argument", "did you mean Person?"),
        (["--out", "o", "--branch", "nope"], 1, "branch_not_found", "nope"),
        (["--out", "ftp://x/y"], 1, "invalid_argument", "ftp://"),
        (["--out", "full"], 1, "root_not_empty", "it holds it; name an empty or a new folder"),
    ],
)
def test_what_is_refused_starts_no_spark(
    call: Door,
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    reason: str,
    said: str,
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "it").write_text("x")
    monkeypatch.chdir(tmp_path)
    # Without Java any start of Spark would be refused in its own words.
    result = call("export", people, *words, "--json", environ={"JAVA_HOME": "/nowhere"})
    assert (result.returncode, result.stdout) == (code, "")
    told = json.loads(result.stderr)
    assert told["reason"] == reason
    assert said in told["error"]
    assert not (tmp_path / "o").exists()
