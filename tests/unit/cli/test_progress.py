"""The progress line: for whoever watches a terminal, when it takes long, and gone afterwards."""

import io
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.cli.output import ColorMode, Output
from omnigraph.cli.progress import ProgressLine

PROGRAM = Path(sys.executable).with_name("omnigraph")
SLOW = """
import sys, threading
from omnigraph.cli.output import Output
from omnigraph.cli.progress import ProgressLine

output = Output(shows_progress=sys.argv[1] == "shown")
with ProgressLine(output, {"build": "building"}, unit="tables", delay_s=0) as line:
    line.tell("build", 1, 3)
    if line._timer is not None:
        line._timer.join()
    line.tell("build", 2, 3)
    if line._shown is not None:
        line._shown[0].refresh()
print("done")
"""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(*command: str | Path) -> str:
    """What a program writes to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    while chunk := _read(ours):
        seen += chunk
    process.communicate()
    os.close(ours)
    assert process.returncode == 0, seen
    return seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # How a terminal says that the other end is closed.
        return b""


def test_a_terminal_sees_the_stage_and_the_tables_and_then_an_empty_line() -> None:
    seen = on_terminal(sys.executable, "-c", SLOW, "shown")
    assert "building: 2 of 3 tables" in seen
    assert seen.rstrip().endswith("\x1b[2K")


def test_nobody_who_did_not_ask_sees_it() -> None:
    assert on_terminal(sys.executable, "-c", SLOW, "hidden") == ""


def test_a_pipe_sees_nothing_of_what_is_over_soon() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW, "shown"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_command_shows_none_if_told_so(graph: Path) -> None:
    echo = f"omnigraph ensure-indices → {graph} (direct, local)"
    assert on_terminal(PROGRAM, "ensure-indices", graph, "--no-progress").strip() == echo
    assert on_terminal(PROGRAM, "ensure-indices", graph, "--quiet") == ""


def test_it_says_something_before_the_first_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine(Output(), {}, unit="rows", delay_s=0) as line:
        assert line._timer is not None
        line._timer.join()
    assert "opening the graph" in terminal.getvalue()


def test_an_unknown_stage_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    output = Output(color=ColorMode.NEVER)
    with ProgressLine(output, {}, unit="rows", delay_s=0) as line:
        assert line._timer is not None
        line._timer.join()
        line.tell("count", 5, 9)
        assert line._shown is not None
        line._shown[0].refresh()
    assert "count: 5 of 9 rows" in terminal.getvalue()


def test_it_never_appears_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = ProgressLine(Output(), {}, unit="rows", delay_s=60)
    with line:
        line.tell("count", 1, 2)
    line._show()
    assert terminal.getvalue() == ""


def test_a_stage_that_nobody_counts_is_shown_without_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    output = Output(color=ColorMode.NEVER)
    with ProgressLine(output, {"check": "checking"}, delay_s=0) as line:
        assert line._timer is not None
        line._timer.join()
        line.enter("check")
        assert line._shown is not None
        line._shown[0].refresh()
    assert "checking" in terminal.getvalue()
    assert " of " not in terminal.getvalue()


class Heard(logging.Handler):
    """Keeps the first event and tells that it came."""

    def __init__(self) -> None:
        super().__init__()
        self.first: logging.LogRecord | None = None
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None:
            self.first = record
            self.came.set()


@pytest.fixture
def heard() -> Iterator[Heard]:
    logger = logging.getLogger("omnigraph.cli.progress")
    handler, level = Heard(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_an_event_is_logged_where_there_is_no_terminal(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    line = ProgressLine(Output(), {"intake": "reading"}, unit="tasks", log_every_s=0.02)
    line.tell("intake", 3, 24)
    with line:
        assert heard.came.wait(timeout=30)
    assert heard.first is not None
    assert heard.first.message == "progress"
    assert vars(heard.first)["doing"] == "reading: 3 of 24 tasks"


def test_no_event_is_logged_if_nobody_wants_it(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = threading.active_count()
    with ProgressLine(Output(shows_progress=False), {}, log_every_s=0.01):
        assert threading.active_count() == before
    assert heard.first is None
