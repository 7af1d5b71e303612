"""What mutations and loads cost against bare Lance and `pyarrow.json`, in one run, alternating.

Floors leave out what nobody may leave out of a database: checks, ids, leases, sidecars, syncs.
`--target` fails when a stated bound is missed.
"""

import argparse
import io
import json
import os
import random  # noqa: TID251 - seeded
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import lance
import pyarrow as pa
import pyarrow.json as pj
from lance import LanceDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.commits import Floor, timed

from omnigraph import Graph

ONE_ROW = "node Person { name: String @key  age: I32? }"
PEOPLE = """node Person {
  slug: String @key
  name: String
  age: I32?
  city: String?
  score: F64?
  joined: Date?
  bio: String?
}"""
INSERT = "query add($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
INSERT_BOUND, UPSERT_BOUND, LOAD_BOUND, MEMORY_BOUND_MIB = 2.5, 2.0, 3.0, 600.0


def alternating(
    rounds: int, ours: Callable[[], object], floor: Callable[[], object]
) -> tuple[float, float]:
    """Medians in milliseconds, each first in half of the rounds; the first round is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            taken = timed((ours, floor)[which])
            if number:
                times[which].append(taken)
    return statistics.median(times[0]) * 1e3, statistics.median(times[1]) * 1e3


def one_row(folder: Path, rounds: int) -> tuple[float, float]:
    """A durable mutation of one row, against a staged upsert and a manifest merge."""
    graph = Graph.init(folder / "graph", schema=ONE_ROW)
    floor = Floor(folder / "floor", folder / "graph" / "__manifest")
    numbers = iter(range(1_000_000))
    try:
        return alternating(
            rounds,
            lambda: graph.mutate(INSERT, params={"n": f"p{next(numbers)}", "a": 1}),
            floor.commit,
        )
    finally:
        graph.close()


def people(first: int, rows: int) -> pa.Table:
    rng = random.Random(first)  # noqa: S311 - data, no secret
    return pa.table(
        {
            "slug": [f"person-{number:08d}" for number in range(first, first + rows)],
            "name": [f"Name {rng.randrange(10**6)}" for _ in range(rows)],
            "age": pa.array([rng.randrange(100) for _ in range(rows)], pa.int32()),
            "city": [rng.choice(("Berlin", "Paris", "Rome", "Oslo")) for _ in range(rows)],
            "score": [rng.random() for _ in range(rows)],
            "joined": pa.array([rng.randrange(18_000) for _ in range(rows)], pa.int32()).view(
                pa.date32()
            ),
            "bio": ["text of about sixty bytes, more or less, to be a real row"] * rows,
        }
    )


def upsert(folder: Path, size: int, rounds: int) -> tuple[float, float]:
    """A thousand rows merged into a table of `size`, half of them new."""
    graph = Graph.init(folder / "graph", schema=PEOPLE)
    for first in range(0, size, 100_000):
        graph.load({"Person": people(first, min(100_000, size - first))}, mode="append")
    graph.maintenance.ensure_indices()
    base = people(0, size)
    base = base.add_column(0, "id", base["slug"])
    table = lance.write_dataset(
        base, folder / "floor", data_storage_version="2.2", enable_stable_row_ids=True
    )
    table.create_scalar_index("id", "BTREE")
    held = {"table": lance.dataset(folder / "floor")}
    starts = iter(range(size - 500, 10**9, 500))

    def bare() -> None:
        rows = people(next(starts), 1_000)
        merge = held["table"].merge_insert("id").when_matched_update_all()
        staged, _ = merge.when_not_matched_insert_all().execute_uncommitted(
            rows.add_column(0, "id", rows["slug"])
        )
        held["table"] = LanceDataset.commit(held["table"], staged, max_retries=0)

    ours = iter(range(size - 500, 10**9, 500))
    try:
        return alternating(
            rounds, lambda: graph.load({"Person": people(next(ours), 1_000)}, mode="merge"), bare
        )
    finally:
        graph.close()


def lines(rows: int) -> bytes:
    records = people(0, rows).to_pylist()
    for each in records:
        each["joined"] = each["joined"].isoformat()
    return "\n".join(
        json.dumps({"type": "Person", "data": each}, separators=(",", ":")) for each in records
    ).encode()


def load(folder: Path, text: bytes, rounds: int) -> tuple[float, float]:
    """NDJSON into an empty graph, against parsing it and writing the result with bare Lance."""
    numbers = iter(range(1_000_000))
    graphs = [Graph.init(folder / f"graph-{number}", schema=PEOPLE) for number in range(rounds + 1)]

    def bare() -> None:
        parsed: Any = pj.read_json(io.BytesIO(text))["data"].combine_chunks()  # Any: structs
        lance.write_dataset(pa.Table.from_struct_array(parsed), folder / f"floor-{next(numbers)}")

    waiting = iter(graphs)
    try:
        return alternating(rounds, lambda: next(waiting).load(text, mode="append"), bare)
    finally:
        for each in graphs:
            each.close()


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def memory(folder: Path) -> float:
    """Peak of resident memory above the start while 32 MiB of NDJSON are loaded."""
    text = lines(32 * 1024**2 // 217)
    graph = Graph.init(folder / "graph", schema=PEOPLE)
    graph.load(text[: text.index(b"\n")], mode="append")
    before, peak, is_over = resident_mib(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.is_set():
            peak = max(peak, resident_mib())
            sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    graph.load(text, mode="merge")
    is_over.set()
    watcher.join()
    graph.close()
    print(f"  {len(text) / 1024**2:.1f} MiB of NDJSON")
    return peak - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="size of the upserted table")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--target", action="store_true", help="fail when a bound is missed")
    options = parser.parse_args()
    missed = []

    def report(name: str, measured: tuple[float, float], bound: float) -> None:
        ours, floor = measured
        ratio = ours / floor
        state = "met" if ratio <= bound else "missed"
        print(
            f"{name:34} {ours:9.1f} ms  floor {floor:9.1f} ms"
            f"  ratio {ratio:5.2f}  bound {bound:4.1f}  {state}"
        )
        if ratio > bound:
            missed.append(name)

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        report("insert of one row", one_row(root / "one", options.rounds * 5), INSERT_BOUND)
        start = perf_counter()
        measured = upsert(root / "upsert", options.rows, options.rounds)
        report(f"upsert of 1,000 into {options.rows:,}", measured, UPSERT_BOUND)
        print(f"  ({perf_counter() - start:.0f} s with building the table)")
        text = lines(100_000)
        report("load of 100,000 rows", load(root / "load", text, options.rounds), LOAD_BOUND)
        # In a process of its own: what was freed before would hide what is used now.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            used = pool.submit(memory, root / "memory").result()
        state = "met" if used <= MEMORY_BOUND_MIB else "missed"
        print(
            f"memory of a 32 MiB load            {used:9.0f} MiB  bound {MEMORY_BOUND_MIB}  {state}"
        )
        if used > MEMORY_BOUND_MIB:
            missed.append("memory")
    return 1 if options.target and missed else 0


if __name__ == "__main__":
    sys.exit(main())
