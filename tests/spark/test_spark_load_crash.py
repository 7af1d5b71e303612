"""The driver of a load on Spark may die at any instant: all or nothing, and the job runs again.

Most drivers here are children that share the Java of the run, so that one dies in a second; the
drivers that are killed at random instants take a Java of their own with them.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import (
    content_of,
    history,
    open_graph,
    read_only_content,
    require_honest,
    require_replayed,
    require_settled,
    settings,
)
from tests.crash.places import Arranged, arrange
from tests.crash.points import Cell, seed
from tests.crash.processes import PROJECT, child, run_child, run_unstarved
from tests.crash.scripts import NEXT, RIVAL, TOUCH
from tests.crash.spark_loads import JOBS, Job
from tests.crash.spark_points import chosen_kills, chosen_stops, every_kill
from tests.crash.writes import commit, play
from tests.extended import thinned
from tests.process_sessions import started

from omnigraph import Graph

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from subprocess import Popen

    from tests.crash.model import Content

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("cell", thinned(reversed(chosen_kills()), keep=2), ids=str)
def test_a_driver_killed_in_a_stage_or_in_its_commit_leaves_all_or_nothing(
    cell: Cell, java: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kill(cell, java, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", every_kill(), ids=str)
def test_a_driver_killed_at_every_point_leaves_all_or_nothing(
    cell: Cell, java: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kill(cell, java, tmp_path, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@pytest.mark.parametrize("cell", chosen_stops(), ids=str)
def test_a_driver_that_stands_still_past_its_lease_tells_what_became_of_its_load(
    cell: Cell, java: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shared = tmp_path_factory.getbasetemp()
    run_unstarved(lambda number: stop(cell, java, tmp_path / f"graph-{number}", shared))


def kill(cell: Cell, java: dict[str, str], folder: Path, shared: Path) -> None:
    arranged = arrange(shared, folder / "graph", cell.place)
    job = JOBS[cell.script]
    job.path_for(arranged.root)
    old, new = arranged.content, play(arranged.content, job)
    # Half of the runs recover at the write of a handle that was open before, half at an open.
    bystander = open_graph(arranged.root) if (seed() + len(str(cell))) % 2 else None
    ended = run_child(arranged.root, arranged.branch, cell.script, cell.trap, java)
    assert ended.was_killed, f"{cell.trap.point} was not passed: {ended}"
    assert read_only_content(arranged.root, arranged.branch) in (old, new)
    with bystander or open_graph(arranged.root) as graph:
        require_right_after_another_run(graph, arranged, job, is_settled_first=seed() % 3 == 0)


def require_right_after_another_run(
    graph: Graph, arranged: Arranged, job: Job, *, is_settled_first: bool
) -> None:
    """The job runs again and gives its graph, whatever became of it before; so does a third run."""
    branch, expected = arranged.branch, arranged.content
    if is_settled_first:
        commit(graph, NEXT, branch)
        expected = play(expected, NEXT)
        require_settled(graph, arranged.root)
    expected = play(expected, job)
    job.run(graph, branch)
    assert content_of(graph, branch) == expected
    again = job.run(graph, branch)
    assert again.already_loaded is job.is_keyed
    assert content_of(graph, branch) == expected
    loads = [each for each in history(graph, branch)[: -arranged.commits] if each.kind == "load"]
    assert len(loads) == 1 or not job.is_keyed
    commit(graph, TOUCH, branch)
    assert read_only_content(arranged.root, branch) == play(expected, TOUCH)
    require_settled(graph, arranged.root)


def stop(cell: Cell, java: dict[str, str], root: Path, shared: Path) -> None:
    arranged = arrange(shared, root, cell.place)
    job, branch, old = JOBS[cell.script], arranged.branch, arranged.content
    job.path_for(root)
    takeover = RIVAL if cell.has_rival else NEXT
    with child(root, branch, cell.script, cell.trap, variables=java) as running:
        running.wait_at_trap()
        assert read_only_content(root, branch) in (old, play(old, job))
        with open_graph(root) as graph:
            commit(graph, takeover, branch)
            require_replayed(graph, arranged, {"child": job, "parent": takeover})
            ended = running.proceed()
            assert ended.returncode == 0, ended.stderr
            require_honest(graph, branch, "child", ended.commit, ended.result.get("error"))
            now: Content = require_replayed(graph, arranged, {"child": job, "parent": takeover})
            commit(graph, TOUCH, branch)
            assert content_of(graph, branch) == play(now, TOUCH)
            require_settled(graph, root)
            history(graph, branch)


OWN_JAVA = {
    "OMNIGRAPH_SPARK_MASTER": "local[2,4]",
    "OMNIGRAPH_SPARK_CONF": "spark.driver.memory=512m;spark.log.level=OFF"
    ";spark.driver.host=127.0.0.1;spark.driver.bindAddress=127.0.0.1",
    "OMNIGRAPH_SPARK_CDS": "0",
    "OMNIGRAPH_PIPELINE_SPLIT_BYTES": "700",
    "OMNIGRAPH_DURABILITY": "process",
}


@pytest.mark.extended
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "turn", [0, *(pytest.param(turn, marks=pytest.mark.slow) for turn in range(1, 10))]
)
def test_a_driver_killed_at_any_instant_with_its_java_leaves_all_or_nothing(
    turn: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed() * 100 + turn)  # noqa: S311 - repeats with its seed
    job = rng.choice([*JOBS.values()])
    arranged = arrange(
        tmp_path_factory.getbasetemp(), tmp_path / "graph", rng.choice(["main", "named", "first"])
    )
    job.path_for(arranged.root)
    old, new = arranged.content, play(arranged.content, job)
    delay_s = rng.uniform(0, 6)
    with driver(arranged, job) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n", log_of(arranged).read_text()[-4000:]
        until = time.perf_counter() + delay_s
        while time.perf_counter() < until:
            assert shown(arranged) in (old, new)
        running.kill()
        was_done = "done" in running.stdout.readline()
        # Its Java may live on for a moment, and its tasks may still write files.
        assert shown(arranged) in ([new] if was_done else [old, new])
        with open_graph(arranged.root) as graph:
            require_right_after_another_run(graph, arranged, job, is_settled_first=turn % 2 == 1)


def shown(arranged: Arranged) -> Content:
    with Graph.open(arranged.root, mode="read_only", settings=settings()) as graph:
        return content_of(graph, arranged.branch)


def log_of(arranged: Arranged) -> Path:
    return arranged.root.with_name("driver.log")


def driver(arranged: Arranged, job: Job) -> AbstractContextManager[Popen[str]]:
    root = arranged.root
    return started(
        [sys.executable, "-m", "tests.crash.spark_driver", str(root), arranged.branch, job.name],
        cwd=PROJECT,
        env={
            **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
            "PATH": os.defpath,
            "HOME": str(root.parent),
            "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "src")]),
            **OWN_JAVA,
        },
        stderr=log_of(arranged),
    )
