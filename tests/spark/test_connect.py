"""The same calls over Spark Connect: same results, same errors, progress and cancelling.

A process has either a classic session or a Connect session, so this runs in a child with a server
of its own on the loopback.
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from omnigraph.errors import SparkNotInstalled
from omnigraph.pipeline.spark.session import require_connect_packages

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
]

SCRIPT = """
import json, os, pathlib, signal, sys, tempfile, threading
import pyarrow as pa
from pyspark.sql import SparkSession
from omnigraph.errors import OmnigraphError, SourceError, StorageUnavailable
from omnigraph.pipeline.spark.handshake import require_matching_executors, versions_here
from omnigraph.pipeline.spark.stage_runner import StageRunner
from omnigraph.pipeline.spark.session import open_session
from omnigraph.pipeline.spark.tasks import frame_of_tasks, run_tasks
from omnigraph.settings import load_process_settings

spark = (
    SparkSession.builder.remote("local[2,4]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g")
    .config("spark.connect.grpc.binding.address", "127.0.0.1")
    .getOrCreate()
)
session = open_session(load_process_settings())
schema = pa.schema({"number": pa.uint64()})
marks = pathlib.Path(tempfile.mkdtemp())
out = {"mode": session.mode, "is_owned": session.is_owned, "is_here": session.is_here}


def numbers(function, stage="intake", runner=None):
    try:
        results = run_tasks(session, stage, [0, 1, 2], function, schema, runner=runner)
    except OmnigraphError as error:
        return [type(error).__name__, error.message, error.details]
    return [[r.attempt, [v for b in r.batches for v in b.column(0).to_pylist()]] for r in results]


def give(task):
    return [pa.record_batch({"number": pa.array([2**63 + task], pa.uint64())})]


def kill_first(task):
    try:
        (marks / str(task)).touch(exist_ok=False)
    except FileExistsError:
        return give(task)
    os.kill(os.getpid(), signal.SIGKILL)


def final(task):
    raise SourceError("no file", line=task)


def lasting(task):
    raise StorageUnavailable("no answer")


def endless(task):
    (marks / f"endless-{task}").touch()
    threading.Event().wait()


told = []
with session.configured():
    out["time_zone"] = spark.conf.get("spark.sql.session.timeZone")
    out["same_versions"] = require_matching_executors(session, lambda: None) == versions_here()
    out["give"] = numbers(give, runner=StageRunner(session, told.append, poll_s=0.05))
    out["told"] = [told[-1].stage, told[-1].done, told[-1].total]
    out["kill_first"] = numbers(kill_first)
    out["final"] = numbers(final)
    out["lasting"] = numbers(lasting)
    frame = frame_of_tasks(session, [1, 2], lambda n: [pa.record_batch({"n": [n]})],
                           pa.schema({"n": pa.int32()}))
    out["sum"] = frame.groupBy().sum("n").collect()[0][0]
    runner = StageRunner(session, poll_s=0.05)

    def cancel():
        pause = threading.Event()
        while not (marks / "endless-0").exists():
            pause.wait(0.05)
        runner.cancel()

    threading.Thread(target=cancel).start()
    out["cancelled"] = numbers(endless, runner=runner)[0]
session.close()
out["alive"] = spark.range(3).count()
spark.stop()
try:
    run_tasks(session, "late", [0], give, schema)
except OmnigraphError as error:
    out["stopped"] = type(error).__name__
print("RESULT " + json.dumps(out))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:  # Any: JSON
    try:
        require_connect_packages()
    except SparkNotInstalled as error:
        pytest.skip(error.message)
    environ = {
        "SPARK_TESTING": "1",  # lets the server take any free port
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=dict(os.environ) | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
    return found


def test_a_connect_session_is_borrowed_and_left_alive(answers: dict[str, Any]) -> None:
    assert (answers["mode"], answers["is_owned"], answers["is_here"]) == ("connect", False, True)
    assert answers["alive"] == 3
    assert answers["stopped"] == "SparkUnavailable"


def test_a_call_has_our_settings_and_matching_executors(answers: dict[str, Any]) -> None:
    assert answers["time_zone"] == "UTC"
    assert answers["same_versions"] is True


def test_results_are_those_of_a_classic_session(answers: dict[str, Any]) -> None:
    assert answers["give"] == [[1, [2**63]], [1, [2**63 + 1]], [1, [2**63 + 2]]]
    assert answers["kill_first"] == [[2, [2**63]], [2, [2**63 + 1]], [2, [2**63 + 2]]]
    assert answers["sum"] == 3


def test_errors_are_those_of_a_classic_session(answers: dict[str, Any]) -> None:
    assert answers["final"] == ["SourceError", "no file", {"line": 0}]
    name, _, details = answers["lasting"]
    assert name == "PipelineTaskError"
    assert (details["stage"], details["attempts"]) == ("intake", 4)
    assert details["cause"]["error"] == "StorageUnavailable"


def test_progress_and_cancelling_work(answers: dict[str, Any]) -> None:
    assert answers["told"] == ["intake", 3, 3]
    assert answers["cancelled"] == "Cancelled"
