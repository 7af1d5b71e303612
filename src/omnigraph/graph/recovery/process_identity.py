"""Who a process is, so that another on the same machine can tell that it is gone.

A pid alone is not enough, because it is used again; with its start time and the boot of the
machine it names one process for ever.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process on a machine since its last boot."""

    host: str
    boot_id: str
    pid: int
    pid_started: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    def knows_gone(self, other: ProcessIdentity) -> bool:
        """Whether this process can tell that the other does not exist any more."""
        if not self.boot_id or (self.host, self.boot_id) != (other.host, other.boot_id):
            return False
        started = _started(other.pid)
        if started is None:
            return not _exists(other.pid)  # Hidden from us, or gone: only the kernel can tell.
        return started != other.pid_started


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    pid = os.getpid()
    return ProcessIdentity(
        host=socket.gethostname(), boot_id=_boot_id(), pid=pid, pid_started=_started(pid) or ""
    )


def _boot_id() -> str:
    """The boot of the machine, with the space in which pids are counted: containers have others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return _output_of("sysctl", "-n", "kern.bootsessionuuid")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _started(pid: int) -> str | None:
    """When a process started, empty if only its zombie is left, `None` if that is not shown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        return _output_of("ps", "-o", "lstart=", "-p", str(pid)) or None
    # The second field is the program's name in brackets and may itself hold brackets and spaces.
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return "" if state in ("Z", "X") else started


def _output_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603 - fixed programs
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
