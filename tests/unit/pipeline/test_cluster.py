"""A load on a real cluster of two workers, one of which goes away in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.process_sessions import kill_session, session_members
from tests.spark_servers import cluster
from tests.unit.pipeline.driven_load import TABLES, arrange, driving, is_mid_intake, require_exact

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
]

CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Nothing begins before both workers have an executor.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def test_a_load_survives_the_loss_of_a_worker_in_mid_intake(tmp_path: Path) -> None:
    arrange(tmp_path)
    last: tuple[str, Any] = ("", None)
    is_killed = False
    with cluster(tmp_path / "cluster") as running:
        environ = {
            "OMNIGRAPH_SPARK_MASTER": running.url,
            "OMNIGRAPH_SPARK_CONF": ";".join(f"{key}={value}" for key, value in CONF.items()),
        }
        with driving(tmp_path, "append", **environ) as lines:
            for last in lines:
                if not is_killed and is_mid_intake(*last):
                    is_killed = True
                    lost = running.workers[0]
                    assert len(session_members(lost.pid)) >= 3  # worker, executor, Python
                    kill_session(lost)
    assert is_killed
    assert last[0] == "report", last
    assert last[1]["tables"] == TABLES
    require_exact(tmp_path)
