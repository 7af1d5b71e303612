"""Starts, watches, continues and ends the children of crash tests."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crash.child import run
from tests.forked import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.context import ForkServerProcess

PROJECT = Path(__file__).parents[2]
TTL_MS = 300
LONG_MS = 15_000
_PATIENCE_S = 60.0
_LOOK_S = 0.005
_ATTEMPTS = 3
_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A point at which a child dies, stops or raises, and at which passage."""

    point: str
    action: str
    hit: int = 1
    slow: str | None = None
    """A point at which the child pauses for most of a lease, so that it is renewed meanwhile."""

    @property
    def is_short(self) -> bool:
        """Whether the child's lease must run out, or be renewed, while the test waits."""
        return self.action == "stop" or self.slow is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: by a signal, or with what it printed."""

    returncode: int
    result: dict[str, Any]
    stderr: str

    @property
    def was_killed(self) -> bool:
        """Whether it died at its trap."""
        return self.returncode == -signal.SIGKILL

    def require_killed(self, trap: Trap) -> None:
        """It died at its trap.

        Raises:
            Starved: it did not, and its lease was short.
        """
        if self.was_killed:
            return
        missed = f"{trap.point} was not passed: {self}"
        if trap.is_short:
            raise Starved(missed)
        raise AssertionError(missed)

    @property
    def commit(self) -> str | None:
        """The commit that it acknowledged."""
        return self.result.get("commit")


class Starved(Exception):
    """A child lost its short lease on a busy machine before it came to its trap."""


def run_unstarved(attempt: Callable[[int], None]) -> None:
    """Run an attempt, up to three times if its child is starved; it is given its number."""
    for number in range(_ATTEMPTS - 1):
        try:
            return attempt(number)
        except Starved:
            continue
    return attempt(_ATTEMPTS - 1)


class Child:
    """A running child."""

    def __init__(self, process: ForkServerProcess, out: Path, err: Path) -> None:
        self._process = process
        self._out = out
        self._err = err

    def wait_until_stopped(self) -> bool:
        """Whether it stood still before it ended."""
        until = time.perf_counter() + _PATIENCE_S
        while time.perf_counter() < until:
            state = self._state()
            if state == "T":
                return True
            if state in ("", "Z"):
                return False
            time.sleep(_LOOK_S)
        raise TimeoutError("the child neither stopped nor ended")

    def wait_at_trap(self) -> None:
        """Wait until it stands still.

        Raises:
            Starved: it ended instead.
        """
        if not self.wait_until_stopped():
            raise Starved(f"the trap was not passed: {self.end()}")

    def proceed(self) -> Ended:
        """Let it go on, whenever it stops, until it ends."""
        while self.wait_until_stopped():
            self._signal(signal.SIGCONT)
            self._wait_until_woken()
        return self.end()

    def end(self) -> Ended:
        """Wait for its end."""
        self._process.join(_PATIENCE_S)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError("the child does not end")
        out = self._out.read_text(encoding="utf-8") if self._out.exists() else ""
        return Ended(
            returncode=code,
            result=json.loads(out) if out.strip() else {},
            stderr=self._err.read_text(encoding="utf-8") if self._err.exists() else "",
        )

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    def _wait_until_woken(self) -> None:
        until = time.perf_counter() + _PATIENCE_S
        while self._state() == "T" and time.perf_counter() < until:
            time.sleep(_LOOK_S / 10)

    def _state(self) -> str:
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8")
        except OSError:
            return ""
        return stat.rpartition(")")[2].split()[0]


@contextmanager
def child(
    root: Path,
    branch: str,
    script: str,
    trap: Trap | None,
    *,
    actor: str = "child",
    variables: Mapping[str, str] | None = None,
) -> Iterator[Child]:
    """A child that runs a script; it is gone when the block ends."""
    environ = {
        "PATH": os.defpath,
        "HOME": str(root.parent),
        "OMNIGRAPH_TESTING": "1",
        # A dead holder is seen at once; only a standing one must be waited for.
        "OMNIGRAPH_LEASE_TTL_MS": str(TTL_MS if trap is not None and trap.is_short else LONG_MS),
        "OMNIGRAPH_DURABILITY": "process",
        **(variables or {}),
    }
    command = [str(root), branch, script, "--actor", actor]
    if trap is not None and trap.hit == 1:
        environ["OMNIGRAPH_FAILPOINTS"] = f"{trap.point}={trap.action}"
    elif trap is not None:
        command += ["--hit", trap.point, trap.action, str(trap.hit)]
    if trap is not None and trap.slow:
        command += ["--slow", trap.slow, str(TTL_MS * 2 // 3)]
    printed = root.with_name(f"{root.name}-{next(_numbers)}")
    out, err = printed.with_suffix(".out"), printed.with_suffix(".err")
    running = Child(start(run, command, environ, str(PROJECT), str(out), str(err)), out, err)
    try:
        yield running
    finally:
        running.kill()


def run_child(
    root: Path,
    branch: str,
    script: str,
    trap: Trap | None,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Run a child to its end."""
    with child(root, branch, script, trap, variables=variables) as running:
        return running.end()
