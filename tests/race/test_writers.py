"""Writers, readers and a compactor in processes of their own, killed and stopped at random."""

import os
import threading
from collections import Counter
from pathlib import Path
from time import perf_counter

import pytest
from tests.race import workers
from tests.race.crew import ENVIRONMENT, Crew, Disturbance, Worker
from tests.race.pairs import SCHEMA, commit_ids, pairs_of, require_settled, write_pair

from omnigraph.api import Graph
from omnigraph.errors import OmnigraphError

CHANCE = 0.01
"""That a writer kills itself at a step of the protocol."""


def _seed() -> int:
    return int(os.environ.get("RACE_SEED") or int.from_bytes(os.urandom(4), "big"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = tmp_path / "graph"
    Graph.init(root, schema=SCHEMA).close()
    return str(root)


def _race(
    root: str,
    folder: Path,
    *,
    writers: dict[str, str],
    commits: int,
    disturbance: Disturbance,
    compacts: bool,
    timeout_s: float,
) -> None:
    """Runs writers (name to branch) beside two readers, and checks every promise at the end."""
    branches = sorted(set(writers.values()))
    stop = folder / "stop"
    begun = perf_counter()
    with Crew(folder) as crew:
        crews = {
            name: crew.start(
                name, workers.write_keys, root, branch, name, commits, disturbance.seed, CHANCE
            )
            for name, branch in writers.items()
        }
        beside = [
            crew.start(f"reader-{number}", workers.read_states, root, branches, str(stop))
            for number in range(2)
        ]
        if compacts:
            beside.append(crew.start("compactor", workers.compact_lines, root, branches, str(stop)))
        disturbance.run(crew, list(crews.values()), timeout_s=timeout_s)
        stop.touch()
        assert [each.wait(30) for each in beside] == [0] * len(beside), [
            each.words("crash") for each in beside
        ]
    took_s = perf_counter() - begun
    _require_every_promise(root, crews, writers, commits)
    _report(root, crews, beside, disturbance, branches, took_s)


def _require_every_promise(
    root: str, crews: dict[str, Worker], writers: dict[str, str], commits: int
) -> None:
    errors = [words for each in crews.values() for words in each.words("error")]
    unexpected = [words for words in errors if words[1] not in workers.TYPED_LOSSES]
    assert unexpected == []
    assert [words for each in crews.values() for words in each.words("stolen", "crash")] == []
    branches = sorted(set(writers.values()))
    with Graph.open(root) as graph:
        for branch in branches:
            expected = sorted(
                f"{name}-{number}"
                for name, its_branch in writers.items()
                if its_branch == branch
                for number in range(commits)
            )
            assert pairs_of(graph.snapshot(branch=branch)) == expected
            known = commit_ids(graph, branch)
            acks = [
                words[2]
                for name, each in crews.items()
                if writers[name] == branch
                for words in each.words("ack")
            ]
            assert len(acks) == len(set(acks))
            assert set(acks) <= known
        write_pair(graph, "after-the-race")
        require_settled(graph, branches)


def _report(
    root: str,
    crews: dict[str, Worker],
    beside: list[Worker],
    disturbance: Disturbance,
    branches: list[str],
    took_s: float,
) -> None:
    told = Counter(words[1] for each in crews.values() for words in each.words("error"))
    notes = Counter(words[0] for each in crews.values() for words in each.words("ack", "found"))
    with Graph.open(root, mode="read_only") as graph:
        recovered = Counter(
            each.recovery_kind
            for branch in branches
            for each in graph.maintenance.recoveries(branch=branch, limit=10_000)
        )
    deaths = Counter(words[1] for each in crews.values() for words in each.words("died"))
    looks = [words[1:] for each in beside for words in each.words("looks", "compactions")]
    print(  # noqa: T201 - the figures of the run, shown on failure and with -s
        f"seed {disturbance.seed}: {took_s:.1f} s, {dict(notes)}, {dict(disturbance.done)},"
        f" died at {dict(deaths)}, recoveries {dict(recovered)}, errors {dict(told)},"
        f" readers and compactor {looks}"
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("commits", "kills", "stops"),
    [(3, 2, 1), pytest.param(15, 8, 3, marks=pytest.mark.extended)],
    ids=["few", "some"],
)
def test_killed_writers_of_two_branches_lose_nothing_beside_readers_and_a_compactor(
    root: str, tmp_path: Path, commits: int, kills: int, stops: int
) -> None:
    with Graph.open(root) as graph:
        graph.branches.create("side")
    seed = _seed()
    print(f"seed {seed}")  # noqa: T201
    _race(
        root,
        tmp_path,
        writers={"w0": "main", "w1": "main", "w2": "side", "w3": "side"},
        commits=commits,
        disturbance=Disturbance(seed=seed, kills=kills, stops=stops),
        compacts=True,
        timeout_s=150,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("compacts", [False, True], ids=["alone", "beside a compactor"])
@pytest.mark.parametrize("branches", [("main",), ("main", "side")], ids=["one", "two"])
def test_eight_killed_writers_lose_nothing(
    root: str, tmp_path: Path, branches: tuple[str, ...], *, compacts: bool
) -> None:
    with Graph.open(root) as graph:
        for each in branches[1:]:
            graph.branches.create(each)
    seed = _seed()
    print(f"seed {seed}")  # noqa: T201
    _race(
        root,
        tmp_path,
        writers={f"w{number}": branches[number % len(branches)] for number in range(8)},
        commits=50,
        disturbance=Disturbance(seed=seed, kills=80, stops=20),
        compacts=compacts,
        timeout_s=1700,
    )


@pytest.mark.parametrize("keys", [2, pytest.param(5, marks=pytest.mark.extended)])
def test_eight_threads_of_one_graph_commit_every_key_once(root: str, keys: int) -> None:
    failures: list[str] = []

    def write(thread: int) -> None:
        for number in range(keys):
            try:
                write_pair(graph, f"{thread}-{number}")
            except OmnigraphError as error:
                failures.append(f"{error.code}: {error}")

    with Graph.open(root) as graph:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failures == []
        wanted = sorted(f"{t}-{n}" for t in range(8) for n in range(keys))
        assert pairs_of(graph.snapshot()) == wanted
        require_settled(graph)


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.extended)])
def test_eight_threads_that_upsert_one_key_leave_it_once(root: str, times: int) -> None:
    failures: list[str] = []

    def write() -> None:
        for _ in range(times):
            try:
                write_pair(graph, "same", upsert=True)
            except OmnigraphError as error:
                failures.append(f"{error.code}: {error}")

    with Graph.open(root) as graph:
        threads = [threading.Thread(target=write) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failures == []
        assert pairs_of(graph.snapshot()) == ["same"]
        require_settled(graph)


def test_another_process_sees_a_commit_at_its_next_snapshot(root: str, tmp_path: Path) -> None:
    questions = tmp_path / "questions"
    questions.touch()
    with Crew(tmp_path) as crew, Graph.open(root) as graph:
        other = crew.start("other", workers.answer_heads, root, str(questions))
        crew.await_words(other, "ready")
        commits = []
        for number in range(10):
            commits.append(write_pair(graph, f"k{number}").graph_commit_id)
            with questions.open("a") as file:
                file.write(f"{number}\n")
            while len(other.words("head")) <= number:
                assert other.is_alive, other.words()
        with questions.open("a") as file:
            file.write("end\n")
        assert other.wait(30) == 0
    assert [words[2] for words in other.words("head")] == commits


def test_the_environment_of_the_race_has_short_leases() -> None:
    assert int(ENVIRONMENT["OMNIGRAPH_LEASE_TTL_MS"]) <= 1000
