"""Loads on Spark beside a process that writes the same keys: one order explains both."""

from __future__ import annotations

import os
from collections import Counter
from random import Random  # noqa: TID251 - seeded, and the seed is printed
from typing import TYPE_CHECKING

import pytest
from tests.race import mutators
from tests.race.crew import Crew, Worker
from tests.race.pairs import require_settled
from tests.race.people import SCHEMA, Verb, Write, noted, replayed, state_of
from tests.race.workers import TYPED_LOSSES

from omnigraph import Graph
from omnigraph.errors import KeyConflict, OmnigraphError
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.history.commit_graph import Commit
    from omnigraph.pipeline.spark.session import PipelineSession

pytestmark = pytest.mark.timeout(600)

SETTINGS = load_settings(
    {"OMNIGRAPH_PIPELINE_SPLIT_BYTES": "400", "OMNIGRAPH_LEASE_WAIT_MS": "60000"}
)
LOADER = 9
"""The number of the process that loads, among those that write."""


def race(
    folder: Path, session: PipelineSession, *, mutating: int, count: int, loads: int
) -> Counter[str]:
    """Load on Spark while processes put and remove the same keys, then account for all writes."""
    session.require_alive()
    seed = int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))
    print(f"seed {seed}")  # noqa: T201 - shown on failure
    random = Random(seed)  # noqa: S311 - repeats with its seed
    root = folder / "graph"
    Graph.init(root, schema=SCHEMA).close()
    keys = 16
    told: Counter[str] = Counter()
    acks: list[tuple[Write, str]] = []
    with Crew(folder) as crew, Graph.open(root, actor="spark", settings=SETTINGS) as graph:
        workers = [
            crew.start(f"w{n}", mutators.mutate_keys, str(root), n, keys, count, seed)
            for n in range(mutating)
        ]
        for each in workers:
            crew.await_words(each, "start")
        for number in range(loads):
            # An append brings a key of its own and often one that somebody else puts.
            verb = random.choice([Verb.MERGE, Verb.APPEND])
            chosen = [
                f"k{each}" for each in random.sample(range(keys), 8 if verb == "merge" else 1)
            ]
            chosen += [f"own-{number}"]
            write = Write(verb=verb, keys=tuple(sorted(chosen)), value=_value(number))
            commit = load(graph, folder, write, told)
            if commit is not None:
                acks.append((write, commit.graph_commit_id))
        ended = [each.wait(400) for each in workers]
        assert ended == [0] * mutating, [each.words("crash") for each in workers]
        acks += acknowledged(workers)
        assert state_of(graph) == replayed(graph, acks)
        require_settled(graph)
    assert told["merge"] + told["append"] + told["key_conflict"] == loads
    return told


def load(graph: Graph, folder: Path, write: Write, told: Counter[str]) -> Commit | None:
    """Make one load, again when it lost; an append whose key is there is refused."""
    path = folder / f"{write.value}.jsonl"
    path.write_bytes(write._lines())
    while True:
        try:
            report = graph.load(
                path,
                mode="merge" if write.verb is Verb.MERGE else "append",
                engine="spark",
                idempotency_key=f"spark-{write.value}",
            )
        except KeyConflict as refused:
            told[refused.code] += 1
            return None
        except OmnigraphError as error:
            told[error.code] += 1
            if error.code not in TYPED_LOSSES:
                raise
        else:
            told[write.verb] += 1
            return report.commit


def _value(number: int) -> int:
    return LOADER * mutators.VALUES + number


def acknowledged(workers: list[Worker]) -> list[tuple[Write, str]]:
    return [(noted(words[1:4]), words[4]) for each in workers for words in each.words("ack")]


@pytest.mark.extended
def test_loads_on_spark_beside_a_writer_are_all_accounted_for(
    tmp_path: Path, session: PipelineSession
) -> None:
    race(tmp_path, session, mutating=1, count=40, loads=6)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_loads_on_spark_beside_three_writers_are_all_accounted_for(
    tmp_path: Path, session: PipelineSession
) -> None:
    told = race(tmp_path, session, mutating=3, count=250, loads=40)
    print(dict(told))  # noqa: T201 - the figures of the run
