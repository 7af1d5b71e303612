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
from omnigraph.cli.progress import ProgressLine, telling_interrupts
from omnigraph.cli.stage_text import format_bytes
from omnigraph.clock import ManualClock
from omnigraph.errors import Cancelled
from omnigraph.graph.jobs.stage_progress import StageProgress

PROGRAM = Path(sys.executable).with_name("omnigraph")
SLOW = """
import sys, threading
from omnigraph.cli.output import Output
from omnigraph.cli.progress import ProgressLine
from omnigraph.graph.jobs.stage_progress import StageProgress

output = Output(shows_progress=sys.argv[1] == "shown")
with ProgressLine(output, {"build": "building"}, unit="tables", delay_s=0) as line:
    line.follow(StageProgress(stage="build", done=1, total=3))
    if line._timer is not None:
        line._timer.join()
    line.follow(StageProgress(stage="build", done=2, total=3))
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
    while chunk := read_terminal(ours):
        seen += chunk
    process.communicate()
    os.close(ours)
    assert process.returncode == 0, seen
    return seen.decode()


def read_terminal(terminal: int) -> bytes:
    """What came since the last time; nothing once the other end is closed."""
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
    shown = on_terminal(PROGRAM, "ensure-indices", graph, "--no-progress").splitlines()
    assert shown[0] == echo
    assert [line.split(":")[0] for line in shown[1:]] == ["engine local"]


@pytest.mark.extended
def test_a_quiet_command_shows_none(graph: Path) -> None:
    assert on_terminal(PROGRAM, "ensure-indices", graph, "--quiet") == ""


def test_it_says_something_before_the_first_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressLine(Output(), {}, delay_s=0) as line:
        assert line._timer is not None
        line._timer.join()
    assert "opening the graph" in terminal.getvalue()


def test_an_unknown_stage_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    output = Output(color=ColorMode.NEVER)
    with ProgressLine(output, {}, delay_s=0) as line:
        assert line._timer is not None
        line._timer.join()
        line.follow(StageProgress(stage="count", done=5, total=9))
        assert line._shown is not None
        line._shown[0].refresh()
    assert "count: 5 of 9 tasks" in terminal.getvalue()


def test_it_never_appears_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = ProgressLine(Output(), {}, delay_s=60)
    with line:
        line.follow(StageProgress(stage="count", done=1, total=2))
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
    line = ProgressLine(Output(), {"intake": "reading"}, log_every_s=0.02)
    line.follow(StageProgress(stage="intake", done=3, total=24, spark_stages=1))
    with line:
        assert heard.came.wait(timeout=30)
    assert heard.first is not None
    assert heard.first.message == "progress"
    known = {"doing": "reading", "stage": "intake", "tasks_done": 3, "tasks": 24, "spark_stages": 1}
    assert known.items() <= vars(heard.first).items()


def test_no_event_is_logged_if_nobody_wants_it(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = threading.active_count()
    with ProgressLine(Output(shows_progress=False), {}, log_every_s=0.01):
        assert threading.active_count() == before
    assert heard.first is None


MIB = 1 << 20


def test_the_line_has_what_is_known_and_the_rates_over_the_stage() -> None:
    clock = ManualClock()
    line = ProgressLine(Output(), {"intake": "reading the input"}, clock=clock)
    clock.advance(ms=7_000)  # Spark started.
    line.follow(StageProgress(stage="intake", total_bytes=768 * MIB))
    assert line.text == "reading the input: 768 MiB"
    clock.advance(ms=12_000)
    line.follow(
        StageProgress(
            stage="intake",
            done=12,
            total=24,
            bytes=384 * MIB,
            total_bytes=768 * MIB,
            spark_stages=1,
        )
    )
    assert line.text == (
        "reading the input: 12 of 24 tasks, 384 of 768 MiB, 32 MiB/s, 1 Spark stage"
    )
    assert line.doing == "reading the input: 12 of 24 tasks, 384 of 768 MiB"
    clock.advance(ms=12_000)
    line.follow(
        StageProgress(
            stage="intake", done=24, total=24, rows=2_400_000, bytes=768 * MIB, spark_stages=0
        )
    )
    assert line.text == (
        "reading the input: 24 of 24 tasks, 2,400,000 rows, 768 MiB, 100,000 rows/s, 32 MiB/s"
    )
    assert line.fields == {
        "doing": "reading the input",
        "stage": "intake",
        "tasks_done": 24,
        "tasks": 24,
        "rows": 2_400_000,
        "rows_per_s": 100_000,
        "bytes": 768 * MIB,
        "bytes_per_s": 32 * MIB,
        "spark_stages": 0,
        "elapsed_s": 31,
    }


def test_a_stage_that_knows_its_rows_and_not_how_many_are_done_shows_no_rate() -> None:
    clock = ManualClock()
    line = ProgressLine(Output(), {}, clock=clock)
    line.enter("check")
    clock.advance(ms=4_000)
    line.follow(StageProgress(stage="check", done=3, total=8, total_rows=1_000, spark_stages=2))
    assert line.text == "check: 3 of 8 tasks, 1,000 rows, 2 Spark stages"
    assert "rows_per_s" not in line.fields


def test_rates_begin_anew_with_each_stage() -> None:
    clock = ManualClock()
    line = ProgressLine(Output(), {}, clock=clock)
    line.enter("sort")
    clock.advance(ms=10_000)
    line.follow(StageProgress(stage="write", rows=0, total_rows=500))
    assert line.text == "write: 0 of 500 rows"
    clock.advance(ms=2_000)
    line.follow(StageProgress(stage="write", rows=200, total_rows=500))
    assert line.text == "write: 200 of 500 rows, 100 rows/s"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (MIB, "1 MiB"),
        (150 * MIB + MIB // 2, "150 MiB"),
        (5 << 40, "5 TiB"),
        (5 << 52, "20480 TiB"),
    ],
)
def test_sizes_are_written_for_people(size: int, said: str) -> None:
    assert format_bytes(size) == said


def test_a_unit_is_written_once_if_both_numbers_have_it() -> None:
    line = ProgressLine(Output(), {})
    line.follow(StageProgress(stage="read", rows=1, bytes=512, total_bytes=3 * MIB))
    assert line.text.startswith("read: 1 row, 512 B of 3 MiB")
    line.follow(StageProgress(stage="read", bytes=MIB, total_bytes=3 * MIB))
    assert line.text.startswith("read: 1 of 3 MiB")


def test_an_interrupt_says_what_was_going_on_and_what_was_undone() -> None:
    line = ProgressLine(Output(), {"intake": "reading"})
    line.follow(StageProgress(stage="intake", done=3, total=24))
    pressed = KeyboardInterrupt()
    pressed.add_note("the Spark jobs omnigraph-intake-1 were cancelled")
    with (
        pytest.raises(Cancelled) as caught,
        telling_interrupts(line, "the graph is as before"),
    ):
        raise pressed
    assert caught.value.message == (
        "interrupted while reading: 3 of 24 tasks; the Spark jobs omnigraph-intake-1 were"
        " cancelled; the graph is as before"
    )
