"""What a load or a run of a pipeline did, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport, TableReport

STAGES: Final = {
    "session": "starting Spark, looking at the input",
    "handshake": "asking Spark",
    "list": "looking at the input",
    "cursor": "looking for new rows",
    "intake": "reading the input",
    "check": "checking every rule",
    "resolve": "merging rows",
    "stage": "writing the tables",
    "commit": "committing",
}
"""The stages of a load as people read them."""

_ALWAYS_COUNTED: Final = ("read", "added", "changed", "removed")
_COUNTED_IF_ANY: Final = ("unchanged", "rejected", "superseded")


def write_report(session: Session, report: JobReport, *, what: str = "load") -> None:
    """A line for each table, then where it went and the commit; warnings go to standard error."""
    for warning in report.warnings:
        session.output.warn(warning)
    lines = table_lines(report.tables)
    if report.already_loaded and report.commit is not None:
        at = report.commit.graph_commit_id
        lines.insert(0, f"already loaded, nothing is written; commit {at} was:")
    if report.rejects_uri is not None:
        counted = ", ".join(f"{code} {count:,}" for code, count in report.violations.items())
        lines.append(f"bad rows are set aside in {report.rejects_uri} ({counted})")
    lines += [f"cursor {name}: {json.dumps(at)}" for name, at in report.cursors.items()]
    session.output.write_lines([*lines, receipt(report, what=what)])


def table_lines(tables: tuple[TableReport, ...]) -> list[str]:
    """A line for each table, with its numbers below each other."""
    names = [
        *_ALWAYS_COUNTED,
        *(name for name in _COUNTED_IF_ANY if any(getattr(table, name) for table in tables)),
    ]
    columns = [[table.table for table in tables]]
    columns[0] = [cell.ljust(max(map(len, columns[0]))) for cell in columns[0]]
    for name in names:
        numbers = [f"{getattr(table, name):,}" for table in tables]
        width = max(map(len, numbers), default=0)
        columns.append([f"{number.rjust(width)} {name}" for number in numbers])
    return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def receipt(report: JobReport, *, what: str = "load") -> str:
    """The last line: how many rows, where to, and the commit."""
    rows = sum(table.read for table in report.tables)
    made = f", made from {report.base_branch}" if report.branch_created else ""
    counted = "1 row" if rows == 1 else f"{rows:,} rows"
    if report.dry_run and not report.already_loaded:
        target = f"branch {report.branch}, mode {report.mode}"
        return f"{counted} for {target}: dry run, nothing is written"
    outcome = f"{counted} on branch {report.branch}{made}, mode {report.mode}"
    if report.commit is None:
        return f"{outcome}: no commit"
    again = f" of an earlier {what}" if report.already_loaded else ""
    if again and what == "load":
        again += " with this key"
    return f"{outcome}: commit {report.commit.graph_commit_id}{again}"
