"""Commands on Spark of which most tests need none: an export to files, help, warming."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.exported_graph import ALL, make_people
from tests.unit.cli.help_examples import ON_SPARK, require_example

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from omnigraph.pipeline.spark.session import PipelineSession

    Door = Callable[..., CompletedProcess[str]]

SPARK = ["--spark-master", "local[1,4]", "--spark-conf", "spark.driver.memory=1g"]


@pytest.mark.extended
def test_files_are_written_and_told(start: Door, tmp_path: Path) -> None:
    people = make_people(tmp_path / "people.omni")
    quiet = {"OMNIGRAPH_SPARK_CDS": "0"}
    result = start("export", people, "--out", "out", *SPARK, environ=quiet)
    assert result.returncode == 0, result.stderr
    content = json.loads((tmp_path / "out" / "_manifest.json").read_bytes())
    commit = content["graph_commit_id"]
    assert result.stdout.splitlines() == [
        "node:Link    1 row",
        "node:Person  2 rows",
        "edge:Link    1 row",
        f"4 rows of commit {commit} as ndjson in out",
    ]
    assert "engine spark" in result.stderr
    paths = [tmp_path / "out" / each["path"] for each in content["files"]]
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    assert lines == ALL


def test_files_of_a_branch_and_a_type_are_told_as_json(
    call: Door, tmp_path: Path, session: PipelineSession
) -> None:
    assert session.is_owned
    people = make_people(tmp_path / "people.omni")
    words = ["--format", "csv", "--branch", "draft", "--type", "Person", "--json"]
    result = call("export", people, "--out", tmp_path / "csv", *words)
    assert result.returncode == 0, result.stderr
    body = json.loads(result.stdout)
    assert (body["format"], body["branch"], body["total_entities"]) == ("csv", "draft", 1)
    assert body["report"]["mode"] == "export"
    assert body["report"]["tables"][0]["read"] == 1
    text = (tmp_path / "csv" / "part-node-Person-00000.csv").read_text("utf-8")
    assert text == "id,name,age\nZoë,Zoë,36\n"


@pytest.mark.parametrize("path", ON_SPARK)
def test_help_of_a_command_on_spark_has_an_example_that_works(
    call: Door,
    path: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    session: PipelineSession,
) -> None:
    assert session.is_owned
    require_example(call, path, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_warming_keeps_the_classes_of_a_first_job(start: Door, tmp_path: Path) -> None:
    result = start("doctor", "--warm", environ={"OMNIGRAPH_HOME": str(tmp_path / "home")})
    assert result.returncode == 0, result.stderr
    (made,) = (tmp_path / "home" / "cache").iterdir()
    assert result.stderr.splitlines()[-1] == f"class-data archive: {made}"
    assert "ok  Java" in result.stdout
