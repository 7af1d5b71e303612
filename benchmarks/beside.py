"""What maintenance costs those who write beside it: four writing processes, without it and with it.

Each process sends commits of one row to the same branch, which are inserts and updates. In every
second round another process joins fragments, builds indexes and removes versions all the time,
far more often than rounds by themselves would. Nothing that was in force within ten minutes is ever
removed, and no run takes that long: so versions that many newer ones follow are made to look older.
Rounds take turns, so that other work on the machine meets both. `--target` fails when the 95th
percentile of a write is more than three times what it is without maintenance, when a write failed
or was lost, or when maintenance made no commit or removed no version.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from omnigraph import Graph, OmnigraphError

SCHEMA = "node Person { name: String @key  bio: String? @index  age: I32? }"
INSERT = 'query q($n: String) { insert Person { name: $n, bio: "a fresh text" } }'
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
WRITERS = 4
BAR = 3.0
NEWER = 24
"""A version that so many newer ones follow is read by nobody here any more."""

AN_HOUR_S = 3600.0


@dataclass(frozen=True)
class Upkeep:
    """What a process of maintenance did."""

    commits: int = 0
    removed: int = 0
    """Versions of tables."""


@dataclass(frozen=True)
class Sizes:
    """How large the graph is, and what each process of a round writes."""

    rows: int
    commits: int
    rounds: int


QUICK = Sizes(rows=5_000, commits=25, rounds=2)
FULL = Sizes(rows=100_000, commits=100, rounds=6)


def write(where: str, name: str, commits: int) -> None:
    """One writing process: prints its latencies in milliseconds, and the errors it met.

    Each changes rows of its own: of two that change one row at once, one is refused by right.
    """
    own = int(name.rpartition("-")[2]) * commits
    times, errors = [], []
    with Graph.open(where) as graph:
        for number in range(commits):
            start = perf_counter()
            try:
                if number % 3:
                    graph.mutate(INSERT, params={"n": f"{name}-{number}"})
                else:
                    graph.mutate(UPDATE, params={"n": f"p{own + number}", "a": number})
            except OmnigraphError as error:
                errors.append(f"{error.code}: {error}")
            times.append((perf_counter() - start) * 1e3)
    print(json.dumps({"times": times, "errors": errors}))


def maintain(where: str) -> None:
    """One process of maintenance: until its input ends; prints what it did."""
    commits = removed = 0
    with Graph.open(where) as graph:
        print("ready", flush=True)
        os.set_blocking(sys.stdin.fileno(), False)
        while sys.stdin.buffer.read() != b"":
            commits += graph.maintenance.optimize().commit is not None
            age_versions(Path(where))
            report = graph.maintenance.cleanup(keep=NEWER, confirm=True)
            if report.errors:
                raise SystemExit(f"cleanup failed beside writers: {report.errors[0]}")
            removed += sum(table.old_versions_removed for table in report.tables)
    print(json.dumps({"commits": commits, "removed": removed}))


def age_versions(where: Path) -> None:
    """Make versions that many newer ones follow as old as if an hour had passed since."""
    for folder in where.glob("[ne]*s/*/_versions"):
        # Their names count down, so the newest comes first.
        for path in sorted(folder.glob("*.manifest"))[NEWER:]:
            with contextlib.suppress(FileNotFoundError):
                made = path.stat().st_mtime - AN_HOUR_S
                os.utime(path, (made, made))


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def one_round(where: Path, name: str, sizes: Sizes, *, beside: bool) -> tuple[list[float], Upkeep]:
    """The latencies of all writers, and what maintenance did meanwhile.

    Raises:
        SystemExit: a write failed.
    """
    keeper = started("--maintain", str(where)) if beside else None
    if keeper is not None and keeper.stdout is not None:
        keeper.stdout.readline()
    writers = [
        started("--write", str(where), f"{name}-{number}", str(sizes.commits))
        for number in range(WRITERS)
    ]
    told = [json.loads(writer.communicate()[0]) for writer in writers]
    upkeep = Upkeep() if keeper is None else Upkeep(**json.loads(keeper.communicate()[0]))
    errors = [error for each in told for error in each["errors"]]
    if errors:
        where_told = "beside maintenance" if beside else "without maintenance"
        raise SystemExit(f"{len(errors)} writes failed {where_told}, the first: {errors[0]}")
    return [taken for each in told for taken in each["times"]], upkeep


def run(folder: Path, sizes: Sizes) -> list[tuple[str, str, bool]]:
    """The rows of the table: what, how much, and whether its bar is missed."""
    where = folder / "g"
    with Graph.init(where, schema=SCHEMA) as graph:
        with graph.write() as writer:
            names = [f"p{number}" for number in range(sizes.rows)]
            writer.append("Person", pa.table({"name": names, "bio": ["some words"] * sizes.rows}))
            writer.commit()
        graph.maintenance.ensure_indices()
    alone: list[float] = []
    beside: list[float] = []
    made: list[Upkeep] = []
    for number in range(sizes.rounds):
        alone += one_round(where, f"a{number}", sizes, beside=False)[0]
        times, upkeep = one_round(where, f"b{number}", sizes, beside=True)
        beside += times
        made.append(upkeep)
    commits = sum(each.commits for each in made)
    removed = sum(each.removed for each in made)
    inserts = sum(1 for number in range(sizes.commits) if number % 3)
    wanted = sizes.rows + 2 * sizes.rounds * WRITERS * inserts
    with Graph.open(where) as graph:
        rows = graph.snapshot().count("Person")
        is_sound = graph.maintenance.verify().is_sound
    ratio = p95(beside) / p95(alone)
    return [
        (
            f"a write, median of {WRITERS} processes, alone / beside maintenance",
            f"{statistics.median(alone):.1f} / {statistics.median(beside):.1f} ms",
            False,
        ),
        ("95th percentile", f"{p95(alone):.1f} / {p95(beside):.1f} ms, {ratio:.2f} x", ratio > BAR),
        ("commits of maintenance meanwhile", str(commits), not commits),
        ("versions removed meanwhile", str(removed), not removed),
        ("rows, of those written", f"{rows:,} of {wanted:,}", rows != wanted),
        ("verified afterwards", "sound" if is_sound else "not sound", not is_sound),
    ]


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def main() -> int:
    """Print the table; with `--target` fail on a missed bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small graph, few commits")
    parser.add_argument("--target", action="store_true", help="fail when a bar is missed")
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--maintain", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write(options.write[0], options.write[1], int(options.write[2]))
        return 0
    if options.maintain:
        maintain(options.maintain)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="beside-"))
    try:
        rows = run(folder, QUICK if options.quick else FULL)
    finally:
        shutil.rmtree(folder)
    print(f"load average {os.getloadavg()[0]:.1f}")
    for name, text, is_missed in rows:
        print(f"{name:60} {text}{'  MISSED' if is_missed else ''}")
    return int(options.target and any(is_missed for *_, is_missed in rows))


if __name__ == "__main__":
    sys.exit(main())
