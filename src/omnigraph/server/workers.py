"""Several processes behind one port, and the parent that keeps so many of them alive.

A worker is a stranger to the others: admission, caches and streams are its own. The parent answers
no request. It starts workers, starts one anew that died, hands on the signal to stop, and sums up
metrics. It waits for no worker alone: one that takes its time to open the graphs keeps it neither
from the others nor from the end. A worker whose parent is gone ends in order.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Final

from omnigraph.clock import SystemClock
from omnigraph.errors import InternalError, OmnigraphError
from omnigraph.server.draining_server import INTERRUPTED
from omnigraph.server.listeners import share_port
from omnigraph.server.metrics import merged
from omnigraph.server.worker import METRICS, READY, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import SpawnProcess
    from types import FrameType, TracebackType
    from typing import Self

    from omnigraph.server.plan import ServerPlan

log = logging.getLogger(__name__)

_LONGEST_PAUSE_US: Final = 5_000_000
_FIRST_PAUSE_US: Final = 100_000
_METRICS_WAIT_S: Final = 2.0


@dataclass(slots=True)
class _Worker:
    """One process, or the pause before it is started anew."""

    number: int
    process: SpawnProcess | None = None
    control: Connection | None = None
    is_ready: bool = False
    """It has said that it serves, and answers on its pipe."""
    pause_us: int = 0
    due_us: int = 0

    def hang_up(self) -> None:
        """Hear no more of it."""
        if self.control is not None:
            self.control.close()
        self.control = None
        self.is_ready = False

    def forget(self) -> None:
        """The process is gone."""
        if self.process is not None:
            self.process.join()
            self.process.close()
        self.process = None
        self.hang_up()


class Workers:
    """The workers of a server; the block ends when all of them have."""

    def __init__(self, plan: ServerPlan, held: socket.socket, count: int) -> None:
        self._plan = plan
        self._held = held
        self._clock = SystemClock()
        self._context = multiprocessing.get_context("spawn")
        self._workers = [_Worker(number) for number in range(count)]
        self._signals = 0
        self._woken, self._waker = socket.socketpair()
        self._talk = threading.Lock()
        """Held by whoever uses the pipes to the workers."""

    def __enter__(self) -> Self:
        try:
            for worker in self._workers:
                self._start(worker)
            for worker in self._workers:
                self._require_ready(worker)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def run(self) -> int:
        """Keep the workers alive until a signal, then wait for their end; the exit code."""
        with self._signals_taken():
            while not self._signals:
                self._wait(self._pause_s())
                for worker in self._workers:
                    self._look_after(worker)
            return self._drain()

    def render_metrics(self) -> str:
        """The metrics of all workers as those of one server."""
        with self._talk:
            texts = [self._ask(worker.control) for worker in self._workers if worker.is_ready]
        return merged([text for text in texts if text])

    def _ask(self, control: Connection | None) -> str:
        if control is None:
            return ""
        try:
            while control.poll():
                control.recv()  # What was asked for before, and came when nobody waited any more.
            control.send(METRICS)
            return str(control.recv()) if control.poll(_METRICS_WAIT_S) else ""
        except (OSError, EOFError):
            return ""

    def _start(self, worker: _Worker) -> None:
        ours, theirs = self._context.Pipe()
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            with theirs, contextlib.closing(share_port(self._held)) as listener:
                process = self._context.Process(
                    target=work,
                    args=(self._plan, listener, theirs),
                    name=f"omnigraph-worker-{worker.number}",
                    daemon=True,
                )
                process.start()
            unless_started.pop_all()
        worker.process, worker.control = process, ours

    def _require_ready(self, worker: _Worker) -> None:
        control = worker.control
        try:
            word = None if control is None else control.recv()
        except (EOFError, OSError):
            word = None
        if isinstance(word, OmnigraphError):
            raise word
        if word != READY:
            raise InternalError("a worker ended before it could serve; its log says why")
        worker.is_ready = True

    def _look_after(self, worker: _Worker) -> None:
        """Notice what became of a worker, and start it anew when its pause is over."""
        process = worker.process
        if process is not None and process.exitcode is not None:
            log.warning(
                "worker died",
                extra={"worker": worker.number, "pid": process.pid, "exit": process.exitcode},
            )
            with self._talk:
                worker.forget()
            self._pause(worker)
        elif worker.control is not None and not worker.is_ready and worker.control.poll():
            self._hear(worker)
        if worker.process is None and self._clock.monotonic_us() >= worker.due_us:
            self._restart(worker)

    def _pause(self, worker: _Worker) -> None:
        """Wait before it is started anew: longer each time, unless it served for a while."""
        now_us = self._clock.monotonic_us()
        has_served = now_us - worker.due_us > _LONGEST_PAUSE_US
        worker.pause_us = (
            0 if has_served else min(_LONGEST_PAUSE_US, 2 * worker.pause_us or _FIRST_PAUSE_US)
        )
        worker.due_us = now_us + worker.pause_us

    def _restart(self, worker: _Worker) -> None:
        try:
            self._start(worker)
        except (OmnigraphError, OSError) as error:
            # No memory or no socket is left for a moment: the other workers go on.
            log.error("worker cannot start", extra={"worker": worker.number, "why": str(error)})
            self._pause(worker)
        else:
            worker.due_us = self._clock.monotonic_us()

    def _hear(self, worker: _Worker) -> None:
        """The first word of a worker that was started anew: it serves, or why it cannot."""
        try:
            self._require_ready(worker)
        except OmnigraphError as error:
            # It ends by itself, and is then tried again after a pause.
            log.error("worker cannot start", extra={"code": error.code, "why": error.message})
            worker.hang_up()
            return
        pid = None if worker.process is None else worker.process.pid
        log.info("worker started", extra={"worker": worker.number, "pid": pid})

    def _pause_s(self) -> float | None:
        """How long there is nothing to do but to wait."""
        due = [worker.due_us for worker in self._workers if worker.process is None]
        if not due:
            return None
        return max(0.0, (min(due) - self._clock.monotonic_us()) / 1_000_000)

    def _wait(self, timeout_s: float | None) -> None:
        """Until a worker ends or says its first word, a signal comes, or the time is up."""
        alive = [worker.process.sentinel for worker in self._workers if worker.process]
        starting = [
            worker.control for worker in self._workers if worker.control and not worker.is_ready
        ]
        if self._woken in wait([self._woken, *alive, *starting], timeout_s):
            self._woken.recv(1)

    @contextlib.contextmanager
    def _signals_taken(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._take_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._signals += 1
        if self._signals > 1:
            for worker in self._workers:
                if worker.process is not None:
                    worker.process.kill()
            os._exit(INTERRUPTED)
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def _drain(self) -> int:
        """Every worker ends by itself, in its time of grace."""
        for worker in self._workers:
            if worker.process is not None and worker.process.is_alive():
                worker.process.terminate()
        for worker in self._workers:
            if worker.process is not None:
                worker.process.join()
        return 0

    def _end(self) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.process.is_alive():
                worker.process.terminate()
            worker.forget()
        self._woken.close()
        self._waker.close()
