"""Jobs over Spark Connect, on a server of its own: as on a classic session, and when it dies.

A process has either a classic session or a Connect session, so the clients are children.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.process_sessions import kill_session
from tests.spark.conftest import REMOTE
from tests.spark.driven_load import (
    TABLES,
    arrange,
    driving,
    is_mid_intake,
    require_empty,
    require_exact,
)
from tests.spark.servers import connect_server

from omnigraph.errors import SparkNotInstalled
from omnigraph.pipeline.spark.session import require_connect_packages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.spark.servers import ConnectServer

pytestmark = [
    pytest.mark.slow,
    # Many tests in one child: on a busy machine it needs several times its few minutes.
    pytest.mark.timeout(1_800),
]

FOLDER = Path(__file__).parent
SAME_TESTS = ("test_spark_load.py", "test_spark_export.py", "test_table_frame.py")
SHARP = (
    "test_spark_load.py::test_good_rows_give_equal_graphs_and_reports[merge]",
    "test_spark_load.py::test_bad_rows_give_equal_errors_with_equal_lines[append-joins]",
    "test_spark_load.py::test_a_dry_run_and_a_refused_load_leave_nothing",
    "test_spark_load.py::test_a_load_sees_what_a_faster_writer_took",
    "test_spark_export.py::test_the_files_in_order_are_the_stream_of_the_graph[runs]",
    "test_spark_export.py::test_a_task_that_fails_leaves_no_export_and_no_file",
    "test_spark_export.py::test_an_interrupt_removes_what_was_written",
    "test_spark_analytics.py::test_values_of_spark_are_written_as_one_commit",
    "test_table_frame.py",
)
"""Of each kind of call one: rows, values, errors of tasks, cancelling, iterations, frames."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    try:
        require_connect_packages()
    except SparkNotInstalled as error:
        pytest.skip(error.message)
    with connect_server(tmp_path_factory.mktemp("connect") / "server") as running:
        yield running


@pytest.mark.cluster
def test_the_sharpest_of_what_holds_on_a_classic_session_holds_over_connect(
    server: ConnectServer, tmp_path: Path
) -> None:
    run_over_connect(SHARP, server, tmp_path)


@pytest.mark.parametrize("file", SAME_TESTS)
def test_what_holds_on_a_classic_session_holds_over_connect(
    file: str, server: ConnectServer, tmp_path: Path
) -> None:
    run_over_connect([file], server, tmp_path)


def run_over_connect(tests: Sequence[str], server: ConnectServer, tmp_path: Path) -> None:
    """Run tests of a classic session in a child whose session is of the server."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not slow", "--basetemp", str(tmp_path / "base")]
    command += [str(FOLDER / each) for each in tests]
    done = subprocess.run(
        command,
        cwd=FOLDER.parents[1],
        env={**os.environ, REMOTE: server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_750,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout


@pytest.mark.cluster
def test_a_server_that_dies_in_mid_intake_leaves_nothing_and_the_load_runs_again(
    server: ConnectServer, tmp_path: Path
) -> None:
    arrange(tmp_path)
    last: tuple[str, Any] = ("", None)
    with (
        connect_server(tmp_path / "dying") as dying,
        driving(tmp_path, "append", OMNIGRAPH_SPARK_REMOTE=dying.url) as lines,
    ):
        for last in lines:
            if is_mid_intake(*last):
                kill_session(dying.process)
    assert last[0] == "error", last
    assert last[1][0] == "SparkUnavailable", last
    require_empty(tmp_path)
    with driving(tmp_path, "append", OMNIGRAPH_SPARK_REMOTE=server.url) as lines:
        *_, last = lines
    assert last[0] == "report", last
    assert last[1]["tables"] == TABLES
    require_exact(tmp_path)
