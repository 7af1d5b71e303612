"""Random writes of every kind against a model: the same rows, counts and refusals, step by step."""

from __future__ import annotations

import random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.property.history_model import (
    TABLES,
    Change,
    Tables,
    applied,
    empty_tables,
    faults,
    random_schema,
)
from tests.property.history_steps import Step, Steps, require_report

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, KeyConflict, LoadRejected
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 30
QUICK, SOME, MANY, MOST = 5, 40, 500, 5_000
SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_QUERY_TIMEOUT_MS": "0"})


def state(graph: Graph, snapshot: str | None = None) -> Tables:
    """Every row of every table, by id."""
    seen = graph.snapshot(snapshot)
    found = empty_tables()
    for table in TABLES:
        listed = seen.scan(table).read_all().to_pylist()
        for row in listed:
            if "day" in row:
                row["day"] = row["day"].isoformat()
            found[table][row.pop("id")] = row
        assert len(found[table]) == len(listed) == seen.count(table)
    return found


def named(change: Change, before: Tables, after: Tables) -> Change:
    """The change with the ids that the graph made up: they ascend in the order of making."""
    found = Change(removed=change.removed, replaced=change.replaced)
    for table, records in change.records.items():
        given = {each for each, _ in records if not each.startswith("?")}
        kept = given if table in change.replaced else given | set(before[table])
        made = iter(sorted(set(after[table]) - kept))
        for entity_id, row in sorted(records, key=lambda each: _made_first(each[0])):
            known = next(made) if entity_id.startswith("?") else entity_id
            found.add(table, known, row)
    return found


def _made_first(entity_id: str) -> tuple[bool, int]:
    """Made-up ids by their number; the others stay as they are, behind them."""
    is_made = entity_id.startswith("?")
    return not is_made, int(entity_id[1:]) if is_made else 0


def refused(graph: Graph, step: Step, codes: list[str]) -> None:
    """The step is refused for these reasons, and changes nothing."""
    head = graph.snapshot().graph_commit_id
    with pytest.raises((ConstraintViolation, LoadRejected, KeyConflict)) as caught:
        step.run(graph)
    details: Any = caught.value.details  # Any: JSON
    assert details["violations"][0]["code"] == codes[0], step.text
    if isinstance(caught.value, LoadRejected):
        assert sorted(details["counts"]) == sorted(codes), step.text
    assert graph.snapshot().graph_commit_id == head, step.text


def done(graph: Graph, step: Step, before: Tables) -> tuple[Tables, str | None]:
    """The step happens as the model says; the rows after it, and its commit."""
    head = graph.snapshot().graph_commit_id
    result = step.run(graph)
    after = state(graph)
    commit = result if step.kind == "call" else result.commit
    changes = any(step.change.records.values()) or any(
        ids & set(before[table]) for table, ids in step.change.removed.items()
    )
    if step.kind == "merge":
        images = {table: step.change.image(table) for table in step.change.records}
        changes = any(
            row != before[table].get(entity_id)
            for table, image in images.items()
            for entity_id, row in image.items()
        )
    assert (commit is not None) == changes, step.text
    assert (graph.snapshot().graph_commit_id != head) == changes, step.text
    if step.kind == "mutation":
        assert (result.affected_nodes, result.affected_edges) == (step.nodes, step.edges), step.text
    wanted = applied(before, named(step.change, before, after))
    assert after == wanted, step.text
    if step.kind in ("append", "merge", "overwrite"):
        require_report(result, before, step.change)
    return wanted, None if commit is None else commit.graph_commit_id


def run_history(seed: int, path: Path) -> None:
    """One history from an empty graph on."""
    rng = random.Random(f"history {seed}")  # noqa: S311 - seeded
    schema = random_schema(rng)
    steps = Steps(rng, schema)
    rows = empty_tables()
    past: list[tuple[str, Tables]] = []
    with Graph.init(path, schema=schema.text, settings=SETTINGS) as graph:
        for _ in range(STEPS):
            step = steps.next(rows)
            codes = faults(schema, rows, step.change)
            if codes:
                refused(graph, step, codes)
            else:
                rows, commit = done(graph, step, rows)
                if commit is not None:
                    past.append((commit, rows))
            if past and rng.random() < 0.1:
                commit_then, then = rng.choice(past)
                assert state(graph, commit_then) == then
        for commit_then, then in rng.sample(past, min(3, len(past))):
            assert state(graph, commit_then) == then


_SEEDS = [
    *thinned(range(SOME), keep=QUICK),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(SOME, MANY)),
]


@pytest.mark.parametrize("seed", _SEEDS)
def test_writes_do_what_a_model_of_them_does(seed: int, tmp_path: Path) -> None:
    run_history(seed, tmp_path / "g")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(MANY, MOST, 500))
def test_writes_do_what_a_model_of_them_does_many_times(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 500):
        run_history(seed, tmp_path / f"g{seed}")
