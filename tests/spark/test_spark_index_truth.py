"""No result depends on indexes and fragments that executors made, after writes in random order.

The histories, and what every kind of query must give after each step, are those of
`tests/property/test_index_coverage.py`; here executors build, and join, in parts of a few rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.property import test_index_coverage as coverage
from tests.property.test_index_coverage import World

from omnigraph.pipeline.maintenance.job import MaintenanceJob, MaintenanceOptions
from omnigraph.pipeline.spark.job import open_job
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.property.test_index_coverage import Step

    from omnigraph.pipeline.spark.session import PipelineSession

SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})

FEW: tuple[Step, ...] = (
    *(("append", "main"),) * 4,
    ("index", "main"),
    ("update", "main"),
    ("delete", "main"),
    ("append", "main"),
    ("index", "main"),
    ("branch", "main"),
    ("optimize", "one"),
    ("update", "one"),
    ("optimize", "one"),
    ("merge", "main"),
    ("optimize", "main"),
)


@pytest.fixture
def on_spark(session: PipelineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the histories build and join on Spark; every third time here, so that lanes mix."""

    def job(world: World, branch: str) -> MaintenanceJob:
        rows = world.rng.choice([1, 3, 8])
        options = MaintenanceOptions(branch=branch, rows_per_task=rows)
        context = open_job(world.graph._graph, session, SETTINGS, kind="maintenance")
        return MaintenanceJob(context, options)

    def index(world: World, branch: str) -> None:
        if world.rng.random() < 1 / 3:
            world.graph.maintenance.ensure_indices(branch=branch, engine="local")
        else:
            job(world, branch).ensure_indices()

    def optimize(world: World, branch: str) -> None:
        target = world.rng.choice([None, 4])
        if world.rng.random() < 1 / 3:
            world.graph.maintenance.optimize(branch=branch, target_rows=target, engine="local")
        else:
            job(world, branch).optimize(target_rows=target)

    monkeypatch.setattr(World, "index", index)
    monkeypatch.setattr(World, "optimize", optimize)


@pytest.mark.extended
@pytest.mark.usefixtures("on_spark")
def test_results_never_depend_on_what_executors_built() -> None:
    coverage._play(5, FEW, NEAREST_EXACT_VALUES="0")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("on_spark")
@pytest.mark.parametrize("seed", range(2_000, 2_004))
@pytest.mark.parametrize(
    "variable", [{"TRAVERSAL_MODE": "indexed"}, {"NEAREST_EXACT_VALUES": "0"}], ids=str
)
def test_results_never_depend_on_what_executors_built_over_long_histories(
    seed: int, variable: dict[str, str]
) -> None:
    steps: Sequence[Step | None] = (None,) * 25
    coverage._play(seed, steps, **variable)
