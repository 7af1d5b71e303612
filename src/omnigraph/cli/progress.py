"""How far long work is, for whoever looks at standard error.

A terminal sees one line, after a second, which is wiped when the work ends, so that it never mixes
with what is written before or after it. Elsewhere an event is logged every ten seconds. Where
nobody wants either, nothing happens.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from omnigraph.cli.output import ColorMode
from omnigraph.cli.stage_text import StageText
from omnigraph.clock import SystemClock
from omnigraph.errors import Cancelled
from omnigraph.graph.jobs.stage_progress import StageProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from rich.progress import Progress, TaskID

    from omnigraph.cli.output import Output
    from omnigraph.clock import Clock

log = logging.getLogger(__name__)

DELAY_S: Final = 1.0
LOG_EVERY_S: Final = 10.0


class ProgressLine:
    """Shows one stage of the work at a time; a context manager."""

    def __init__(
        self,
        output: Output,
        stages: Mapping[str, str],
        *,
        unit: str = "tasks",
        delay_s: float = DELAY_S,
        log_every_s: float = LOG_EVERY_S,
        clock: Clock | None = None,
    ) -> None:
        self._stages = stages
        self._delay_s = delay_s
        self._log_every_s = log_every_s
        self._clock = clock or SystemClock()
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_wanted = output.shows_progress and is_terminal
        self._is_logged = output.shows_progress and not is_terminal
        self._has_color = output.allows_color and output.color is not ColorMode.NEVER
        self._lock = threading.Lock()
        self._began_us = self._clock.monotonic_us()
        self._text = StageText(
            StageProgress(stage="opening the graph"), name="opening the graph", unit=unit
        )
        self._ended = threading.Event()
        self._timer: threading.Timer | None = None
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        if self._is_wanted:
            self._timer = threading.Timer(self._delay_s, self._show)
            self._timer.daemon = True
            self._timer.start()
        elif self._is_logged:
            threading.Thread(target=self._log, name="omnigraph-progress", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_wanted = False
            if self._shown is not None:
                self._shown[0].stop()

    @property
    def doing(self) -> str:
        """What the work is at, in words: `reading the input: 3 of 24 tasks`."""
        return self._text.doing

    @property
    def text(self) -> str:
        """The line: what the work is at, and how fast."""
        return self._text.line

    @property
    def fields(self) -> dict[str, object]:
        """The same for programs; what is not known is left out."""
        elapsed_us = self._clock.monotonic_us() - self._began_us
        return {**self._text.fields, "elapsed_s": round(elapsed_us / 1_000_000)}

    def enter(self, stage: str) -> None:
        """A stage begins that nobody counts."""
        self.follow(StageProgress(stage=stage))

    def follow(self, progress: StageProgress) -> None:
        """How much of a stage is done."""
        with self._lock:
            now_us = self._clock.monotonic_us()
            name = self._stages.get(progress.stage, progress.stage)
            self._text = self._text.after(progress, name=name, now_us=now_us)
            if self._shown is not None:
                line, task = self._shown
                line.update(task, description=self._text.line)

    def _log(self) -> None:
        while not self._ended.wait(self._log_every_s):
            log.info("progress", extra=self.fields)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if not self._is_wanted:
                return
            line = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True, no_color=not self._has_color, highlight=False),
                transient=True,
                redirect_stdout=False,
            )
            self._shown = line, line.add_task(self._text.line)
            line.start()


@contextmanager
def telling_interrupts(line: ProgressLine, outcome: str) -> Iterator[None]:
    """Make an interrupt say what was going on, what was cancelled and removed, and the outcome.

    Raises:
        Cancelled: Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        done: list[str] = getattr(error, "__notes__", [])
        raise Cancelled("; ".join([f"interrupted while {line.doing}", *done, outcome])) from None
