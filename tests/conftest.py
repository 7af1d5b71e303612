"""One Spark session for every test that wants one, in whichever folder it is.

The session is started as a user's would be, with less memory. Tests that use it carry the marks
`spark` and `xdist_group("spark")`; one worker runs all of their files, so that one Java is started.
Modules that tests share are imported as `tests.…`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.pipeline.spark.session import PipelineSession

_ROOT = str(Path(__file__).parents[1])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

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

_GROUP = 'xdist_group("spark")'

REMOTE = "TEST_SPARK_REMOTE"
"""Names a Connect server on which the same tests run instead."""


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
    """Sends every file with tests on Spark to one worker, so that one Java is started.

    The marks do not reach the process that schedules; a file that names the group is enough.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._is_spark: dict[str, bool] = {}

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        if path not in self._is_spark:
            text = (self.config.rootpath / path).read_text(encoding="utf-8")
            self._is_spark[path] = _GROUP in text
        return "spark" if self._is_spark[path] else nodeid


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `tests/scripts/`; pytest asks for options before it reads that folder."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what scripts of tests/scripts got in place of what they expect",
    )


def pytest_configure() -> None:
    """A run in the background ignores Ctrl-C, and so would the programs that tests send it to."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneSpark:
    """Whatever is asked for with `--dist`."""
    return OneSpark(config, log)


@pytest.fixture(scope="session")
def session() -> Iterator[PipelineSession]:
    from omnigraph.pipeline.spark.session import open_session
    from omnigraph.settings import load_settings

    remote = os.environ.get(REMOTE)
    environ = ENVIRON if remote is None else {"OMNIGRAPH_SPARK_REMOTE": remote}
    with open_session(load_settings(environ), command="tests") as opened:
        yield opened
