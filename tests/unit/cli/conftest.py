"""Two doors to the command line: `call` inside this process, `start` as the installed program."""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.canaries import secrets_of

from omnigraph import Graph
from omnigraph.cli.main import main

Result = subprocess.CompletedProcess[str]
OURS = ("OMNIGRAPH_", "AWS_", "NO_COLOR")


def clean_environ(**extra: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return inherited | {"COLUMNS": "100"} | extra


def _discreet(result: Result, environ: Mapping[str, str]) -> Result:
    """The result of a command, which shows none of the secrets that its environment has."""
    shown = result.stdout + result.stderr
    assert not [secret for secret in secrets_of(environ) if secret.strip() in shown]
    return result


@pytest.fixture(autouse=True)
def _no_session_of_other_tests(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that tests on Spark left active in this process would take every load to it."""
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setattr("omnigraph.pipeline.spark.session.find_active_session", lambda: None)


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run a command in this process: fast, with an environment and standard input of its own."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(
        *arguments: str | Path,
        environ: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
    ) -> Result:
        words = [str(argument) for argument in arguments]
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(words, {"HOME": str(tmp_path)} | dict(environ or {}))
        captured = capsys.readouterr()
        result = subprocess.CompletedProcess(words, code, captured.out, captured.err)
        return _discreet(result, environ or {})

    return run


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Result]:
    """Run the installed program as a user does."""

    def run(
        *arguments: str | Path,
        program: str = "omnigraph",
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Result:
        result = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            capture_output=True,
            text=True,
            cwd=cwd or tmp_path,
            env=clean_environ(HOME=str(tmp_path), **(environ or {})),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return _discreet(result, environ or {})

    return run


SCHEMA = "node Person {\n  name: String @key\n  age: I32?\n}\n"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.pg"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def _empty_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "people.omni"
    Graph.init(path, schema=SCHEMA, actor="act-maker").close()
    return path


@pytest.fixture
def graph(tmp_path: Path, _empty_graph: Path) -> Path:
    """A graph of people without any, at `people.omni` in the folder of the test."""
    return Path(shutil.copytree(_empty_graph, tmp_path / "people.omni"))


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.gq"
    path.write_text("query all() { match { $p: Person } return { $p.name } }\n", encoding="utf-8")
    return path
