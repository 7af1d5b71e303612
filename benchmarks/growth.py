"""What must not grow: the costs of a commit by history, by branches, by rows that did not change.

Histories are synthetic and true to the format: rows in the tiers in which upkeep leaves them, a
version file for every version, pins that name the versions of the table. `commits.py --growth`
runs this.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.graph.commit.txn import WriteRequest
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.lifecycle.line_upkeep import TIERS, WIDTH
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.manifest.rows import CommitRow, HeadRow, PinRow, encode_rows
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.graph.writer import Writer
from omnigraph.ids import (
    MAIN_BRANCH,
    MAIN_BRANCH_ID,
    BranchName,
    UlidSource,
    new_commit_id,
    new_operation_id,
)
from omnigraph.settings import load_settings
from omnigraph.storage.files import version_name
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.handles import TableHandle
from omnigraph.storage.location import parse_location

SCHEMA = "node Person { name: String @key  age: I32? }"
SIZES = (10, 10_000, 100_000)
BRANCHES = (0, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured cost and the bar that it is held to."""

    name: str
    value: float
    bar: float
    text: str

    @property
    def is_missed(self) -> bool:
        """Whether the value lies above its bar."""
        return self.value > self.bar


@contextmanager
def open_graph(where: Path) -> Iterator[GraphCoordinator]:
    settings = load_settings(os.environ).storage
    clock = SystemClock()
    ids = UlidSource(clock)
    storage = open_storage(parse_location(str(where), settings), settings, ids)
    graph = GraphCoordinator(storage, settings, clock, ids)
    try:
        yield graph
    finally:
        graph.close()


def insert(graph: GraphCoordinator, name: str, *, branch: str = MAIN_BRANCH, key: str = "") -> None:
    request = WriteRequest(
        kind=SidecarKind.MUTATION,
        branch=BranchName(branch),
        idempotency_key=key or None,
        request_digest=key or None,
    )
    with Writer(graph.protocol, graph.ids, request, open_snapshot(graph, None, branch)) as writer:
        writer.upsert("Person", pa.table({"name": [name], "age": pa.array([1], pa.int32())}))
        writer.commit()


def timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return (perf_counter() - start) * 1e3


def median(times: list[float]) -> float:
    return statistics.median(times)


# --- histories --------------------------------------------------------------------------------


def make_history(where: Path, commits: int) -> None:
    """A graph of so many commits, each of which wrote the one table, each with its key."""
    Graph.init(where, schema=SCHEMA).close()
    with open_graph(where) as graph:
        insert(graph, "p0")
        line = graph.lines.read(MAIN_BRANCH_ID)
        pin = next(iter(line.pins.values()))
        rows: list[CommitRow | HeadRow | PinRow] = []
        parent = line.head_commit
        for seq in range(line.head.seq + 1, commits + 1):
            commit_id = new_commit_id(graph.ids)
            parent = replace(
                parent,
                commit_id=commit_id,
                seq=seq,
                parent=parent.commit_id,
                operation_id=new_operation_id(graph.ids),
                idempotency_key=f"key-{seq}",
                request_digest=f"{seq:064x}",
            )
            rows += [parent, replace(pin, seq=seq, version=max(pin.version, seq))]
        head = HeadRow(commit_id=parent.commit_id, seq=parent.seq, branch_id=MAIN_BRANCH_ID)
        location, last = pin.location, max(pin.version, commits)
        handle = line.handle
    append_in_tiers(where / "__manifest", encode_rows(rows))
    with open_graph(where) as graph:
        storage = graph.storage.manifest
        handle = storage.open_line(MAIN_BRANCH_ID)
        storage.merge(handle, encode_rows([head]))
    age(where / location, last)
    age(where / "__manifest", commits + 10)


def append_in_tiers(manifest: Path, rows: pa.Table) -> None:
    """Rows in fragments of the sizes that upkeep leaves, each tier almost full."""
    sizes: list[int] = []
    left = rows.num_rows
    for tier in (TIERS[0] // 2, TIERS[0] * 12, TIERS[1] * 12, TIERS[2] * 12):
        for _ in range(WIDTH - 1):
            size = min(tier, left)
            sizes.append(size)
            left -= size
    start, fragments = 0, []
    dataset = lance.dataset(manifest)
    for size in [left, *reversed(sizes)]:
        if size:
            part = rows.slice(start, size).cast(dataset.schema)
            fragments += write_fragments(
                part, dataset, schema=dataset.schema, mode="append", data_storage_version="2.2"
            )
            start += size
    LanceDataset.commit(dataset, LanceOperation.Append(fragments), read_version=dataset.version)


def age(line: Path, newest: int) -> None:
    """Give a line as many version files as it would have, the newest with the greatest number."""
    folder = line / "_versions"
    last = lance.dataset(line).version
    source = folder / version_name(last)
    for version in range(last + 1, newest):
        made = folder / version_name(version)
        if version % 10_000 == 0:  # A file has only so many names.
            source = Path(shutil.copyfile(source, made))
        else:
            os.link(source, made)
    if newest > last:
        (folder / version_name(newest)).write_bytes(renumbered(source.read_bytes(), newest))
        (folder / "latest_version_hint.json").write_text(json.dumps({"version": newest}))


def renumbered(content: bytes, version: int) -> bytes:
    """A version file with another number in it: field 3 of the message before its footer."""
    footer = content[-16:]
    start = int.from_bytes(footer[:8], "little")
    length = int.from_bytes(content[start : start + 4], "little")
    message = content[start + 4 : start + 4 + length]
    made, at = bytearray(), 0
    while at < len(message):
        begin = at
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = read_varint(message, at)
        elif kind == 2:
            size, at = read_varint(message, at)
            at += size
        else:
            at += 8 if kind == 1 else 4
        made += varint(tag) + varint(version) if tag >> 3 == 3 else message[begin:at]
    return content[:start] + len(made).to_bytes(4, "little") + bytes(made) + footer


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


# --- by history -------------------------------------------------------------------------------


def by_history(folder: Path, rounds: int, sizes: tuple[int, ...]) -> Iterator[Figure]:
    graphs = {size: folder / f"history-{size}" for size in sizes}
    for size, where in graphs.items():
        make_history(where, size)
    opens = {size: open_ms(where) for size, where in graphs.items()}
    yield Figure(
        name="read-write open, ms", value=max(opens.values()), bar=50.0, text=listed(opens, "ms")
    )
    newest = {size: ask_newest(where) for size, where in graphs.items()}
    yield Figure(
        name="newest version of a table, ms",
        value=max(newest.values()),
        bar=1.0,
        text=listed(newest, "ms"),
    )
    plain, keyed = inserts(graphs, rounds)
    yield ratio("one-row insert", plain, 1.3)
    yield ratio("one-row insert with a key", keyed, 1.3)
    memory = {size: memory_of(where) for size, where in graphs.items()}
    yield ratio("memory of an open graph", memory, 1.2, unit="MiB")
    written = written_per_commit(graphs[sizes[-1]], rounds * 10)
    yield Figure(
        name="bytes of the manifest per commit, KiB",
        value=written / 1024,
        bar=64.0,
        text=f"{written / 1024:.1f} KiB at {sizes[-1]:,} commits, the joining of tiers included",
    )


def open_ms(where: Path) -> float:
    def opened() -> None:
        with open_graph(where):
            pass

    return median([timed(opened) for _ in range(7)])


def ask_newest(where: Path) -> float:
    with open_graph(where) as graph:
        line = graph.lines.read(MAIN_BRANCH_ID)
        pin = next(iter(line.pins.values()))
        layout = next(iter(graph.schemas.tables(line.schema.schema_hash).layouts.values()))
        assert graph.tables.head_version(layout, pin.branch) == pin.version  # noqa: S101
        return median([timed(lambda: graph.tables.head_version(layout, None)) for _ in range(50)])


def inserts(graphs: dict[int, Path], rounds: int) -> tuple[dict[int, float], dict[int, float]]:
    """Medians without and with a key, all histories in turns."""
    plain: dict[int, list[float]] = {size: [] for size in graphs}
    keyed: dict[int, list[float]] = {size: [] for size in graphs}
    with ExitStack() as stack:
        opened = {size: stack.enter_context(open_graph(where)) for size, where in graphs.items()}
        for graph in opened.values():
            insert(graph, "warm", key="warm")
        for number in range(rounds):
            for size, graph in opened.items():
                plain[size].append(timed(partial(insert, graph, f"q{number}")))
                keyed[size].append(timed(partial(insert, graph, f"k{number}", key=f"n-{number}")))
    return (
        {size: median(times) for size, times in plain.items()},
        {size: median(times) for size, times in keyed.items()},
    )


def memory_of(where: Path) -> float:
    """Peak MiB of a process that opens a graph, reads it, and inserts two rows, one with a key."""
    code = f"import benchmarks.growth as g; g.use({str(where)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    return float(done.stdout)


def use(where: str) -> None:
    with open_graph(Path(where)) as graph:
        insert(graph, "m1")
        insert(graph, "m2", key="memory")
        insert(graph, "m3")
    # Of this program alone: what `getrusage` tells begins with the peak of whoever started it.
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    print(next(int(each.split()[1]) for each in status if each.startswith("VmHWM")) / 1024)


def written_per_commit(where: Path, commits: int) -> float:
    """Bytes that so many commits write below the manifest."""
    manifest = where / "__manifest"
    before = {path for path in manifest.rglob("*") if path.is_file()}
    with open_graph(where) as graph:
        for number in range(commits):
            insert(graph, f"w{number}")
    new = (path for path in manifest.rglob("*") if path.is_file() and path not in before)
    return sum(path.stat().st_size for path in new) / commits


# --- by branches ------------------------------------------------------------------------------


def by_branches(folder: Path, counts: tuple[int, ...]) -> Iterator[Figure]:
    costs: dict[str, dict[int, float]] = {"first write": {}, "delete": {}, "open": {}, "list": {}}
    for count in counts:
        where = folder / f"branches-{count}"
        with Graph.init(where, schema=SCHEMA) as graph:
            for number in range(count):
                graph.branches.create(f"b{number}")
        with open_graph(where) as coordinator:
            insert(coordinator, "p0")
        costs["open"][count] = open_ms(where)
        with Graph.open(where) as graph:
            costs["list"][count] = timed(graph.branches.list)
            firsts, deletes = [], []
            for number in range(7):
                name = graph.branches.create(f"x{number}").name
                firsts.append(timed(partial(insert, graph._graph, "y", branch=name)))  # noqa: SLF001
                deletes.append(timed(partial(graph.branches.delete, name)))
            costs["first write"][count] = median(firsts)
            costs["delete"][count] = median(deletes)
    for what in ("first write", "delete", "open"):
        yield ratio(f"branches: {what}", costs[what], 2.0, by="branches")
    yield Figure(
        name="list of branches, ms",
        value=max(costs["list"].values()),
        bar=50.0,
        text=listed(costs["list"], "ms", by="branches"),
    )


# --- by rows ----------------------------------------------------------------------------------


def by_rows(folder: Path, rows: int) -> Iterator[Figure]:
    """What a writer pays under the lease to learn that a deleted row does not concern it."""
    where = folder / f"rows-{rows}"
    with Graph.init(where, schema=SCHEMA) as graph:
        for start in range(0, rows, 500_000):
            with graph.write() as writer:
                names = [f"r{number:08}" for number in range(start, min(rows, start + 500_000))]
                writer.append("Person", pa.table({"name": names}))
                writer.commit()
        graph.maintenance.ensure_indices()
        parts = graph._graph  # noqa: SLF001
        times = []
        for number in range(5):
            before = person_table(parts)
            with graph.write() as writer:
                writer.delete("Person", [f"r{rows // 2 + number:08}"])
                writer.commit()
            times.append(timed(partial(parts.tables.changed_since, person_table(parts), before)))
    yield Figure(
        name="arbitration after one deleted row, ms",
        value=median(times),
        bar=20.0,
        text=f"{median(times):.1f} ms in {rows:,} rows",
    )


def person_table(parts: GraphCoordinator) -> TableHandle:
    line = parts.lines.read(MAIN_BRANCH_ID)
    layout = next(iter(parts.schemas.tables(line.schema.schema_hash).layouts.values()))
    return parts.tables.open(layout, pin_of(next(iter(line.pins.values()))))


def listed(costs: dict[int, float], unit: str, by: str = "commits") -> str:
    return ", ".join(f"{size:,} {by} {cost:.2f} {unit}" for size, cost in costs.items())


def ratio(
    name: str, costs: dict[int, float], bar: float, *, unit: str = "ms", by: str = "commits"
) -> Figure:
    first, *_, last = costs.values()
    return Figure(name=name, value=last / first, bar=bar, text=listed(costs, unit, by))


def run(folder: Path, *, quick: bool, rounds: int) -> int:
    """Print every figure; how many miss their bars."""
    sizes = (10, 1_000) if quick else SIZES
    missed = 0
    for figures in (
        by_history(folder, rounds, sizes),
        by_branches(folder, (0, 40) if quick else BRANCHES),
        by_rows(folder, 50_000 if quick else 4_000_000),
    ):
        for each in figures:
            mark = "MISSED" if each.is_missed else "ok"
            print(f"{each.name}: {each.value:.2f} (bar {each.bar:g}, {mark}): {each.text}")
            missed += each.is_missed
    return missed
