"""What a query costs: against embedded databases, and against bare Lance on the same tables.

All systems hold one seeded social graph and are measured in one run, in alternation, after every
answer was compared; only ratios mean anything from one machine to another. Peers that are not
installed are left out. `--check` fails when a goal is missed; a wrong answer always fails.
"""

import argparse
import cProfile
import gc
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from threading import Barrier, Thread
from time import perf_counter
from typing import Final

import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers.bare_lance import RECALL, LanceSystem
from benchmarks.peers.cypher import CypherSystem
from benchmarks.peers.graph import QUERIES, GraphSystem, build_graph, table_paths
from benchmarks.peers.relational import DuckSystem
from benchmarks.peers.system import Missing, System, is_built, mark_built
from benchmarks.peers.workloads import Rival, Workload, workloads
from benchmarks.people import SIZES, People, Size, generate

from omnigraph.errors import OmnigraphError

READERS: Final = 4
READERS_GOAL: Final = 1.6
COLD_GOAL: Final = 2.0
OPERATIONS: Final = 200

_COLD_GRAPH: Final = f"""
import sys
from time import perf_counter
started = perf_counter()
import omnigraph
with omnigraph.Graph.open(sys.argv[1], mode="read_only") as graph:
    found = graph.query({QUERIES["lookup"]!r}, params={{"handle": sys.argv[2]}}).to_arrow()
    taken = perf_counter() - started
assert found.num_rows == 1
print(taken * 1e3)
"""
_COLD_LANCE: Final = """
import sys
from time import perf_counter
started = perf_counter()
import lance
rows = lance.dataset(sys.argv[1])
found = rows.to_table(columns=["name", "city", "age"], filter=f"handle = '{sys.argv[2]}'")
taken = perf_counter() - started
assert found.num_rows == 1
print(taken * 1e3)
"""


@dataclass(slots=True, kw_only=True)
class Figure:
    """One line of the table. Times are in milliseconds; rates, where more is better, per second."""

    name: str
    title: str
    goal: float
    is_rate: bool = False
    omnigraph: float | None = None
    peer: float | None = None
    peer_name: str = ""
    floor: float | None = None
    ratio: float | None = None
    recall: float | None = None
    problem: str = ""
    rounds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool | None:
        """Whether the goal is kept; `None` if there is nothing to compare with."""
        if self.problem or (self.recall is not None and self.recall < RECALL):
            return False
        if self.ratio is None:
            return None
        return self.ratio >= self.goal if self.is_rate else self.ratio <= self.goal

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return {True: "ok", False: "missed", None: "no rival"}[self.is_kept]


# --- the graph, for everyone ------------------------------------------------------------------


def write_source(folder: Path, size: Size) -> People:
    """The generated tables as Parquet, which every system loads; made once."""
    names = [each.name for each in fields(People)]
    if not is_built(folder):
        folder.mkdir(parents=True, exist_ok=True)
        people = generate(size)
        for name in names:
            parquet.write_table(getattr(people, name), folder / f"{name}.parquet")
        mark_built(folder)
    return People(**{name: parquet.read_table(folder / f"{name}.parquet") for name in names})


@contextmanager
def open_systems(folder: Path, size: Size) -> Iterator[tuple[pa.Table, list[System]]]:
    """The persons, and OmniGraph, bare Lance and the peers that are installed, in this order."""
    source = folder / "source"
    started = perf_counter()
    people = write_source(source, size)
    build_graph(folder / "omnigraph", size, people)
    print(f"graph ready after {perf_counter() - started:.0f} s", file=sys.stderr)
    systems: list[System] = [
        GraphSystem(folder / "omnigraph"),
        LanceSystem(table_paths(folder / "omnigraph")),
    ]
    for kind in (DuckSystem, CypherSystem):
        try:
            systems.append(kind(folder / kind.__name__.lower(), source))
        except Missing as missing:
            print(f"left out: {missing}; see benchmarks/README.md", file=sys.stderr)
    try:
        yield people.persons, systems
    finally:
        for system in systems:
            system.close()


# --- answers ----------------------------------------------------------------------------------


def compare_answers(workload: Workload, systems: Sequence[System], figure: Figure) -> list[System]:
    """Those who gave the right answers; what is wrong with OmniGraph's is noted in the figure."""
    able = [system for system in systems if workload.name in system.workloads]
    if workload.truth is not None:
        return able
    for case in workload.cases:
        answers: dict[str, object] = {}
        for system in able:
            try:
                found = system.rows(system.run(workload.name, case))
            except OmnigraphError as error:
                figure.problem = f"{error.code}: {error.message}"
                return [each for each in able if each is not system]
            answers[system.name] = workload.answer(found)
        (first, expected), *others = answers.items()
        differing = [name for name, answer in others if answer != expected]
        if differing:
            figure.problem = f"{first} differs from {', '.join(differing)} on {dict(case)}"
            return able
    return able


def measured_recall(workload: Workload, system: System) -> float:
    """The mean over the cases."""
    return statistics.mean(
        workload.recall(at, system.rows(system.run(workload.name, case)))
        for at, case in enumerate(workload.cases)
    )


def calibrate(workload: Workload, lance: LanceSystem) -> float:
    """Makes Lance probe as little as reaches the recall that is asked for; the recall."""
    recall = 0.0
    for probes in range(1, lance.partitions + 1):
        lance.probes[workload.name] = probes
        recall = measured_recall(workload, lance)
        if recall >= RECALL:
            break
    return recall


# --- times ------------------------------------------------------------------------------------


@contextmanager
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def time_cases(workload: Workload, system: System) -> float:
    """Milliseconds per case."""
    run, name = system.run, workload.name
    with without_collection():
        started = perf_counter()
        for case in workload.cases:
            run(name, case)
        return (perf_counter() - started) * 1e3 / len(workload.cases)


def rotated(systems: Sequence[System], by: int) -> list[System]:
    at = by % max(1, len(systems))
    return [*systems[at:], *systems[:at]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A workload, and those who take part in it."""

    workload: Workload
    figure: Figure
    systems: Sequence[System]


def prepare(workload: Workload, systems: Sequence[System]) -> Contest:
    """Compares answers, which also warms what is kept between queries."""
    figure = Figure(name=workload.name, title=workload.title, goal=workload.goal)
    graph, lance = systems[0], systems[1]
    if workload.truth is not None and isinstance(lance, LanceSystem):
        floor = calibrate(workload, lance)
        figure.recall = measured_recall(workload, graph)
        print(
            f"{workload.name}: recall {figure.recall:.3f}, lance {floor:.3f} with"
            f" {lance.probes[workload.name]} of {lance.partitions} partitions",
            file=sys.stderr,
        )
    able = compare_answers(workload, systems, figure)
    return Contest(workload=workload, figure=figure, systems=able)


def measure_all(wanted: Sequence[Workload], systems: Sequence[System], rounds: int) -> list[Figure]:
    """The times of everyone, in turns, after every query ran on every system."""
    contests = [prepare(workload, systems) for workload in wanted]
    for contest in contests:
        for system in contest.systems:
            time_cases(contest.workload, system)
    for number in range(rounds):
        for contest in contests:
            for system in rotated(contest.systems, number):
                taken = time_cases(contest.workload, system)
                contest.figure.rounds.setdefault(system.name, []).append(taken)
    for contest in contests:
        settle(contest.figure, systems[0].name, systems[1].name, contest.workload.rival)
    return [contest.figure for contest in contests]


def settle(figure: Figure, graph: str, lance: str, rival: Rival) -> None:
    """Medians and the ratio, from the rounds."""
    medians = {name: statistics.median(values) for name, values in figure.rounds.items()}
    figure.omnigraph, figure.floor = medians.pop(graph, None), medians.pop(lance, None)
    if medians:
        figure.peer_name = min(medians, key=lambda name: medians[name])
        figure.peer = medians[figure.peer_name]
    against = figure.floor if rival is Rival.FLOOR else figure.peer
    if figure.omnigraph is not None and against is not None:
        figure.ratio = figure.omnigraph / against


# --- readers side by side ---------------------------------------------------------------------


def rate(system: System, cases: Sequence[Workload], readers: int) -> float:
    """Operations per second of so many threads, each alternating between the workloads."""
    barrier = Barrier(readers + 1)
    failures: list[BaseException] = []

    def read(first: int) -> None:
        barrier.wait()
        try:
            for number in range(first, first + OPERATIONS // readers):
                workload = cases[number % len(cases)]
                system.run(workload.name, workload.cases[number % len(workload.cases)])
        except BaseException as error:  # noqa: BLE001 - it is raised again in the main thread
            failures.append(error)

    threads = [Thread(target=read, args=(number * 7,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    with without_collection():
        barrier.wait()
        started = perf_counter()
        for thread in threads:
            thread.join()
        taken = perf_counter() - started
    if failures:
        raise failures[0]
    return OPERATIONS / taken


def measure_readers(mix: Sequence[Workload], systems: Sequence[System], rounds: int) -> Figure:
    """How much more four readers get done than one."""
    figure = Figure(
        name="readers", title=f"{READERS} readers, per second", goal=READERS_GOAL, is_rate=True
    )
    graph, lance = systems[0], systems[1]
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for system in (graph, lance):
            for readers in (1, READERS):
                measured = rate(system, mix, readers)
                times.setdefault(f"{system.name}, {readers}", []).append(measured)
    medians = {name: statistics.median(values) for name, values in times.items()}
    alone = medians[f"{graph.name}, 1"]
    figure.rounds = times
    figure.omnigraph = medians[f"{graph.name}, {READERS}"]
    figure.floor = medians[f"{lance.name}, {READERS}"]
    figure.peer, figure.peer_name = alone, "one reader"
    figure.ratio = figure.omnigraph / alone
    print(
        f"readers: lance gains {figure.floor / medians[f'{lance.name}, 1']:.2f}x", file=sys.stderr
    )
    return figure


# --- a fresh process --------------------------------------------------------------------------


def measure_cold(folder: Path, handle: str, rounds: int) -> Figure:
    """Import, open and one lookup, in a new interpreter each time."""
    figure = Figure(name="cold", title="fresh process, first lookup", goal=COLD_GOAL)
    starts = {
        "omnigraph": (_COLD_GRAPH, folder / "graph"),
        "lance": (_COLD_LANCE, table_paths(folder)["Person"]),
    }
    figure.rounds = {name: [] for name in starts}
    for _ in range(rounds + 1):
        for name, (script, path) in starts.items():
            command = [sys.executable, "-c", script, str(path), handle]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            figure.rounds[name].append(float(done.stdout))
    for values in figure.rounds.values():
        del values[0]  # the first start reads files that no cache has
    settle(figure, "omnigraph", "lance", Rival.FLOOR)
    return figure


# --- the table --------------------------------------------------------------------------------


def measure(folder: Path, size: Size, rounds: int, only: frozenset[str]) -> list[Figure]:
    """The figures that are asked for; all if none are named."""
    figures: list[Figure] = []
    with open_systems(folder, size) as (persons, systems):
        known = workloads(persons)
        wanted = [each for each in known if not only or each.name in only]
        figures += measure_all(wanted, systems, rounds)
        if not only or "readers" in only:
            figures.append(measure_readers(known[:2], systems, rounds))
        if not only or "cold" in only:
            handle = str(known[0].cases[0]["handle"])
            figures.append(measure_cold(folder / "omnigraph", handle, max(3, rounds)))
    return figures


def spelt(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show(figures: Sequence[Figure]) -> None:
    print(
        f"{'ms, median':32}{'omnigraph':>10}{'best peer':>10}{'':16}{'floor':>8}{'ratio':>8}"
        f"{'goal':>8}"
    )
    for each in figures:
        sign = ">=" if each.is_rate else "<="
        recall = "" if each.recall is None else f" recall {each.recall:.3f}"
        print(
            f"{each.title:32}{spelt(each.omnigraph):>10}{spelt(each.peer):>10} {each.peer_name:15}"
            f"{spelt(each.floor):>8}{spelt(each.ratio):>8}{sign:>4}{each.goal:4}  {each.verdict}"
            f"{recall} {each.problem}".rstrip()
        )


def profile(folder: Path, size: Size, name: str, rounds: int) -> None:
    """Where the time of one workload goes, warm."""
    people = write_source(folder / "source", size)
    build_graph(folder / "omnigraph", size, people)
    known = workloads(people.persons)
    graph = GraphSystem(folder / "omnigraph")
    for workload in known:
        time_cases(workload, graph)
    asked = next(each for each in known if each.name == name)
    profiler = cProfile.Profile()
    started = perf_counter()
    for _ in range(rounds):
        for case in asked.cases:
            profiler.runcall(graph.run, name, case)
    taken = (perf_counter() - started) * 1e3 / rounds / len(asked.cases)
    print(f"{name}: {taken:.2f} ms under the profiler")
    stats = pstats.Stats(profiler)
    stats.sort_stats("cumulative").print_stats("omnigraph|lance|datafusion", 40)
    stats.sort_stats("tottime").print_stats(25)
    graph.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="s")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each figure")
    parser.add_argument("--only", default="", help="names of workloads, with commas between")
    parser.add_argument("--work", type=Path, help="where the databases are kept between runs")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--profile", metavar="WORKLOAD", help="print a profile instead")
    return parser.parse_args()


@contextmanager
def work_folder(asked: Path | None, size: Size) -> Iterator[Path]:
    if asked is not None:
        yield asked / size.name
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def run(options: argparse.Namespace, folder: Path, size: Size) -> int:
    if options.profile:
        profile(folder, size, options.profile, options.rounds)
        return 0
    only = frozenset(filter(None, options.only.split(",")))
    load = os.getloadavg()[0]
    figures = measure(folder, size, options.rounds, only)
    show(figures)
    print(
        f"size {size.name}: {size.persons:,} persons, {size.knows:,} knows; {os.cpu_count()} cores,"
        f" load average {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    if options.json:
        listed = [asdict(each) | {"verdict": each.verdict} for each in figures]
        options.json.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    is_wrong = any(each.problem for each in figures)
    is_missed = any(each.is_kept is False for each in figures)
    return 1 if is_wrong or (options.check and is_missed) else 0


def main() -> int:
    options = arguments()
    size = SIZES[options.size]
    with work_folder(options.work, size) as folder:
        return run(options, folder, size)


if __name__ == "__main__":
    sys.exit(main())
