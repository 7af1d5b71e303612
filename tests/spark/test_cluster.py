"""A load on a real cluster of two workers: one goes away in the middle, one is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.process_sessions import kill_session, session_members
from tests.spark.cluster_driver import SLOW_TASK
from tests.spark.driven_load import (
    TABLES,
    arrange,
    driving,
    is_mid_intake,
    orphans,
    require_exact,
)
from tests.spark.servers import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.servers import Cluster

pytestmark = pytest.mark.slow

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


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}


def test_a_copy_of_a_slow_task_changes_no_row_and_leaves_files_to_cleanup(tmp_path: Path) -> None:
    arrange(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    with (
        cluster(tmp_path / "cluster") as running,
        driving(tmp_path, "append", marks=marks, **environ_of(running, **SPECULATION)) as lines,
    ):
        *_, last = lines
    assert last[0] == "report", last
    assert last[1]["tables"] == TABLES
    require_exact(tmp_path)
    # Both attempts wrote their files, one of each table; the load took those of one attempt.
    attempts = [each.name.split("-") for each in marks.iterdir()]
    assert [str(SLOW_TASK), "1"] in attempts
    copies = len(attempts) - len({task for task, _ in attempts})
    assert len(orphans(tmp_path / "graph")) >= 2 * copies >= 2
    assert not list((tmp_path / "graph" / "__staging").iterdir())


@pytest.mark.cluster
def test_a_load_survives_the_loss_of_a_worker_in_mid_intake(tmp_path: Path) -> None:
    arrange(tmp_path)
    last: tuple[str, Any] = ("", None)
    is_killed = False
    with (
        cluster(tmp_path / "cluster") as running,
        driving(tmp_path, "append", marks=None, **environ_of(running)) as lines,
    ):
        for last in lines:
            if not is_killed and is_mid_intake(*last):
                is_killed = True
                # The one that is at work; the other may not have begun.
                lost = max(running.workers, key=lambda each: len(session_members(each.pid)))
                assert len(session_members(lost.pid)) >= 3  # worker, executor, Python
                kill_session(lost)
    assert is_killed
    assert last[0] == "report", last
    assert last[1]["tables"] == TABLES
    require_exact(tmp_path)


def environ_of(running: Cluster, **conf: str) -> dict[str, str]:
    """What a driver on the cluster is told."""
    told = ";".join(f"{key}={value}" for key, value in {**CONF, **conf}.items())
    return {"OMNIGRAPH_SPARK_MASTER": running.url, "OMNIGRAPH_SPARK_CONF": told}
