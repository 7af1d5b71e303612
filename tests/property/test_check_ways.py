"""The rules across rows by lookups of keys, and by whole columns: equal outcomes of equal loads."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.load_jobs import spark_load
from tests.quarantine_inputs import SCHEMA, SEED, random_input, seed_beside

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.load.reject_options import parse_reject_options
from omnigraph.graph.load.request import LoadRequest
from omnigraph.ids import BranchName
from omnigraph.pipeline.checks.way import CheckWay
from omnigraph.pipeline.sources.request import SourceRequest, plan_source
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = Settings()
SETTINGS = replace(SETTINGS, pipeline=replace(SETTINGS.pipeline, split_bytes=700))
MODES = ("append", "merge", "overwrite")
ACTIONS = ("fail", "quarantine", "cascade")


@dataclass
class Ways:
    """A graph with some rows; every load gets a branch of its own."""

    graph: Graph
    folder: Path
    branches: int = 0

    def outcome(self, text: bytes, mode: str, action: str, way: CheckWay) -> list[object]:
        """What a load in this process tells, and the rows that it leaves."""
        self.branches += 1
        branch = f"b{self.branches}"
        self.graph.branches.create(branch)
        path = self.folder / "input.jsonl"
        path.write_bytes(text)
        rejects = parse_reject_options(
            SETTINGS,
            on_error="fail" if action == "fail" else "quarantine",
            rejects=None if action == "fail" else self.folder / "rejects",
            max_reject_ratio=1.0,
            cascade=action == "cascade",
        )
        job = spark_load(
            self.graph,
            None,
            SETTINGS,
            [plan_source(SourceRequest(source=str(path)), SETTINGS)],
            LoadRequest(mode=LoadMode(mode), branch=BranchName(branch), rejects=rejects),
            way=way,
        )
        try:
            report = job.report()
        except OmnigraphError as error:
            return [type(error).__name__, error.details["counts"], error.details["violations"]]
        rows = sorted(b"".join(self.graph.export(branch=branch)).splitlines())
        return [[each.to_dict() for each in report.tables], report.violations, rows]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("ways")
    with Graph.init(folder / "graph", schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
        yield Ways(graph, folder)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", thinned(range(6), keep=2))
def test_whole_columns_find_what_lookups_find(
    seed: int, mode: str, action: str, ways: Ways
) -> None:
    rng = random.Random(f"{seed} {mode} {action}")  # noqa: S311 - a test
    text = random_input(rng, rng.choice([4, 8, 60]))
    if mode == "overwrite":
        text += seed_beside(text)
    found, expected = (
        ways.outcome(text, mode, action, way) for way in (CheckWay.WHOLE, CheckWay.KEYS)
    )
    assert found == expected


@pytest.mark.parametrize("mode", MODES)
def test_ids_that_a_load_makes_are_not_looked_for(mode: str, ways: Ways) -> None:
    rng = random.Random(f"made {mode}")  # noqa: S311 - a test
    text = re.sub(rb'"id": "[ki][^"]*"', b'"since": 1', random_input(rng, 60))
    assert b"since" in text
    # Of ids that differ from load to load only the numbers of rows and faults can be compared.
    for action in ACTIONS:
        found, expected = (
            ways.outcome(text, mode, action, way)[:2] for way in (CheckWay.WHOLE, CheckWay.KEYS)
        )
        assert found == expected
