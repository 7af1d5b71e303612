"""One Spark session for every test that wants one, and the marks of all tests of this folder.

The session is started as a user's would be, with less memory. Tests that call commands, kill
drivers or load from S3 find the fixtures of those folders here, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.s3.conftest import s3, server  # noqa: F401 - fixtures
from tests.unit.cli.conftest import call, start  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.pipeline.spark.session import PipelineSession

FOLDER = Path(__file__).parent
TIMEOUT_S = 600

ENVIRON = {
    "OMNIGRAPH_SPARK_MASTER": "local[2,4]",
    "OMNIGRAPH_SPARK_CONF": "spark.driver.memory=1g;spark.log.level=OFF"
    ";spark.driver.host=127.0.0.1;spark.driver.bindAddress=127.0.0.1"
    # A database of a test would leave its log where the tests were started.
    ";spark.driver.extraJavaOptions=-Dderby.stream.error.file=/dev/null"
    # Few rows: compiling for them, in Java or by Spark, would take longer than running.
    " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ";spark.sql.shuffle.partitions=2;spark.sql.codegen.wholeStage=false"
    ";spark.sql.codegen.factoryMode=NO_CODEGEN",
    "OMNIGRAPH_SPARK_CDS": "0",
}

REMOTE = "TEST_SPARK_REMOTE"
"""Names a Connect server on which the same tests run instead."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder, before tests are chosen by their marks."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def session() -> Iterator[PipelineSession]:
    from omnigraph.pipeline.spark.session import open_session
    from omnigraph.settings import load_settings

    remote = os.environ.get(REMOTE)
    environ = ENVIRON if remote is None else {"OMNIGRAPH_SPARK_REMOTE": remote}
    with open_session(load_settings(environ), command="tests") as opened:
        yield opened


@pytest.fixture(scope="session")
def java(session: PipelineSession) -> dict[str, str]:
    """What tells a child of the Java of this run, so that it need not start its own."""
    context = session.classic_context
    assert context is not None
    assert context._gateway is not None
    parameters = context._gateway.gateway_parameters
    return {
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
        "PYSPARK_PYTHON": sys.executable,
        "OMNIGRAPH_PIPELINE_SPLIT_BYTES": "700",
    }
