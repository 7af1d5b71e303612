"""Starts, kills, stops and awaits the processes of a race."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from time import perf_counter, sleep
from typing import Self

from tests.forked import start
from tests.race import workers
from tests.race.workers import read_journal

TTL_MS = 500
ENVIRONMENT = {
    "OMNIGRAPH_LEASE_TTL_MS": str(TTL_MS),
    "OMNIGRAPH_LEASE_WAIT_MS": "60000",
    "RUST_BACKTRACE": "0",
}
LONG_LEASE = {"OMNIGRAPH_LEASE_TTL_MS": "15000"}
"""For races that count who wins: whoever loses a lease on a busy machine starts over."""


@dataclass(slots=True)
class Worker:
    """One job, in as many processes one after the other as kills make necessary."""

    job: Callable[..., None]
    journal: Path
    environment: Mapping[str, str]
    arguments: tuple[object, ...]
    process: ForkServerProcess

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.is_alive()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to its process, if there is one."""
        if self.process.pid is not None and self.is_alive:
            os.kill(self.process.pid, number)

    def wait(self, timeout_s: float) -> int:
        """Its exit code; a process that does not end in time is killed and the test fails."""
        self.process.join(timeout_s)
        if self.is_alive:
            self.process.kill()
            self.process.join()
            raise AssertionError(f"{self.journal.name} did not end: {self.words()[-3:]}")
        code = self.process.exitcode
        assert code is not None
        return code

    def words(self, *kinds: str) -> list[list[str]]:
        """The lines of its journal, of these kinds or all."""
        found = read_journal(self.journal)
        return [words for words in found if not kinds or words[0] in kinds]


@dataclass(slots=True)
class Crew:
    """The processes of one test; leaving the context ends those that still run."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(ENVIRONMENT))
    workers: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGKILL)
            worker.process.join()

    def start(
        self, name: str, job: Callable[..., None], *arguments: object, **environment: str
    ) -> Worker:
        """A new worker with a journal of that name."""
        journal = self.folder / f"{name}.journal"
        told = {**self.environment, **environment}
        worker = Worker(job, journal, told, arguments, _launched(job, journal, told, arguments))
        self.workers.append(worker)
        return worker

    def restart(self, worker: Worker) -> None:
        """A new process for the same job and journal."""
        worker.process = _launched(worker.job, worker.journal, worker.environment, worker.arguments)

    def await_words(self, worker: Worker, kind: str, *, timeout_s: float = 30) -> None:
        """Waits until a journal has a line of a kind."""
        until = perf_counter() + timeout_s
        while not worker.words(kind):
            assert worker.is_alive, worker.words()
            assert perf_counter() < until, f"{worker.journal.name} never said {kind}"
            sleep(0.005)


def _launched(
    job: Callable[..., None],
    journal: Path,
    environment: Mapping[str, str],
    arguments: tuple[object, ...],
) -> ForkServerProcess:
    return start(workers.run, job, journal, environment, *arguments)


@dataclass(slots=True)
class Disturbance:
    """Kills and stops workers at random until all of them are done."""

    seed: int
    kills: int
    stops: int = 0
    pause_s: tuple[float, float] = (0.05, 0.4)
    done: Counter[str] = field(default_factory=Counter)

    def run(self, crew: Crew, writers: list[Worker], *, timeout_s: float) -> None:
        """Returns when every writer ended by itself."""
        random = Random(self.seed)  # noqa: S311 - repeats with its seed
        until = perf_counter() + timeout_s
        while any(self._goes_on(crew, each) for each in writers):
            assert perf_counter() < until, [each.words()[-2:] for each in writers]
            sleep(random.uniform(*self.pause_s))
            # A process that has not begun to write holds nothing worth killing it for.
            busy = [each for each in writers if each.is_alive and _has_begun(each)]
            if not busy:
                continue
            chosen = random.choice(busy)
            if self.done["kills"] < self.kills and random.random() < 0.7:
                self.done["kills"] += 1
                chosen.signal(signal.SIGKILL)
                chosen.process.join()
            elif self.done["stops"] < self.stops:
                self.done["stops"] += 1
                chosen.signal(signal.SIGSTOP)
                sleep(TTL_MS / 1000 * random.uniform(0.5, 3))
                chosen.signal(signal.SIGCONT)

    def _goes_on(self, crew: Crew, worker: Worker) -> bool:
        if worker.is_alive:
            return True
        if worker.process.exitcode == -signal.SIGKILL:
            self.done["restarts"] += 1
            crew.restart(worker)
            return True
        assert worker.process.exitcode == 0, worker.words()[-3:]
        return False


def _has_begun(worker: Worker) -> bool:
    return worker.words("start")[-1:] == [["start", str(worker.process.pid)]]
