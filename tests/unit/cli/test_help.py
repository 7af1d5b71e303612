"""Help of every command: one sentence, one example that works, and a stored text.

Write the stored texts anew with `UPDATE_GOLDEN=1 pytest tests/unit/cli/test_help.py`.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.help_examples import ELSEWHERE, ROOT, require_example
from typer.core import TyperGroup
from typer.main import get_command

import omnigraph
from omnigraph import Graph
from omnigraph.cli.main import app

Door = Callable[..., CompletedProcess[str]]
GOLDEN = Path(__file__).parent / "golden"


def walk(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(group, TyperGroup):
        for name, command in group.commands.items():
            yield from walk(command, (*path, name))


COMMANDS = list(walk(get_command(app)))
GROUPS = {path[:-1] for path in COMMANDS if path}
NAMES = ["-".join(("omnigraph", *path)).replace(" ", "-") for path in COMMANDS]


def compare(text: str, name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "name"), list(zip(COMMANDS, NAMES, strict=True)), ids=NAMES)
def test_help_is_the_stored_text(call: Door, path: tuple[str, ...], name: str) -> None:
    result = call(*path, "--help")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    compare(result.stdout, name)


def test_help_of_the_server_is_the_stored_text(start: Door) -> None:
    result = start("--help", program="omnigraph-server")
    assert (result.returncode, result.stderr) == (0, "")
    compare(result.stdout, "omnigraph-server")


def test_every_command_that_a_message_sends_people_to_exists() -> None:
    source = Path(omnigraph.__file__).parent
    named = {
        name: path.name
        for path in source.rglob("*.py")
        for name in re.findall(r"`omnigraph ([a-z][a-z-]*)", path.read_text(encoding="utf-8"))
    }
    known = {path[0] for path in COMMANDS if path}
    assert {name: path for name, path in named.items() if name not in known} == {}


def test_no_text_is_stored_for_a_command_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {*NAMES, "omnigraph-server"}


PLAYED = ("init", "query", "load", "branch", "schema", "doctor", "version")
"""Whose examples the default suite plays."""


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of the examples, with the branch of the second one."""
    path = tmp_path_factory.mktemp("graphs") / "papers.omni"
    schema = (ROOT / "examples/papers/schema.pg").read_text(encoding="utf-8")
    with Graph.init(path, schema=schema) as graph:
        graph.branches.create("draft")
    return path


@pytest.mark.parametrize(
    "path",
    [
        # The example of `commit show` asks the program for an id, and a shell starts it twice.
        pytest.param(path, marks=[pytest.mark.extended] if path[0] not in PLAYED else [])
        for path in COMMANDS
        if path not in GROUPS and path not in ELSEWHERE
    ],
)
def test_help_starts_with_one_sentence_and_an_example_that_works(
    call: Door,
    path: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drafted: Path,
) -> None:
    require_example(call, path, tmp_path, monkeypatch, drafted)


def test_no_command_at_all_shows_the_help(call: Door) -> None:
    assert call().stdout == call("--help").stdout == call("-h").stdout


def test_help_works_with_broken_settings(call: Door) -> None:
    result = call("lint", "--help", environ={"OMNIGRAPH_LEASE_TTL_MS": "soon"})
    assert (result.returncode, result.stderr) == (0, "")
