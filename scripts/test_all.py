"""Runs the full products of the tests in named parts, unattended, and keeps a record of each.

    scripts/test_all.py [PART ...]      every part, or these

A part is a folder or a few files, and runs within an hour on two cores. Its output goes to a file
of its own; what it said, when and on which commit goes to `docs/dev/full-runs.md`. A part that
fails does not stop the others, and the last lines tell which did.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".test-all"
RECORD = ROOT / "docs" / "dev" / "full-runs.md"
_ROW = re.compile(r"^\| `(?P<part>[a-z0-9-]+)` \|")
_SAID = re.compile(r"^=*\s*(?P<said>\d+ \w+.* in [\d.]+s).*$")


@dataclass(frozen=True)
class Part:
    """Some of the slow tests."""

    about: str
    paths: tuple[str, ...]
    workers: int = 3
    """How many run at once: most of a crash test is waiting for a child or a lease."""
    named: str = ""
    """What the names of its tests hold, where several parts share a file."""


PARTS = {
    "languages": Part(
        "sources, printers, values: fuzzed and generated",
        (
            "tests/hostile",
            "tests/property/test_direction.py",
            "tests/property/test_fuzz.py",
            "tests/property/test_lowering.py",
            "tests/property/test_migration.py",
            "tests/property/test_printers.py",
            "tests/property/test_schema_hash.py",
            "tests/property/test_values.py",
        ),
    ),
    "queries": Part(
        "generated queries against the reference evaluator",
        (
            "tests/reference",
            "tests/property/test_index_coverage.py",
            "tests/property/test_kept_reads.py",
        ),
    ),
    "loads": Part(
        "load format, exports, violations against slow readers",
        (
            "tests/property/test_changed_rows.py",
            "tests/property/test_export_round_trip.py",
            "tests/property/test_load_format.py",
            "tests/property/test_plain_lines.py",
            "tests/property/test_same_violations.py",
            "tests/unit/graph/validation",
        ),
    ),
    "histories": Part(
        "random histories against a model",
        (
            "tests/property/test_change_streams.py",
            "tests/property/test_diffs.py",
            "tests/property/test_feeds.py",
            "tests/property/test_graph_histories.py",
            "tests/property/test_mutation_histories.py",
            "tests/property/test_schema_histories.py",
        ),
    ),
    "merges": Part(
        "merges and reverts against models, and dying at every point",
        (
            "tests/crash/test_merge_crashes.py",
            "tests/crash/test_revert_crashes.py",
            "tests/property/test_merges.py",
            "tests/property/test_ruled_merges.py",
        ),
    ),
    "crash": Part(
        "writers killed and stopped at every point",
        ("tests/crash/test_fold_crashes.py", "tests/crash/test_write_crashes.py"),
        4,
    ),
    "recovery": Part(
        "a second crash at every point of a recovery",
        (
            "tests/crash/test_recovery_crashes.py",
            "tests/crash/test_index_crashes.py",
            "tests/crash/test_schema_crashes.py",
            "tests/crash/test_cleanup_crashes.py",
        ),
        4,
    ),
    "faults": Part(
        "late writers, a failing store at every call, power cuts",
        (
            "tests/crash/test_late_writers.py",
            "tests/crash/test_power_cut.py",
            "tests/crash/test_storage_faults.py",
            "tests/unit/graph/lifecycle/test_init.py",
        ),
    ),
    "interleavings": Part(
        "two writers stepped through every pair of points", ("tests/crash/test_interleavings.py",)
    ),
    **{
        f"pairs-{place}": Part(
            f"every pair of writes, one overtaken: one order explains both; {about}",
            ("tests/race/test_serialisable.py",),
            named=f"{place}]",
        )
        for place, about in (
            ("main", "on `main`"),
            ("branch", "on a branch"),
            ("first", "at the first write of a branch"),
        )
    },
    "races": Part(
        "many processes on the same keys; torture",
        (
            "tests/race/test_feed.py",
            "tests/race/test_merges.py",
            "tests/race/test_mutators.py",
            "tests/race/test_torture.py",
            "tests/race/test_writers.py",
            "tests/unit/graph/maintenance/test_optimize.py",
        ),
        2,
    ),
    "serve": Part("many clients of two workers that are killed", ("tests/serve",), 1),
    "s3": Part("the same on the S3 stand-in", ("tests/s3",)),
    "spark": Part(
        "on Spark: loads and maintenance, killed, retried, beside writers; queries, scripts",
        ("tests/spark", "tests/scripts"),
        2,
    ),
}


def main() -> int:
    """Run the parts that the command line names; 0 if all of them passed."""
    parser = argparse.ArgumentParser(description="Run the full products of the tests.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(chosen) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; parts: {', '.join(PARTS)}")
    LOGS.mkdir(exist_ok=True)
    results = {name: run(name) for name in chosen}
    print("\n".join(f"{name:14} {said}" for name, (_, said) in results.items()))
    return 0 if all(code == 0 for code, _ in results.values()) else 1


def run(name: str) -> tuple[int, str]:
    """Run a part to its end; its exit code, and what it said."""
    part = PARTS[name]
    log = LOGS / f"{name}.log"
    print(f"==> {name}: {part.about} ({log.relative_to(ROOT)})", file=sys.stderr, flush=True)
    command = [
        str(ROOT / ".venv" / "bin" / "pytest"),
        "-q",
        "-m",
        "slow or cluster",
        "-n",
        str(part.workers),
        "--dist",
        "loadgroup",
        *(("-k", part.named) if part.named else ()),
        *part.paths,
    ]
    commit = _commit()
    started = perf_counter()
    with log.open("w") as out:
        code = subprocess.run(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
    minutes = (perf_counter() - started) / 60
    said = next(
        (
            match["said"]
            for line in reversed(log.read_text().splitlines())
            if (match := _SAID.match(line))
        ),
        f"ended with code {code}; see {log.relative_to(ROOT)}",
    )
    record(name, f"{datetime.now(UTC):%Y-%m-%d} | {commit} | {minutes:.0f} min | {said}")
    return code, said


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    is_changed = bool(git("status", "--porcelain", "--", "src", "tests"))
    return git("rev-parse", "--short", "HEAD") + (" with changes" if is_changed else "")


def record(part: str, facts: str) -> None:
    """Put the row of a part in place of its last one."""
    lines = RECORD.read_text().splitlines()
    rows = [
        f"| `{part}` | {facts} |" if (match := _ROW.match(line)) and match["part"] == part else line
        for line in lines
    ]
    RECORD.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
