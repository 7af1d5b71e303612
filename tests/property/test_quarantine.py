"""A load that sets bad rows aside, against the rules in plain Python."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.quarantine_inputs import SCHEMA, SEED, UNIQUES, Quarantine, random_input, seed_beside

from omnigraph import Graph
from omnigraph.errors import LoadRejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.jobs.report import JobReport

MODES = ("append", "merge", "overwrite")


@dataclass
class Seeded:
    """A graph with some rows; every load gets a branch of its own."""

    graph: Graph
    rejects: Path
    branches: int = 0

    def branch(self) -> str:
        self.branches += 1
        return f"b{self.branches}"

    def rows(self, branch: str = "main") -> dict[str, dict[str, dict[str, Any]]]:
        snapshot = self.graph.snapshot(branch=branch)
        return {
            name: {row["id"]: row for row in snapshot.scan(name).read_all().to_pylist()}
            for name in UNIQUES
        }


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    folder = tmp_path_factory.mktemp("quarantine")
    with Graph.init(folder / "graph", schema=SCHEMA) as graph:
        graph.load(SEED, mode="append")
        yield Seeded(graph, folder / "rejects")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", thinned(range(6), keep=2))
def test_the_rejected_rows_are_those_of_the_model_and_the_rest_is_committed(
    seed: int, mode: str, seeded: Seeded
) -> None:
    rng = random.Random(f"{seed} {mode}")  # noqa: S311 - a test
    # Few lines, so that an overwrite leaves something of every table.
    text = random_input(rng, rng.choice([4, 8, 60] if mode == "overwrite" else [8, 60, 150]))
    if mode == "overwrite" and rng.random() < 0.8:
        text += seed_beside(text)
    model = Quarantine(mode, seeded.rows())
    model.run(text)
    branch = seeded.branch()
    report = _loaded(seeded, text, mode, branch)
    is_allowed = model.is_settled and not model.is_blocked
    if isinstance(report, LoadRejected):
        assert not is_allowed or "leave nothing in its place" in report.message
        assert branch not in [each.name for each in seeded.graph.branches.list()]
        return
    assert is_allowed
    assert {each.table: each.read for each in report.tables}.keys() == {
        f"{'edge' if name in ('Knows', 'In') else 'node'}:{name}" for name in model.read
    }
    assert report.violations == dict(Counter(model.rejected.values()))
    for table in report.tables:
        table.require_balance()
    found = _rejects(report.rejects_uri)
    assert {each["line"]: each["code"] for each in found} == model.rejected
    assert {
        each["line"]: each["caused_by"]["line"] for each in found if "caused_by" in each
    } == model.causes
    assert [each["line"] for each in found] == sorted(model.rejected)
    clean = seeded.branch()
    seeded.graph.load(model.left(text), mode=mode, branch=clean, from_="main")  # type: ignore[arg-type]
    assert seeded.rows(branch) == seeded.rows(clean)


def _loaded(seeded: Seeded, text: bytes, mode: str, branch: str) -> JobReport | LoadRejected:
    try:
        return seeded.graph.load(
            text,
            mode=mode,  # type: ignore[arg-type]  # one of the modes
            branch=branch,
            from_="main",
            on_error="quarantine",
            rejects=str(seeded.rejects),
            max_reject_ratio=1.0,
        )
    except LoadRejected as refused:
        return refused


def _rejects(uri: str | None) -> list[dict[str, Any]]:
    if uri is None:
        return []
    return [json.loads(each) for each in Path(uri, "rejects.ndjson").read_bytes().splitlines()]
