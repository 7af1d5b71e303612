"""Help of every command: one sentence, one example that works, and a stored text.

Write the stored texts anew with `UPDATE_GOLDEN=1 pytest tests/unit/cli/test_help.py`.
"""

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.main import app

Door = Callable[..., CompletedProcess[str]]
GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[3]


def walk(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(group, TyperGroup):
        for name, command in group.commands.items():
            yield from walk(command, (*path, name))


COMMANDS = list(walk(get_command(app)))
GROUPS = {path[:-1] for path in COMMANDS if path}
NAMES = ["-".join(("omnigraph", *path)) for path in COMMANDS]


def compare(text: str, name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", COMMANDS, ids=NAMES)
def test_help_is_the_stored_text(call: Door, path: tuple[str, ...]) -> None:
    result = call(*path, "--help")
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    compare(result.stdout, "-".join(("omnigraph", *path)))


def test_help_of_the_server_is_the_stored_text(start: Door) -> None:
    result = start("--help", program="omnigraph-server")
    assert (result.returncode, result.stderr) == (0, "")
    compare(result.stdout, "omnigraph-server")


def test_no_text_is_stored_for_a_command_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {*NAMES, "omnigraph-server"}


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in GROUPS])
def test_help_starts_with_one_sentence_and_an_example_that_works(
    call: Door, path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, sentence, _, title, example, *_ = call(*path, "--help").stdout.splitlines()
    assert sentence.strip().endswith(".")
    assert title.strip() == "Example:"
    program, *words = shlex.split(example)
    assert program == "omnigraph"
    monkeypatch.chdir(ROOT)
    allowed = {0, 1} if words == ["doctor"] else {0}
    assert call(*words, environ=os.environ).returncode in allowed


def test_no_command_at_all_shows_the_help(call: Door) -> None:
    assert call().stdout == call("--help").stdout == call("-h").stdout


def test_help_works_with_broken_settings(call: Door) -> None:
    result = call("lint", "--help", environ={"OMNIGRAPH_LEASE_TTL_MS": "soon"})
    assert (result.returncode, result.stderr) == (0, "")
