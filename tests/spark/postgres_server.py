"""A PostgreSQL server on loopback, and the jar of its driver, where both are to be had."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD = "tester", "right-hidden"
DRIVER = "org.postgresql.Driver"
_ARTIFACT = "org.postgresql:postgresql:42.7.4"
_JAR = Path.home() / ".m2/repository/org/postgresql/postgresql/42.7.4/postgresql-42.7.4.jar"
_PROGRAMS = ("initdb", "postgres", "psql")
_ACCOUNT = "postgres"
"""The server refuses to run as root."""


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def execute(self, *statements: str) -> None:
        commands = [word for each in statements for word in ("-c", each)]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        subprocess.run(
            ["psql", "-q", "-v", "ON_ERROR_STOP=1", *where, *commands],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            check=True,
            capture_output=True,
        )


def driver_jar() -> Path:
    """The driver, from the local repository or from Maven Central; skips without one."""
    if not _JAR.is_file() and shutil.which("mvn"):
        get = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={_ARTIFACT}", "-Dtransitive=false"]
        subprocess.run(get, check=False, capture_output=True)
    if not _JAR.is_file():
        pytest.skip(f"the driver {_ARTIFACT} is neither in ~/.m2 nor can mvn fetch it")
    return _JAR


@contextmanager
def serving_postgres() -> Iterator[Postgres]:
    """A server with one user; skips where PostgreSQL is not installed."""
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        pytest.skip(f"PostgreSQL is not installed: there is no {', '.join(missing)}")
    account = _ACCOUNT if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if account is not None:
            for path in (folder, secret):
                shutil.chown(path, account)
        data = folder / "data"
        made = ["--pgdata", str(data), "--username", USER, "--pwfile", str(secret)]
        subprocess.run(
            ["initdb", *made, "--auth=scram-sha-256", "--no-sync"],
            user=account,
            check=True,
            capture_output=True,
            cwd=folder,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        server = subprocess.Popen(
            ["postgres", "-D", str(data), "-p", str(port), *words],
            user=account,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(server, port)
            yield Postgres(port)
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    """Until it takes connections; ends with the server if it does not come up."""
    while server.poll() is None:
        try:
            Postgres(port).execute("SELECT 1")
        except subprocess.CalledProcessError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the PostgreSQL server ended at once")
