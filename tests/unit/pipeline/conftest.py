"""One Spark session for every test of this folder that wants one.

The session is started as a user's would be, with less memory. Tests that use it carry the marks
`spark` and `xdist_group("spark")`, so that one worker runs them all and one Java is started.
"""

from collections.abc import Iterator

import pytest

from omnigraph.pipeline.session import PipelineSession, open_session
from omnigraph.settings import load_settings

ENVIRON = {
    "OMNIGRAPH_SPARK_MASTER": "local[2,4]",
    "OMNIGRAPH_SPARK_CONF": "spark.driver.memory=1g;spark.log.level=OFF",
    "OMNIGRAPH_SPARK_CDS": "0",
}


@pytest.fixture(scope="session")
def session() -> Iterator[PipelineSession]:
    with open_session(load_settings(ENVIRON), command="tests") as opened:
        yield opened
