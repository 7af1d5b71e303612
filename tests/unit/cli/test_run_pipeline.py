"""`omnigraph run`: which graph it writes, what it prints, every way to be refused."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.pipeline_files import PIPELINE, lay_out_pipeline

Door = Callable[..., CompletedProcess[str]]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of nobody beside a pipeline with its files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return lay_out_pipeline(tmp_path)


@pytest.mark.usefixtures("people")
def test_a_file_that_names_no_graph_needs_one(call: Door) -> None:
    result = call("run", "pipeline.yaml")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: no graph is addressed; give its `graph`, --store URI, --server NAME|URL with "
        "--graph ID, --profile NAME, set defaults.store or defaults.server in the operator config, "
        "or name one as cli.graph in omnigraph.yaml\n"
    )
    Path("pipeline.yaml").write_text(f"graph: http://127.0.0.1:1\n{PIPELINE.lstrip()}")
    served = call("run", "pipeline.yaml")
    assert (served.returncode, "is a server, not storage" in served.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "'pipeline.yaml' cannot be read"),
        ("version: 1\nname: x\nmode: mrge\nsources: {}\n", "mode"),
        ("a: [", "pipeline.yaml"),
    ],
)
def test_a_wrong_file_is_told_before_anything_starts(
    call: Door, people: Path, content: str | None, found: str
) -> None:
    file = Path("pipeline.yaml")
    file.unlink()
    if content is not None:
        file.write_text(content)
    result = call("run", file, "--store", people)
    assert (result.returncode, result.stdout) == (2, "")
    assert found in result.stderr
    body = json.loads(call("run", file, "--store", people, "--json").stderr)
    assert body["reason"] == "setting_invalid"


@pytest.mark.usefixtures("people")
def test_replacing_everything_on_a_remote_target_needs_consent(call: Door) -> None:
    text = PIPELINE.replace("mode: merge", "mode: overwrite")
    # What is new cannot take the place of everything.
    text = text.replace(",\n           cursor: {column: seen, type: integer}", "")
    Path("pipeline.yaml").write_text(text)
    remote = "s3://no-such-bucket.invalid/g"
    result = call("run", "pipeline.yaml", "--store", remote, "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert "pass --yes" in json.loads(result.stderr)["error"]


@pytest.mark.usefixtures("people")
def test_a_graph_that_is_not_there_is_told_before_spark_starts(call: Door) -> None:
    result = call("run", "pipeline.yaml", "--store", "nothing.omni")
    assert result.returncode == 1
    assert "nothing.omni" in result.stderr
