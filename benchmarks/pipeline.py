"""What the Spark pipeline costs against plain Spark on the same rows, in one run, alternating.

Every figure is a ratio of CPU seconds of the whole process tree (driver, Java, Python workers),
beside the wall time: on a machine with other work only the first can be compared. `--target` fails
when a stated bound is missed.
"""

import argparse
import json
import os
import random  # noqa: TID251 - seeded
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omnigraph import Graph
from omnigraph.errors import LoadRejected
from omnigraph.failpoints import armed
from omnigraph.pipeline.spark.session import PipelineSession, open_session
from omnigraph.settings import load_process_settings

SCHEMA = """
node Person { slug: String @key  name: String  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""
JSON_SCHEMA = (
    "type string, edge string, `from` string, `to` string,"
    " data struct<slug:string,name:string,age:int,city:string,since:int>"
)
CITIES = ("Berlin", "Paris", "Rome", "Oslo")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Meter:
    """CPU and memory of this process and everything below it."""

    peak_bytes: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def cpu_s(self) -> float:
        """CPU seconds so far, of ended children too."""
        total = 0
        for pid in _tree(os.getpid()):
            try:
                stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            total += sum(int(each) for each in stat.rpartition(")")[2].split()[11:15])
        return total * _TICK_S

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look for the largest memory, five times a second."""

        def look() -> None:
            while not self._ended.wait(0.2):
                self.peak_bytes = max(self.peak_bytes, _resident(os.getpid()))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()


def _tree(pid: int) -> set[int]:
    found = {pid}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found |= _tree(int(child))
    except OSError:
        return found
    return found


def _resident(pid: int) -> int:
    total = 0
    for each in _tree(pid):
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * _PAGE
        except OSError:
            continue
    return total


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    wall_s: float
    cpu_s: float


@dataclass
class Bench:
    """One session, one meter, and the figures that were found."""

    folder: Path
    session: PipelineSession
    meter: Meter = field(default_factory=Meter)
    missed: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def cost(self, action: Callable[[], object]) -> Cost:
        """Run it once."""
        wall, cpu = perf_counter(), self.meter.cpu_s()
        action()
        return Cost(perf_counter() - wall, self.meter.cpu_s() - cpu)

    def compare(
        self,
        name: str,
        bound: float,
        ours: Callable[[], Cost],
        floor: Callable[[], Cost],
        rounds: int,
    ) -> None:
        """Alternate, and tell the medians; the first of each warms up and is not counted."""
        costs: tuple[list[Cost], list[Cost]] = ([], [])
        for number in range(rounds + 1):
            for which in (0, 1) if number % 2 else (1, 0):
                found = (ours, floor)[which]()
                if number:
                    costs[which].append(found)
        self.tell(name, bound, *costs)

    def tell(self, name: str, bound: float, ours: list[Cost], floor: list[Cost]) -> None:
        """The medians of both sides, and their ratio."""
        mine, theirs = (
            Cost(
                statistics.median(each.wall_s for each in side),
                statistics.median(each.cpu_s for each in side),
            )
            for side in (ours, floor)
        )
        ratio = mine.cpu_s / theirs.cpu_s
        print(
            f"{name}: {mine.cpu_s:.1f} s CPU against {theirs.cpu_s:.1f} ({ratio:.2f} x, bound"
            f" {bound}); wall {mine.wall_s:.1f} against {theirs.wall_s:.1f} s"
            f" ({mine.wall_s / theirs.wall_s:.2f} x)",
            flush=True,
        )
        self.judge(name, ratio, bound)

    def judge(self, name: str, found: float, bound: float) -> None:
        """Remember what missed its bound."""
        if found > bound:
            self.missed.append(f"{name}: {found:.2f} (bound {bound})")

    def new_graph(self) -> Graph:
        """An empty graph."""
        return Graph.init(self.folder / f"graph-{next(self.numbers)}", schema=SCHEMA)

    def out(self) -> str:
        """A folder for a baseline."""
        return str(self.folder / f"out-{next(self.numbers)}")


def write_lines(path: Path, nodes: int, edges: int, *, bad: int = 0) -> None:
    rng = random.Random(7)  # noqa: S311 - data, no secret
    with path.open("w") as out:
        for n in range(nodes):
            age = str(rng.randrange(100)) if n >= bad else '"x"'
            out.write(
                f'{{"type":"Person","data":{{"slug":"p{n:07}","name":"Name {rng.randrange(10**6)}",'
                f'"age":{age},"city":"{CITIES[n % 4]}"}}}}\n'
            )
        for n in range(edges):
            src, dst = rng.randrange(nodes), rng.randrange(nodes)
            out.write(
                f'{{"edge":"Knows","from":"p{src:07}","to":"p{dst:07}",'
                f'"data":{{"since":{1950 + n % 70}}}}}\n'
            )


def stage_costs(bench: Bench, load: Callable[[], object]) -> tuple[Cost, Cost]:
    """The intake of a load alone, from the end of its listing, and the checks after it."""
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        marks.append((perf_counter(), bench.meter.cpu_s()))

    with (
        armed("spark_load.post_list", mark),
        armed("spark_load.post_intake", mark),
        armed("spark_load.post_check", mark),
    ):
        load()
    listed, taken, checked = marks
    return (
        Cost(taken[0] - listed[0], taken[1] - listed[1]),
        Cost(checked[0] - taken[0], checked[1] - taken[1]),
    )


def load_lines(bench: Bench, lines: Path, rounds: int, rows: int) -> None:
    """NDJSON: the intake alone and the whole load, each against `spark.read.json` to Parquet."""
    spark = bench.session.spark

    def plain() -> Cost:
        return bench.cost(
            lambda: spark.read.schema(JSON_SCHEMA).json(str(lines)).write.parquet(bench.out())
        )

    def load() -> tuple[Cost, Cost, Cost]:
        with bench.new_graph() as graph:
            found: list[tuple[Cost, Cost]] = []
            whole = bench.cost(
                lambda: found.append(
                    stage_costs(bench, lambda: graph.pipeline(spark).load(lines, mode="append"))
                )
            )
            print(f"  a whole load: {rows / whole.wall_s:,.0f} rows/s with all checks", flush=True)
            return *found[0], whole

    loads: list[tuple[Cost, Cost, Cost]] = []
    plains: list[Cost] = []
    for number in range(rounds + 1):
        for is_ours in (True, False) if number % 2 else (False, True):
            if is_ours:
                loads.append(load())
            else:
                plains.append(plain())
    # The first round warms up and is not counted.
    intakes, checks, wholes = zip(*loads[1:], strict=True)
    bench.tell("NDJSON intake / read.json to Parquet", 1.0, [*intakes], plains[1:])
    bench.tell("checks of the NDJSON load / its intake", 0.5, [*checks], [*intakes])
    bench.tell("whole NDJSON load / read.json to Parquet", 1.3, [*wholes], plains[1:])


def load_parquet(bench: Bench, rounds: int, nodes: int, edges: int) -> None:
    """Parquet: read by the tasks themselves, and through Spark's reader."""
    spark = bench.session.spark
    rng = random.Random(8)  # noqa: S311 - data, no secret
    people = bench.folder / "people.parquet"
    names = [f"p{n:07}" for n in range(nodes)]
    pq.write_table(pa.table({"slug": names, "name": names}), people)
    knows = bench.folder / "knows.parquet"
    table = pa.table(
        {
            "id": [f"e{n:08}" for n in range(edges)],
            "src": [names[rng.randrange(nodes)] for _ in range(edges)],
            "dst": [names[rng.randrange(nodes)] for _ in range(edges)],
            "since": pa.array([1950 + n % 70 for n in range(edges)], pa.int32()),
        }
    )
    pq.write_table(table, knows, row_group_size=500_000)

    def plain() -> Cost:
        return bench.cost(lambda: spark.read.parquet(str(knows)).write.parquet(bench.out()))

    def intake(columns: dict[str, Any] | None) -> Cost:
        with bench.new_graph() as graph:
            pipeline = graph.pipeline(spark)
            pipeline.load(people, mode="append", type="Person")
            staged.append(
                stage_costs(
                    bench,
                    lambda: pipeline.load(knows, mode="append", edge="Knows", columns=columns),
                )
            )
            return staged[-1][0]

    staged: list[tuple[Cost, Cost]] = []
    through_spark = {name: {"expr": name} for name in table.column_names}
    bench.compare("Parquet intake / Parquet to Parquet", 1.2, lambda: intake(None), plain, rounds)
    intakes, checks = zip(*staged[1:], strict=True)
    bench.tell("checks of the Parquet load / its intake", 0.5, [*checks], [*intakes])
    bench.compare(
        "Parquet intake through Spark's reader / Parquet to Parquet",
        2.0,
        lambda: intake(through_spark),
        plain,
        rounds,
    )

    whole_parquet(bench, people, knows, rounds)
    with bench.new_graph() as graph:
        pipeline = graph.pipeline(spark)
        pipeline.load(people, mode="append", type="Person")
        pipeline.load(knows, mode="append", edge="Knows")
        indexes(bench, graph)
        copy = bench.out()
        pipeline.read(edge="Knows").write.parquet(copy)
        bench.compare(
            "p.read / Spark's scan of the same rows as Parquet",
            1.5,
            lambda: bench.cost(
                lambda: pipeline.read(edge="Knows").write.format("noop").mode("overwrite").save()
            ),
            lambda: bench.cost(
                lambda: spark.read.parquet(copy).write.format("noop").mode("overwrite").save()
            ),
            rounds,
        )
        merge(bench, graph, rounds, edges)


def whole_parquet(bench: Bench, people: Path, knows: Path, rounds: int) -> None:
    """A whole load with all checks, against DuckDB with the same keys held by unique indexes."""
    if find_spec("duckdb") is None:
        print("whole Parquet load / DuckDB: no rival, DuckDB is not installed", flush=True)
        return
    duckdb: Any = import_module("duckdb")  # Any: an optional part brings its own types

    def ours() -> None:
        with bench.new_graph() as graph:
            pipeline = graph.pipeline(bench.session.spark)
            pipeline.load(people, mode="append", type="Person")
            pipeline.load(knows, mode="append", edge="Knows")

    def theirs() -> None:
        with duckdb.connect(f"{bench.out()}.db") as made:
            made.execute("CREATE TABLE person AS FROM read_parquet($1)", [str(people)])
            made.execute("CREATE UNIQUE INDEX person_slug ON person (slug)")
            made.execute("CREATE TABLE knows AS FROM read_parquet($1)", [str(knows)])
            made.execute("CREATE UNIQUE INDEX knows_id ON knows (id)")

    bench.compare(
        "whole Parquet load / DuckDB with unique indexes",
        2.5,
        lambda: bench.cost(ours),
        lambda: bench.cost(theirs),
        rounds,
    )


def indexes(bench: Bench, graph: Graph) -> None:
    """The indexes of the edges after a load, against the same built by Lance and nothing else."""
    folder, copy = next(graph_folder(graph).glob("edges/*")), Path(bench.out())
    shutil.copytree(folder, copy)
    bare = lance.dataset(str(copy))

    def floor() -> None:
        for column in ("id", "src", "dst"):
            bare.create_scalar_index(column, "BTREE")

    ours = bench.cost(lambda: graph.maintenance.ensure_indices(types=["Knows"]))
    bench.tell("index build / bare Lance", 1.2, [ours], [bench.cost(floor)])


_TINY_RUN = """
import sys
from omnigraph import Graph
with Graph.open(sys.argv[1]) as graph, graph.pipeline() as pipeline:
    pipeline.run(sys.argv[2])
"""
_BARE_START = """
import sys
from omnigraph.pipeline.spark.session import open_session
from omnigraph.settings import load_process_settings
with open_session(load_process_settings(), command="benchmark") as session:
    session.spark.range(1).count()
"""


def tiny_run(bench: Bench, rounds: int) -> None:
    """A first run of one row in a fresh process, against a bare start of Spark and one count."""
    folder = Path(bench.out())
    folder.mkdir()
    (folder / "people.csv").write_text("slug,name\nada,Ada\n", encoding="utf-8")
    file = folder / "tiny.yaml"
    file.write_text(
        "version: 1\nname: tiny\nmode: merge\nsources: {p: {format: csv, path: people.csv}}\n"
        "nodes: [{type: Person, from: p, columns: {slug: slug, name: name}}]\n",
        encoding="utf-8",
    )

    def ours() -> Cost:
        with bench.new_graph() as graph:
            place = str(graph_folder(graph))
        return fresh(_TINY_RUN, place, str(file))

    def fresh(program: str, *arguments: str) -> Cost:
        command = [sys.executable, "-c", program, *arguments]
        return bench.cost(lambda: subprocess.run(command, check=True))

    bench.compare(
        "first tiny run / Spark start and one count", 1.3, ours, lambda: fresh(_BARE_START), rounds
    )


def merge(bench: Bench, graph: Graph, rounds: int, edges: int) -> None:
    """A merge of a fifth of the rows, against `merge_insert` of the same rows and nothing else."""
    spark = bench.session.spark
    some = [f"e{n:08}" for n in range(edges - edges // 20, edges + edges // 20)]
    rows = pa.table(
        {
            "id": some,
            "src": ["p0000001"] * len(some),
            "dst": ["p0000002"] * len(some),
            "since": pa.array([2024] * len(some), pa.int32()),
        }
    )
    changes = bench.folder / "changes.parquet"
    pq.write_table(rows, changes)
    folder = next(graph_folder(graph).glob("edges/*"))
    bare = lance.dataset(str(folder))

    def ours() -> Cost:
        marks: list[tuple[float, float]] = []

        def mark() -> None:
            marks.append((perf_counter(), bench.meter.cpu_s()))

        with (
            armed("spark_load.post_check", mark),
            armed("spark_load.post_resolve", mark),
        ):
            graph.pipeline(spark).load(changes, mode="merge", edge="Knows")
        return Cost(marks[1][0] - marks[0][0], marks[1][1] - marks[0][1])

    def floor() -> Cost:
        merging = bare.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return bench.cost(lambda: merging.execute_uncommitted(rows))

    bench.compare("driver merge / bare merge_insert", 1.3, ours, floor, rounds)


def graph_folder(graph: Graph) -> Path:
    return Path(str(graph._graph.storage.location))  # noqa: SLF001 - to look at its files


def commit_of_many(bench: Bench) -> None:
    """The commit of a hundred fragments, and that nothing is left over."""
    folder = bench.folder / "many"
    folder.mkdir()
    for n in range(100):
        line = json.dumps({"type": "Person", "data": {"slug": f"m{n}", "name": "x"}})
        (folder / f"{n:03}.jsonl").write_text(f"{line}\n")
    with bench.new_graph() as graph:
        report = graph.pipeline(bench.session.spark).load(folder, mode="append")
        (seconds,) = [each.seconds for each in report.stages if each.name == "commit"]
        print(f"commit of 100 fragments: {seconds:.2f} s (bound 1)", flush=True)
        bench.judge("commit of 100 fragments", seconds, 1.0)
        left = orphans(graph_folder(graph))
        print(f"files that no version names: {left} (bound 0)", flush=True)
        bench.judge("files that no version names", left, 0)


def orphans(root: Path) -> int:
    """Data files of tables that their newest versions do not name."""
    left = 0
    for folder in [*root.glob("nodes/*"), *root.glob("edges/*")]:
        named = {
            Path(each.path).name
            for fragment in lance.dataset(str(folder)).get_fragments()
            for each in fragment.data_files()
        }
        left += sum(1 for each in (folder / "data").glob("*.lance") if each.name not in named)
    return left


def violations(bench: Bench, nodes: int) -> None:
    """The memory of a load that is all mistakes, against the same load without one."""
    peaks = []
    for bad in (0, nodes):
        lines = bench.folder / f"bad-{bad}.jsonl"
        write_lines(lines, nodes, 0, bad=bad)
        bench.meter.peak_bytes = 0
        with bench.new_graph() as graph:
            try:
                graph.pipeline(bench.session.spark).load(lines, mode="append")
            except LoadRejected as error:
                counts = error.details["counts"]
                print(f"  refused: {counts}", flush=True)
        peaks.append(bench.meter.peak_bytes)
    ratio = peaks[1] / peaks[0]
    print(
        f"memory with {nodes:,} violations / none: {peaks[1] / 2**30:.2f} against"
        f" {peaks[0] / 2**30:.2f} GiB ({ratio:.2f} x, bound 1.1)",
        flush=True,
    )
    bench.judge("memory with violations", ratio, 1.1)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--target", action="store_true", help="fail when a bound is missed")
    asked = parser.parse_args()
    nodes, edges, rounds = asked.nodes, asked.edges, asked.rounds
    if asked.quick:
        nodes, edges, rounds = 20_000, 100_000, 1
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_session(load_process_settings(), command="benchmark") as session,
    ):
        bench = Bench(Path(scratch), session)
        lines = bench.folder / "graph.jsonl"
        write_lines(lines, nodes, edges)
        print(
            f"{nodes:,} nodes, {edges:,} edges, {lines.stat().st_size / 2**20:,.0f} MiB of NDJSON,"
            f" {os.cpu_count()} cores",
            flush=True,
        )
        with bench.meter.watching():
            load_lines(bench, lines, rounds, nodes + edges)
            peak = bench.meter.peak_bytes / 2**30
            print(f"peak memory of all processes: {peak:.2f} GiB (bound 6 GB)", flush=True)
            bench.judge("peak memory in GB", bench.meter.peak_bytes / 1e9, 6.0)
            load_parquet(bench, rounds, nodes, min(edges, 5_000_000))
            commit_of_many(bench)
            violations(bench, nodes)
            tiny_run(bench, rounds)
    for each in bench.missed:
        print(f"missed: {each}")
    return 1 if asked.target and bench.missed else 0


if __name__ == "__main__":
    sys.exit(main())
