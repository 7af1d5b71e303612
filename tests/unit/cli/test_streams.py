"""How the program ends when its streams or its user go away: always as a real process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.process_sessions import wait_until_it_sleeps

Door = Callable[..., CompletedProcess[str]]
PROGRAM = Path(sys.executable).with_name("omnigraph")


@pytest.fixture
def closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("words", [["version"], ["version", "--json"], ["--help"], ["doctor"]])
def test_a_closed_pipe_ends_quietly_with_0(closed_pipe: int, words: list[str]) -> None:
    result = subprocess.run(
        [PROGRAM, *words], stdout=closed_pipe, stderr=subprocess.PIPE, check=False
    )
    os.close(closed_pipe)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.extended
def test_a_closed_pipe_ends_a_command_on_a_graph_quietly_with_0(
    closed_pipe: int, graph: Path
) -> None:
    result = subprocess.run(
        [PROGRAM, "snapshot", graph], stdout=closed_pipe, stderr=subprocess.PIPE, check=False
    )
    os.close(closed_pipe)
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_error_that_nobody_can_read_keeps_its_exit_code(closed_pipe: int) -> None:
    result = subprocess.run(
        [PROGRAM, "lint"], stdout=subprocess.PIPE, stderr=closed_pipe, check=False
    )
    os.close(closed_pipe)
    assert (result.returncode, result.stdout) == (2, b"")


@pytest.mark.parametrize("words", [["version"], ["version", "--json"], ["--help"]])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_and_no_traceback(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert "cannot write the output" in result.stderr


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_an_interrupt_ends_with_130(tmp_path: Path, extra: list[str]) -> None:
    fifo = tmp_path / "schema.pg"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [PROGRAM, "lint", "--schema", fifo, "--query", "q.gq", *extra],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with fifo.open("wb"):  # returns when the program opens the schema, and keeps it waiting
        wait_until_it_sleeps(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    expected = '{"error": "interrupted", "reason": "cancelled"}' if extra else "error: interrupted"
    assert err == f"{expected}\n"


def test_text_that_the_locale_cannot_spell_is_escaped(start: Door) -> None:
    latin = {"PYTHONIOENCODING": "latin-1"}
    words = ("lint", "--schema", "/dev/null", "--query", "a→b.gq")
    assert "a\\u2192b.gq" in start(*words, environ=latin).stderr
    assert "a→b.gq" in start(*words, "--json", environ=latin).stderr
