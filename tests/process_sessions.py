"""Processes that start others: everything that a test started ends with it.

Spark's processes leave the process group of whoever started them, but never its session. A leader
also dies with the test process, and what it started dies of that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MORTAL = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.execvp(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def started(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], stderr: Path
) -> Iterator[subprocess.Popen[str]]:
    """A process that leads a session of its own; its standard output is a pipe."""
    with stderr.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _MORTAL, *command],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill_session(process)
        process.communicate()


def kill_session(leader: subprocess.Popen[str]) -> None:
    """Kill a process and whatever it started, as a machine that goes away does."""
    while members := session_members(leader.pid):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if members == [leader.pid]:
            break
    leader.wait()


def session_members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state != "Z":
                    found.append(int(folder.name))
    return found


def wait_until_it_sleeps(pid: int) -> None:
    """Return when a process waits for a read: a signal right before one is noticed only after it.

    Where nothing tells the state of a process, return at once.
    """
    status = Path(f"/proc/{pid}/stat")
    asleep = 0
    while status.exists() and asleep < 10:
        is_asleep = status.read_text().rpartition(")")[2].split()[0] == "S"
        asleep = asleep + 1 if is_asleep else 0
        time.sleep(0.01)
