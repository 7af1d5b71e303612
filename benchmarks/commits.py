"""What a commit costs: against bare Lance, over a long history, over many rows, side by side.

The floor of a one-row commit is what nobody can avoid: one staged upsert, its commit, and one merge
into a manifest, with bare Lance in the same run and in alternation. Calls to the store are counted,
because their number does not depend on the machine. `--target` fails when a stated bound is missed.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.rows import CommitRow, HeadRow, PinRow, encode_rows
from omnigraph.graph.writer import Writer
from omnigraph.ids import (
    MAIN_BRANCH,
    MAIN_BRANCH_ID,
    BranchName,
    CommitId,
    OperationId,
    UlidSource,
)
from omnigraph.settings import load_settings
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

SCHEMA = "node Person { name: String @key  age: I32? }"
COLD_BOUND, LINGERING_BOUND, HISTORY_BOUND = 3.0, 2.0, 2.0


class Counting:
    """Counts the calls to the store by operation."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def before(self, call: StoreCall) -> None:
        """Count it."""
        self.calls[call.operation] += 1

    def after(self, call: StoreCall) -> None:
        """Nothing to see afterwards."""


@contextmanager
def open_graph(
    where: str, *, keeps_leases: bool = False, observer: Counting | None = None
) -> Iterator[GraphCoordinator]:
    settings = load_settings(os.environ).storage
    clock = SystemClock()
    ids = UlidSource(clock)
    storage = open_storage(parse_location(where, settings), settings, ids, observer=observer)
    graph = GraphCoordinator(storage, settings, clock, ids, keeps_leases=keeps_leases)
    try:
        yield graph
    finally:
        graph.close()


def upsert(graph: GraphCoordinator, number: int, branch: str = MAIN_BRANCH) -> None:
    request = WriteRequest(kind=SidecarKind.MUTATION, branch=BranchName(branch))
    with Writer(graph.protocol, graph.ids, request, open_snapshot(graph, None, branch)) as writer:
        writer.upsert("Person", person(number))
        writer.commit()


def person(number: int) -> pa.Table:
    return pa.table({"name": [f"p{number}"], "age": pa.array([number % 90], pa.int32())})


def median_ms(times: list[float]) -> float:
    return statistics.median(times) * 1e3


def timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


# --- one row ----------------------------------------------------------------------------------


class Floor:
    """The same change with bare Lance: no lease, no sidecar, no checks, no sync."""

    def __init__(self, folder: Path, manifest: Path) -> None:
        key = {"lance-schema:unenforced-primary-key": "true"}
        fields: list[pa.Field[Any]] = [
            pa.field("id", pa.string(), nullable=False, metadata=key),
            pa.field("name", pa.string(), nullable=False),
            pa.field("age", pa.int32()),
        ]
        self._schema = pa.schema(fields)
        self._table = lance.write_dataset(
            self._schema.empty_table(),
            folder / "table",
            data_storage_version="2.2",
            enable_stable_row_ids=True,
        )
        shutil.copytree(manifest, folder / "manifest")
        self._manifest = lance.dataset(folder / "manifest")
        self._number = 0

    def commit(self) -> None:
        """Upsert one row into the table, then merge what a publish would."""
        self._number += 1
        row = {"id": [f"p{self._number}"], "name": [f"p{self._number}"], "age": [1]}
        merge = self._table.merge_insert("id").when_matched_update_all()
        staged, _ = merge.when_not_matched_insert_all().execute_uncommitted(
            pa.table(row, schema=self._schema)
        )
        self._table = LanceDataset.commit(self._table, staged, max_retries=0)
        rows = encode_rows(publish_rows(self._number))
        into = self._manifest.merge_insert("object_id").when_matched_update_all()
        into.when_not_matched_insert_all().conflict_retries(0).execute(rows)


def publish_rows(number: int) -> list[CommitRow | HeadRow | PinRow]:
    commit_id = CommitId(f"01J{number:023d}")
    commit = CommitRow(
        commit_id=commit_id,
        seq=number,
        parent=CommitId(f"01J{number - 1:023d}"),
        kind="mutation",
        schema_hash="0" * 64,
        operation_id=OperationId(commit_id),
        authored_at=1_790_000_000_000_000 + number,
        authored_branch=BranchName("main"),
        stats={"tables": {"node:Person": {"added": 1, "changed": 0, "removed": 0}}},
    )
    head = HeadRow(commit_id=commit_id, seq=number, branch_id=MAIN_BRANCH_ID)
    return [commit, head]


def one_row(folder: Path, rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {"floor": [], "cold": [], "lingering": []}
    for name in ("a", "b"):
        Graph.init(folder / name, schema=SCHEMA).close()
    floor = Floor(folder / "floor", folder / "a" / "__manifest")
    with (
        open_graph(str(folder / "a")) as cold,
        open_graph(str(folder / "b"), keeps_leases=True) as lingering,
    ):
        for number in range(rounds):
            measured = {
                "floor": timed(floor.commit),
                "cold": timed(lambda n=number: upsert(cold, n)),  # type: ignore[misc]
                "lingering": timed(lambda n=number: upsert(lingering, n)),  # type: ignore[misc]
            }
            if number >= rounds // 10:
                for name, value in measured.items():
                    times[name].append(value)
    return {name: median_ms(values) for name, values in times.items()}


def calls_of_one_row(folder: Path) -> Counter[str]:
    Graph.init(folder / "counted", schema=SCHEMA).close()
    counting = Counting()
    with open_graph(str(folder / "counted"), observer=counting) as graph:
        for number in range(3):
            upsert(graph, number)
        counting.calls.clear()
        upsert(graph, 3)
    return counting.calls


# --- history and size -------------------------------------------------------------------------


def grow_history(where: Path, commits: int) -> None:
    """Adds commits as rows, many to a merge: the history is in rows, and nothing else counts."""
    with open_graph(str(where)) as graph:
        upsert(graph, 0)
        line = graph.lines.read(MAIN_BRANCH_ID)
        pin = next(iter(line.pins.values()))
        rows: list[CommitRow | HeadRow | PinRow] = []
        parent, head = line.head_commit, line.head
        for seq in range(head.seq + 1, commits + 1):
            commit_id = CommitId(graph.ids.next_ulid())
            parent = replace(parent, commit_id=commit_id, seq=seq, parent=parent.commit_id)
            rows += [parent, replace(pin, seq=seq)]
            head = HeadRow(commit_id=commit_id, seq=seq, branch_id=MAIN_BRANCH_ID)
        graph.storage.manifest.merge(line.handle, encode_rows([*rows, head]))
        graph.storage.manifest.compact(graph.lines.read_again(MAIN_BRANCH_ID).handle)


def snapshot_open(folder: Path, commits: int, rounds: int) -> float:
    where = folder / f"history-{commits}"
    Graph.init(where, schema=SCHEMA).close()
    grow_history(where, commits)

    def read() -> None:
        with Graph.open(where, mode="read_only") as graph:
            snapshot = graph.snapshot()
            assert snapshot.seq == commits, "the history is as long as asked"  # noqa: S101
            assert snapshot.entity("Person", "p0") is not None  # noqa: S101
            assert snapshot.catalog.node_types  # noqa: S101

    return median_ms([timed(read) for _ in range(rounds)])


def branch_create(folder: Path, rows: int, rounds: int) -> float:
    where = folder / f"rows-{rows}"
    with Graph.init(where, schema=SCHEMA) as graph:
        with graph.write() as writer:
            names = [f"p{number}" for number in range(rows)]
            writer.append("Person", pa.table({"name": names}))
            writer.commit()
        create = graph.branches.create
        return median_ms([timed(lambda n=n: create(f"b{n}")) for n in range(rounds)])  # type: ignore[misc]


# --- side by side -----------------------------------------------------------------------------


def write_for(where: str, branch: str, seconds: float, first: int) -> int:
    """Upserts from one process for so long; returns how many commits it made."""
    done = 0
    with open_graph(where, keeps_leases=True) as graph:
        until = perf_counter() + seconds
        while perf_counter() < until:
            upsert(graph, first + done, branch)
            done += 1
    return done


def commits_per_second(where: str, branches: int, seconds: float) -> float:
    with Graph.init(where, schema=SCHEMA) as graph:
        names = [graph.branches.create(f"b{number}").name for number in range(branches)]
    with multiprocessing.get_context("spawn").Pool(branches) as pool:
        jobs = [(where, name, seconds, at * 1_000_000) for at, name in enumerate(names)]
        return sum(pool.starmap(write_for, jobs)) / seconds


def throughput(folder: Path, seconds: float) -> dict[str, float]:
    figures = {
        f"local, {branches} branch": commits_per_second(
            str(folder / f"throughput-{branches}"), branches, seconds
        )
        for branches in (1, 4)
    }
    sys.path.insert(0, str(Path(__file__).parent.parent))
    try:
        from tests.s3.stand_in import stand_in_process
    except ImportError as missing:
        print(f"S3 stand-in skipped: {missing}", file=sys.stderr)
        return figures
    with stand_in_process(delay_ms=20) as endpoint:
        os.environ.update(endpoint.environment())
        for branches in (1, 4):
            figures[f"S3 with 20 ms a call, {branches} branch"] = commits_per_second(
                endpoint.uri(f"throughput-{branches}"), branches, seconds
            )
    return figures


# --- the table --------------------------------------------------------------------------------


def grow(*, quick: bool, rounds: int, target: bool) -> int:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from benchmarks.growth import run

    with tempfile.TemporaryDirectory() as name:
        missed = run(Path(name), quick=quick, rounds=rounds)
    return 1 if target and missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--quick", action="store_true", help="small sizes, no throughput")
    parser.add_argument("--target", action="store_true", help="fail when a bound is missed")
    parser.add_argument("--save", type=Path, help="write the figures as JSON")
    parser.add_argument("--growth", action="store_true", help="only what must not grow")
    options = parser.parse_args()
    if options.growth:
        return grow(quick=options.quick, rounds=options.rounds, target=options.target)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        row = one_row(folder, options.rounds)
        cold, lingering = row["cold"] / row["floor"], row["lingering"] / row["floor"]
        print(
            f"one-row commit: floor {row['floor']:.1f} ms, lease cold {row['cold']:.1f} ms", end=""
        )
        print(f" ({cold:.2f}x), lease kept {row['lingering']:.1f} ms ({lingering:.2f}x)")
        calls = calls_of_one_row(folder)
        print(f"  store calls: {calls.total()} ({', '.join(f'{n} {o}' for o, n in calls.items())})")
        figures |= {"cold": cold, "lingering": lingering, "calls": calls.total()}
        sizes = (10, 100) if options.quick else (10, 1_000, 10_000)
        opens = {size: snapshot_open(folder, size, options.rounds // 2) for size in sizes}
        growth = max(opens.values()) / min(opens.values())
        listed = ", ".join(f"{size:,} commits {ms:.1f} ms" for size, ms in opens.items())
        print(f"snapshot open: {listed} ({growth:.2f}x)")
        figures["history"] = growth
        sizes = (1_000, 10_000) if options.quick else (1_000, 1_000_000)
        creates = {size: branch_create(folder, size, 10) for size in sizes}
        listed = ", ".join(f"{size:,} rows {ms:.1f} ms" for size, ms in creates.items())
        print(f"branch create: {listed} ({creates[sizes[1]] / creates[sizes[0]]:.2f}x)")
        figures["branch_create"] = creates[sizes[1]] / creates[sizes[0]]
        if not options.quick:
            for what, rate in throughput(folder, options.seconds).items():
                print(f"commits per second, {what}: {rate:.1f}")
                figures[what] = rate
    if options.save:
        options.save.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    missed = cold > COLD_BOUND or lingering > LINGERING_BOUND or growth > HISTORY_BOUND
    return 1 if options.target and missed else 0


if __name__ == "__main__":
    sys.exit(main())
