"""Spark from the PySpark package as processes of their own: a cluster, a Connect server.

They listen on the loopback interface, at ports that the system chooses, and end with their block.
"""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from tests.process_sessions import started

import omnigraph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen

_PACKAGE = Path(pyspark.__file__).parent
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PATIENCE_S = 120

ENVIRON = {
    **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    "PATH": os.defpath,
    "SPARK_HOME": str(_PACKAGE),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(Path(omnigraph.__file__).parents[1]),
}
"""What every process of Spark, and every driver of it, is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A master and its workers."""

    url: str
    workers: tuple[Popen[str], ...]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Two workers of one core each, by names of two hosts: copies of a task never share one."""
    folder.mkdir()
    with ExitStack() as leaving:
        log = folder / "master.log"
        master = _start_daemon(leaving, log, "127.0.0.1", "master.Master", "--port", "0")
        url = _told(master, log, r"Starting Spark master at (spark://127\.0\.0\.1:[0-9]+)")
        workers = []
        logs = [folder / f"worker-{number}.log" for number in range(2)]
        for host, log in zip(("127.0.0.1", "localhost"), logs, strict=True):
            work = str(log.with_suffix(""))
            options = ("--cores", "1", "--memory", "1g", "--work-dir", work, url)
            workers.append(_start_daemon(leaving, log, host, "worker.Worker", *options))
        for worker, log in zip(workers, logs, strict=True):
            _told(worker, log, r"Successfully registered with (master)")
        yield Cluster(url=url, workers=tuple(workers))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A Connect server that runs tasks itself."""

    url: str
    process: Popen[str]


@contextmanager
def connect_server(folder: Path) -> Iterator[ConnectServer]:
    """A server with two cores."""
    folder.mkdir()
    log = folder / "server.log"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    command = [str(_PACKAGE / "bin" / "spark-submit"), "--master", "local[2,4]"]
    command += ["--class", _CONNECT]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    env = {**ENVIRON, "HOME": str(folder), "SPARK_DAEMON_MEMORY": "1g"}
    with started(command, cwd=folder, env=env, stderr=log) as process:
        port = _told(process, log, r"Spark Connect server started at: \S*:([0-9]+)")
        yield ConnectServer(url=f"sc://127.0.0.1:{port}", process=process)


def _start_daemon(leaving: ExitStack, log: Path, host: str, name: str, *options: str) -> Popen[str]:
    command = [str(_PACKAGE / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--host", host, "--webui-port", "0", *options]
    env = {**ENVIRON, "HOME": str(log.parent), "SPARK_DAEMON_MEMORY": "256m"}
    return leaving.enter_context(started(command, cwd=log.parent, env=env, stderr=log))


def _told(process: Popen[str], log: Path, pattern: str) -> str:
    """What a process says of itself in its log."""
    until = time.perf_counter() + _PATIENCE_S
    while process.poll() is None and time.perf_counter() < until:
        found = re.search(pattern, log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"{log.name} never said {pattern}: {log.read_text()[-2000:]}")
