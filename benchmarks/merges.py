"""What a merge and a diff of a few rows cost in a small and in a large table, in one run.

The tables have a vector of 768 numbers in each row, which nobody may read without need. Calls to
the store are counted, because they do not depend on the machine; the sizes take turns. `--target`
fails when a stated bound is missed.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.commits import Counting

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.merge.merge_result import MergeResult
from omnigraph.ids import UlidSource
from omnigraph.settings import load_settings
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

WIDTH = 768
SCHEMA = f"node Doc {{ name: String @key  mark: I32?  body: Vector({WIDTH}) }}"
CHANGED, ADDED = 50, 10
NEW = 10_000_000
ROUNDS = 9
ROWS_PER_COMMIT = 50_000
CALLS_BOUND, MEMORY_BOUND_MIB, TIME_BOUND = 1.1, 300.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one kind of work cost at one size."""

    calls: int
    seconds: float
    grown_mib: float


def docs(start: int, count: int, seed: int = 0) -> pa.Table:
    """Rows whose numbers follow each other."""
    rng = np.random.default_rng([start, seed])
    numbers = rng.random(count * WIDTH, np.float32)
    return pa.table(
        {
            "name": [f"d{number:09d}" for number in range(start, start + count)],
            "mark": pa.array([seed] * count, pa.int32()),
            "body": pa.FixedSizeListArray.from_arrays(pa.array(numbers), WIDTH),
        }
    )


def fill(where: Path, count: int, *, is_indexed: bool) -> None:
    """A graph of so many rows, written in portions."""
    with Graph.init(where, schema=SCHEMA) as graph:
        for start in range(0, count, ROWS_PER_COMMIT):
            with graph.write() as writer:
                writer.append("Doc", docs(start, min(ROWS_PER_COMMIT, count - start)))
                writer.commit()
        if is_indexed:
            graph.maintenance.ensure_indices()


@contextmanager
def counted(where: Path) -> Iterator[tuple[Graph, Counting]]:
    """An open graph whose calls to the store are counted."""
    settings = load_settings(os.environ).storage
    clock, counting = SystemClock(), Counting()
    ids = UlidSource(clock)
    storage = open_storage(parse_location(str(where), settings), settings, ids, observer=counting)
    with Graph(GraphCoordinator(storage, settings, clock, ids), None, owns=True) as graph:
        yield graph, counting


def change(graph: Graph, branch: str, start: int, seed: int) -> None:
    """Forty rows written anew and ten added, in one commit."""
    rows = [docs(start, CHANGED - ADDED, seed), docs(NEW + start + seed * CHANGED, ADDED, seed)]
    with graph.write(branch) as writer:
        writer.upsert("Doc", pa.concat_tables(rows))
        writer.commit()


def measure(folders: Sequence[Path]) -> list[dict[str, Cost]]:
    """Merges from a new branch, with one that has been merged before, and diffs of one commit.

    The target has changed as many other rows meanwhile. The graphs take turns, so that other work
    of the machine meets all of them.
    """
    taken: list[dict[str, list[tuple[int, float, float]]]] = [{} for _ in folders]
    with ExitStack() as stack:
        graphs = [stack.enter_context(counted(where)) for where in folders]
        for graph, _ in graphs:
            graph.branches.create("long")
        for number in range(ROUNDS + 1):
            for (graph, counting), costs in zip(graphs, taken, strict=True):
                for name, call in prepared(graph, number).items():
                    costs.setdefault(name, []).append(one_cost(call, counting))
    return [{name: summed(each) for name, each in costs.items()} for costs in taken]


def prepared(graph: Graph, number: int) -> dict[str, Callable[[], object]]:
    """Branches that went apart, and what is then done with them."""
    graph.branches.create(f"b{number}")
    change(graph, f"b{number}", 500, number + 1)
    change(graph, "long", 1_000, number + 1)
    change(graph, "main", 1_500, number + 1)
    made: list[MergeResult] = []
    return {
        "merge": lambda: made.append(graph.branches.merge(f"b{number}")),
        "diff": lambda: told(graph, made[0]),
        "merge there": partial(graph.branches.merge, "long"),
        "merge back": partial(graph.branches.merge, "main", into="long"),
    }


def summed(costs: list[tuple[int, float, float]]) -> Cost:
    """The first round warms up what is kept; its memory counts.

    Calls are those of all rounds together: now and then one joins fragments or removes old versions
    of the manifest, and when its turn comes has nothing to do with the size of the table.
    """
    return Cost(
        calls=sum(cost[0] for cost in costs[1:]),
        seconds=statistics.median(cost[1] for cost in costs[1:]),
        grown_mib=max(cost[2] for cost in costs),
    )


def told(graph: Graph, made: MergeResult) -> int:
    """How many entities the commit of a merge changed."""
    if made.commit is None:
        raise SystemExit("the merge had nothing to do")
    return len(list(graph.diff(str(made.commit.parent_commit_id), made.commit.graph_commit_id)))


def one_cost(call: Callable[[], object], counting: Counting) -> tuple[int, float, float]:
    counting.calls = Counter()
    Path("/proc/self/clear_refs").write_text("5")  # The peak begins anew.
    before = peak_mib()
    start = perf_counter()
    call()
    return sum(counting.calls.values()), perf_counter() - start, peak_mib() - before


def peak_mib() -> float:
    """The most memory that this process had since the peak began."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(each.split()[1]) for each in status if each.startswith("VmHWM")) / 1024


def measured(folder: Path, sizes: Sequence[int], *, is_indexed: bool) -> list[dict[str, Cost]]:
    """The costs at each size, in processes of their own: what was freed before would hide some."""
    folders = [folder / f"g{count}" for count in sizes]
    for where, count in zip(folders, sizes, strict=True):
        in_process_of_its_own(partial(fill, is_indexed=is_indexed), where, count)
    costs: list[dict[str, Cost]] = in_process_of_its_own(measure, folders)
    return costs


def in_process_of_its_own(work: Callable[..., Any], *given: object) -> Any:  # noqa: ANN401
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *given).result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="store_true", help="fail when a bound is missed")
    parser.add_argument("--quick", action="store_true", help="2,000 and 20,000 rows")
    parser.add_argument("--bare", action="store_true", help="without the index that finds a row")
    options = parser.parse_args()
    small, large = (2_000, 20_000) if options.quick else (10_000, 1_000_000)
    missed = []

    def report(name: str, text: str, value: float, bound: float) -> None:
        state = "met" if value <= bound else "missed"
        print(f"{name:24} {text:44} {value:8.2f}  bound {bound:6.1f}  {state}", flush=True)
        if value > bound:
            missed.append(name)

    with tempfile.TemporaryDirectory() as folder:
        many, few = measured(Path(folder), (large, small), is_indexed=not options.bare)
    print(f"{CHANGED} rows, in tables of {small:,} and {large:,} rows with vectors of {WIDTH}")
    for name in few:
        here, there = few[name], many[name]
        calls = max(there.calls, here.calls) / min(there.calls, here.calls)
        report(f"{name}: calls", f"{here.calls} / {there.calls}", calls, CALLS_BOUND)
        shown = f"{here.seconds * 1e3:.1f} / {there.seconds * 1e3:.1f} ms"
        report(f"{name}: time", shown, there.seconds / here.seconds, TIME_BOUND)
        shown = f"{here.grown_mib:.0f} / {there.grown_mib:.0f} MiB"
        report(f"{name}: memory, large", shown, there.grown_mib, MEMORY_BOUND_MIB)
    return 1 if options.target and missed else 0


if __name__ == "__main__":
    sys.exit(main())
