"""Whether a graph stays as quick as it was: ten thousand small commits, and reads before and after.

Inserts, updates, deletes and edges come mixed, one row a commit, on a graph with text and vector
indexes. What is compared is the same graph before and after, in one run: the latency of the last
commits with the first, of reads afterwards with reads of the fresh graph, its fragments, and its
files on disk with those of an equal graph that was loaded at once: its clone. `--target` fails when
a bar is missed; `--plot FILE` writes latency against commits as an SVG picture.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.maintenance.kept_versions import WORK_DAYS
from omnigraph.graph.maintenance.reconciler import run_due
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.ids import MAIN_BRANCH_ID, UlidSource
from omnigraph.settings import load_settings
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

WIDTH = 64
SCHEMA = f"""
node Person {{ name: String @key  bio: String? @index  age: I32?  vec: Vector({WIDTH})? @index }}
edge Knows: Person -> Person {{ since: I32? }}
"""
QUERIES = """
query insert($n: String, $v: Vector(64)) {
  insert Person { name: $n, age: 30, bio: "a fresh text", vec: $v }
}
query update($n: String, $a: I32) { update Person set { age: $a } where name = $n }
query delete($n: String) { delete Person where name = $n }
query edge($a: String, $b: String) { insert Knows { from: $a, to: $b, since: 5 } }
query lookup($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age, $p.bio } }
query one_hop($n: String) { match { $p: Person { name: $n }  $p knows $f } return { $f.name } }
query two_hops($n: String) {
  match { $p: Person { name: $n }  $p knows $f  $f knows $g } return { $g.name, $g.age } limit 50
}
query text($w: String) {
  match { $p: Person  search($p.bio, $w) } return { $p.name } order { bm25($p.bio, $w) } limit 10
}
query vector($v: Vector(64)) {
  match { $p: Person } return { $p.name } order { nearest($p.vec, $v) } limit 10
}
"""
COMMIT_BAR, READ_BAR, FRAGMENT_BAR, DISK_BAR = 1.5, 1.5, 40, 10.0


@dataclass(frozen=True)
class Sizes:
    """How large the graph is, and how often it is written to."""

    nodes: int
    edges: int
    commits: int
    window: int


QUICK = Sizes(nodes=10_000, edges=50_000, commits=1_000, window=100)
FULL = Sizes(nodes=100_000, edges=1_000_000, commits=10_000, window=200)


class Workload:
    """One graph and what is asked of it; the same for a seed."""

    def __init__(self, graph: Graph, sizes: Sizes) -> None:
        self.graph = graph
        self._sizes = sizes
        self._chance = Random(7)  # noqa: S311 - no secret
        self._fresh = 0
        self._deletable: list[str] = []

    def write(self) -> None:
        """One commit of one row."""
        kind = self._chance.random()
        if kind < 0.4:
            self._fresh += 1
            self._deletable.append(f"n{self._fresh}")
            self._mutate("insert", n=f"n{self._fresh}", v=self._vector())
        elif kind < 0.7:
            self._mutate("update", n=self._known(), a=self._chance.randrange(90))
        elif kind < 0.8 and self._deletable:
            # Each only once: a deletion of what is gone is no commit.
            gone = self._deletable.pop(self._chance.randrange(len(self._deletable)))
            self._mutate("delete", n=gone)
        else:
            self._mutate("edge", a=self._known(), b=self._known())

    def reads(self) -> dict[str, Callable[[], object]]:
        """Every kind of read, with other arguments at each call."""
        return {
            "key lookup": lambda: self._query("lookup", n=self._known()),
            "one hop": lambda: self._query("one_hop", n=self._known()),
            "two hops": lambda: self._query("two_hops", n=self._known()),
            "text": lambda: self._query("text", w=f"word{self._chance.randrange(500)}"),
            "vector": lambda: self._query("vector", v=self._vector()),
        }

    def _mutate(self, name: str, **params: object) -> None:
        self.graph.mutate(QUERIES, name, params)

    def _query(self, name: str, **params: object) -> object:
        return self.graph.query(QUERIES, name, params).to_arrow()

    def _known(self) -> str:
        return f"p{self._chance.randrange(self._sizes.nodes)}"

    def _vector(self) -> list[float]:
        return [self._chance.random() for _ in range(WIDTH)]


def people(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    vectors = np.random.default_rng(start).random(count * WIDTH, dtype=np.float32)
    return pa.table(
        {
            "name": [f"p{number}" for number in numbers],
            "bio": [f"word{number % 500} and thing{number % 77}" for number in numbers],
            "age": pa.array([number % 90 for number in numbers], pa.int32()),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors), WIDTH),
        }
    )


def make_graph(where: Path, sizes: Sizes) -> Graph:
    graph = Graph.init(where, schema=SCHEMA)
    chance = np.random.default_rng(3)
    ends = chance.integers(0, sizes.nodes, (2, sizes.edges))
    with graph.write() as writer:
        writer.append("Person", people(0, sizes.nodes))
        writer.append(
            "Knows",
            pa.table(
                {
                    "src": [f"p{number}" for number in ends[0]],
                    "dst": [f"p{number}" for number in ends[1]],
                    "since": pa.array(np.arange(sizes.edges), pa.int32()),
                }
            ),
        )
        writer.commit()
    graph.maintenance.ensure_indices()
    return graph


class Times(NamedTuple):
    """Milliseconds by the clock on the wall, and of processors: those of others do not count."""

    wall: float
    cpu: float

    def over(self, other: "Times") -> str:
        """The ratio of both kinds, as text."""
        return f"{self.wall / other.wall:.2f} x (processor {self.cpu / other.cpu:.2f} x)"


def timed(call: Callable[[], object]) -> Times:
    start, start_cpu = perf_counter(), process_time()
    call()
    return Times((perf_counter() - start) * 1e3, (process_time() - start_cpu) * 1e3)


def median(times: Sequence[Times]) -> Times:
    walls, cpus = zip(*times, strict=True)
    return Times(statistics.median(walls), statistics.median(cpus))


def measured(workload: Workload, calls: int = 41) -> dict[str, Times]:
    """The median of each read when the caches are warm."""
    medians = {}
    for name, read in workload.reads().items():
        for _ in range(3):
            read()
        medians[name] = median([timed(read) for _ in range(calls)])
    return medians


def fragments(graph: Graph) -> dict[str, int]:
    parts = graph._graph  # noqa: SLF001 - fragments are no public matter
    line = parts.lines.read(MAIN_BRANCH_ID)
    layouts = parts.schemas.tables(line.schema.schema_hash).layouts
    return {
        pin.table_key: len(parts.tables.fragments(parts.tables.open(layouts[ref], pin_of(pin))))
        for ref, pin in line.pins.items()
    }


class Later(SystemClock):
    """The time in eight days: what a retention of seven keeps is then known to be kept for it."""

    def now_us(self) -> int:
        """Microseconds since the epoch, as they will be then."""
        return super().now_us() + 8 * 24 * 3600 * 1_000_000


def reconcile(where: Path) -> None:
    """What a server does by itself, when a week has passed."""
    settings = load_settings(os.environ).storage
    clock = Later()
    ids = UlidSource(clock)
    storage = open_storage(parse_location(str(where), settings), settings, ids)
    graph = GraphCoordinator(storage, settings, clock, ids)
    try:
        run_due(graph, work_days=WORK_DAYS)
    finally:
        graph.close()


def plot(path: Path, times: list[Times], window: int) -> None:
    """Medians of consecutive commits as a line, in a picture without dependencies."""
    medians = [
        median(times[start : start + window]).wall
        for start in range(0, len(times) - window + 1, window)
    ]
    top = max(medians) * 1.2
    points = " ".join(
        f"{40 + 740 * number / max(1, len(medians) - 1):.0f},{260 - 240 * value / top:.0f}"
        for number, value in enumerate(medians)
    )
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="300" font-family="sans-serif"'
        ' font-size="12"><rect width="800" height="300" fill="white"/>'
        f'<polyline fill="none" stroke="black" points="{points}"/>'
        f'<text x="40" y="290">{len(times):,} commits, medians of {window}</text>'
        f'<text x="2" y="24">{top:.0f} ms</text><text x="2" y="262">0</text></svg>'
    )


def run(sizes: Sizes, folder: Path, picture: Path | None) -> list[tuple[str, str, bool]]:
    """The rows of the table: what, how much, and whether its bar is missed."""
    where = folder / "g"
    graph = make_graph(where, sizes)
    workload = Workload(graph, sizes)
    before = measured(workload)
    times = [timed(workload.write) for _ in range(sizes.commits)]
    after = measured(workload)
    counts = fragments(graph)
    graph.close()
    reconcile(where)
    Graph.clone(where, folder / "equal").close()
    left_files, fresh_files = files_and_bytes(where), files_and_bytes(folder / "equal")
    if picture is not None:
        plot(picture, times, sizes.window)
    first, last = median(times[: sizes.window]), median(times[-sizes.window :])
    mean = statistics.mean(each.wall for each in times)
    rows = [
        (
            f"a commit, first / last {sizes.window} of {sizes.commits:,}; mean of all",
            f"{first.wall:.1f} / {last.wall:.1f} ms, {last.over(first)}; {mean:.1f} ms",
            last.wall / first.wall > COMMIT_BAR,
        )
    ]
    rows += [
        (
            f"{name}, fresh / after",
            f"{fresh.wall:.2f} / {after[name].wall:.2f} ms, {after[name].over(fresh)}",
            after[name].wall / fresh.wall > READ_BAR,
        )
        for name, fresh in before.items()
    ]
    most = max(counts.values())
    rows.append(("fragments of a table, most", str(most), most > FRAGMENT_BAR))
    for what, now, then in zip(("files", "bytes"), left_files, fresh_files, strict=True):
        rows.append(
            (
                f"{what} on disk after upkeep, a week later",
                f"{now / then:.1f} x",
                now / then > DISK_BAR,
            )
        )
    return rows


def files_and_bytes(folder: Path) -> tuple[int, int]:
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def main() -> int:
    """Print the table; with `--target` fail on a missed bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small graph, 1,000 commits")
    parser.add_argument("--target", action="store_true", help="fail when a bar is missed")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="latency against commits")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="steady-"))
    try:
        rows = run(QUICK if options.quick else FULL, folder, options.plot)
    finally:
        shutil.rmtree(folder)
    print(f"load average {os.getloadavg()[0]:.1f}")
    for name, text, is_missed in rows:
        print(f"{name:60} {text}{'  MISSED' if is_missed else ''}")
    return int(options.target and any(is_missed for *_, is_missed in rows))


if __name__ == "__main__":
    sys.exit(main())
