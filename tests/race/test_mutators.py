"""Mutations and loads of many processes on one branch: nothing is lost, made twice or wedged."""

import os
from collections import Counter
from pathlib import Path
from time import perf_counter

import pytest
from tests.extended import thinned
from tests.race import mutators
from tests.race.crew import LONG_LEASE, Crew, Worker
from tests.race.pairs import require_settled
from tests.race.people import SCHEMA, State, Verb, Write, noted, replayed, state_of

from omnigraph.api import Graph

pytestmark = pytest.mark.timeout(600)


def _seed() -> int:
    return int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = tmp_path / "graph"
    Graph.init(root, schema=SCHEMA).close()
    return str(root)


def acknowledged(workers: list[Worker]) -> list[tuple[Write, str]]:
    return [(noted(words[1:4]), words[4]) for each in workers for words in each.words("ack")]


def require_explained(root: str, workers: list[Worker]) -> State:
    """History has exactly what was acknowledged, and that explains every row."""
    acks = acknowledged(workers)
    assert len({commit for _, commit in acks}) == len(acks)
    with Graph.open(root) as graph:
        state = state_of(graph)
        assert state == replayed(graph, acks)
        require_settled(graph)
    return state


def race(
    root: str, folder: Path, *, mutating: int, loading: int, count: int, timeout_s: float
) -> None:
    """Let processes put and remove the same keys, then account for every one of their writes."""
    seed, begun = _seed(), perf_counter()
    jobs = [mutators.mutate_keys] * mutating + [mutators.load_keys] * loading
    keys = 4 * len(jobs)
    with Crew(folder) as crew:
        workers = [
            crew.start(f"w{writer}", job, root, writer, keys, count, seed)
            for writer, job in enumerate(jobs)
        ]
        ended = [each.wait(timeout_s) for each in workers]
        assert ended == [0] * len(jobs), [each.words("crash") for each in workers]
    took_s = perf_counter() - begun
    require_explained(root, workers)
    told = Counter((words[2], words[1]) for each in workers for words in each.words("error"))
    made = Counter(str(write.verb) for write, _ in acknowledged(workers))
    nothing = sum(len(each.words("nothing")) for each in workers)
    assert made[Verb.UPSERT] == mutating * count
    assert made[Verb.MERGE] == loading * count
    assert made[Verb.DELETE] + nothing == mutating * (count // 5)
    print(  # noqa: T201 - the figures of the run, shown on failure and with -s
        f"seed {seed}: {took_s:.1f} s, {dict(made)}, {nothing} deletes of nothing, lost {told}"
    )


@pytest.mark.extended
def test_upserts_beside_deletes_are_all_accounted_for(root: str, tmp_path: Path) -> None:
    race(root, tmp_path, mutating=4, loading=0, count=10, timeout_s=150)


@pytest.mark.extended
def test_loads_beside_mutations_are_all_accounted_for(root: str, tmp_path: Path) -> None:
    race(root, tmp_path, mutating=2, loading=1, count=5, timeout_s=150)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("loading", [0, 2], ids=["alone", "beside loads"])
def test_two_hundred_upserts_of_each_of_eight_processes_are_all_accounted_for(
    root: str, tmp_path: Path, loading: int
) -> None:
    race(root, tmp_path, mutating=8, loading=loading, count=200, timeout_s=3500)


def in_rounds(root: str, folder: Path, verb: Verb, *, size: int, rounds: int) -> list[Worker]:
    """As many processes as `size` make the same kind of write at once, so many times."""
    place = folder / "meetings"
    place.mkdir()
    with Crew(folder) as crew:
        workers = [
            crew.start(
                f"w{writer}",
                mutators.write_in_rounds,
                root,
                writer,
                verb,
                rounds,
                str(place),
                size,
                **LONG_LEASE,
            )
            for writer in range(size)
        ]
        ended = [each.wait(150) for each in workers]
        assert ended == [0] * size, [each.words("crash") for each in workers]
    return workers


def per_round(workers: list[Worker], kind: str, value_at: int) -> Counter[int]:
    """How many words of a kind each round has; a value says of which round it is."""
    found = (words[value_at] for each in workers for words in each.words(kind))
    return Counter(int(value) % mutators.VALUES for value in found)


@pytest.mark.extended
def test_of_updates_of_one_row_one_wins_each_round(root: str, tmp_path: Path) -> None:
    first = Write(verb=Verb.UPSERT, keys=("one",), value=-1)
    with Graph.open(root) as graph:
        commit = first.send(graph)
        assert commit is not None
    workers = in_rounds(root, tmp_path, Verb.UPDATE, size=3, rounds=5)
    assert per_round(workers, "ack", 3) == dict.fromkeys(range(5), 1)
    assert per_round(workers, "lost", 4) == dict.fromkeys(range(5), 2)
    assert {words[1] for each in workers for words in each.words("lost")} == {"read_set_conflict"}
    acks = [*acknowledged(workers), (first, commit.graph_commit_id)]
    with Graph.open(root) as graph:
        assert state_of(graph) == replayed(graph, acks)
        require_settled(graph)


def test_inserts_of_one_new_key_leave_one_row_and_every_edge(root: str, tmp_path: Path) -> None:
    workers = in_rounds(root, tmp_path, Verb.UPSERT, size=3, rounds=4)
    assert per_round(workers, "ack", 3) == dict.fromkeys(range(4), 3)
    state = require_explained(root, workers)
    assert sorted(state.people) == [f"new-{number}" for number in range(4)]
    assert Counter(name for name, _ in state.said) == {f"new-{n}": 3 for n in range(4)}


def test_of_appends_of_one_new_key_one_wins_each_round(root: str, tmp_path: Path) -> None:
    workers = in_rounds(root, tmp_path, Verb.APPEND, size=3, rounds=4)
    assert per_round(workers, "ack", 3) == dict.fromkeys(range(4), 1)
    assert per_round(workers, "lost", 4) == dict.fromkeys(range(4), 2)
    assert {words[1] for each in workers for words in each.words("lost")} == {"key_conflict"}
    state = require_explained(root, workers)
    assert Counter(name for name, _ in state.said) == {f"new-{n}": 1 for n in range(4)}


@pytest.mark.parametrize("verb", thinned(["update", "upsert", "insert"]))
def test_writers_of_their_own_tuples_never_meet(tmp_path: Path, verb: str) -> None:
    """Each is prepared once, however many stage beside it: no conflict, and nobody starves."""
    size, rounds = 4, 4
    root, place = tmp_path / "graph", tmp_path / "meetings"
    place.mkdir()
    with Graph.init(root, schema=mutators.MEMBERS) as graph:
        for writer in range(size):
            graph.mutate(mutators.own_write("upsert", writer, 0))
    with Crew(tmp_path) as crew:
        workers = [
            crew.start(
                f"w{writer}",
                mutators.write_own_tuples,
                str(root),
                writer,
                verb,
                rounds,
                str(place),
                size,
                **LONG_LEASE,
            )
            for writer in range(size)
        ]
        ended = [each.wait(150) for each in workers]
        assert ended == [0] * size, [each.words("crash") for each in workers]
    assert [words for each in workers for words in each.words("lost")] == []
    acks = [words[1:] for each in workers for words in each.words("ack")]
    assert sorted(acks) == sorted([[str(each), "1"] for each in range(rounds)] * size)
    with Graph.open(root) as graph:
        found = graph.snapshot().scan("Member").read_all().to_pylist()
        require_settled(graph)
    expected = {f"w{writer}": rounds - 1 for writer in range(size)}
    if verb == "insert":
        expected = dict.fromkeys(expected, 0) | {
            f"w{writer}-{number}": number for writer in range(size) for number in range(rounds)
        }
    assert {row["name"]: row["visits"] for row in found} == expected
