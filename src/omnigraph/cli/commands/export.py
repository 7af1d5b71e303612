"""`omnigraph export`: a graph as NDJSON on standard output, or as files in a folder.

The stream is read in this process. Files are written on Spark, because there is no bound to them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import BranchOption, JsonOption, UriArgument
from omnigraph.cli.session import begin_command
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    SharedOption,
    with_spark,
)
from omnigraph.errors import UsageError
from omnigraph.pipeline.export.format import ExportFormat
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.session import Session
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.jobs.report import JobReport

_HELP: Final = """Write a graph to standard output as NDJSON, in the format that load reads.

\b
Example:
  omnigraph export papers.omni --type Author --type Wrote

Nodes come before edges, then types by name, then entities by id: the same commit gives the same
bytes. All of it is read from one commit, the head of the branch, and nothing is written to the
graph. Bytes of blobs are included; a blob outside the graph is written as its address.

With --out it is written on Spark, as files in an empty or new folder. The folder is an export once
it has _manifest.json, which names the commit and every file with its checksum.
"""
_STAGES: Final = {
    "list": "looking at the graph",
    "handshake": "asking Spark",
    "sort": "sorting large tables",
    "write": "writing the files",
    "publish": "completing the export",
}


def register(app: typer.Typer) -> None:
    """Add `export`."""
    app.command("export", help=_HELP)(export)


def export(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: BranchOption = "main",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only this type, as Person, node:Link or edge:Link; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="Write files here instead: a path, file:// or s3://, on Spark."
        ),
    ] = None,
    form: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(ExportFormat),
            help="The format of the files; ndjson by default, which load reads.",
        ),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Write NDJSON, as without it; no other --format.")
    ] = False,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Print the records of the branch's head, or write them to files."""
    session = begin_command(context)
    if jsonl and form not in (None, ExportFormat.NDJSON):
        raise UsageError(f"--jsonl is NDJSON, and --format is {form}; give one of them")

    from omnigraph.cli.addressing import find_target

    target = with_spark(
        find_target(session, uri),
        engine=engine,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
    )
    if out is not None:
        form = form or ExportFormat.NDJSON
        files = _Files(out=out, form=form, shared_filesystem=shared_filesystem)
        return _write_files(session, target, files, branch, types, as_json=as_json)
    out_options = {
        "--format": form,
        "--engine spark": engine is Engine.SPARK or None,
        "--spark-master": spark_master,
        "--spark-remote": spark_remote,
        "--spark-conf": spark_conf,
        "--shared-filesystem": shared_filesystem or None,
    }
    _refuse_without_out([name for name, value in out_options.items() if value is not None])
    return _stream(session, target, branch, types)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """What is written instead of standard output."""

    out: str
    form: ExportFormat
    shared_filesystem: bool


def _stream(session: "Session", target: "Target", branch: str, types: list[str] | None) -> int:
    from omnigraph.cli.progress import ProgressLine
    from omnigraph.graph.jobs.stage_progress import StageProgress

    if sys.stdout is not None and sys.stdout.isatty():
        session.output.shows_progress = False  # The records themselves are seen there.
    with ProgressLine(session.output, {}) as line, target.open() as graph:
        snapshot = graph.snapshot(branch=branch)
        chunks = graph.export(types=types, snapshot=snapshot.resolved_snapshot)
        total, rows, size_bytes = _count(snapshot, types or ()), 0, 0
        for chunk in chunks:
            session.output.write_data(chunk)
            rows += chunk.count(b"\n")
            size_bytes += len(chunk)
            line.follow(
                StageProgress(stage="exporting", rows=rows, total_rows=total, bytes=size_bytes)
            )
    return exit_codes.OK


def _write_files(
    session: "Session",
    target: "Target",
    files: _Files,
    branch: str,
    types: list[str] | None,
    *,
    as_json: bool,
) -> int:
    from omnigraph.cli.progress import ProgressLine, telling_interrupts

    if target.settings.spark.engine is Engine.LOCAL:
        raise UsageError(
            "--out is written on Spark, and the engine is local; leave --engine local or"
            " OMNIGRAPH_ENGINE out, or export to standard output"
        )
    with (
        ProgressLine(session.output, _STAGES) as line,
        telling_interrupts(line, "nothing is exported"),
        target.open() as graph,
    ):
        snapshot = graph.snapshot(branch=branch)
        with graph.pipeline(shared_filesystem=files.shared_filesystem) as pipeline:
            report = pipeline.export(
                files.out,
                format=files.form.value,
                types=types,
                snapshot=snapshot.resolved_snapshot,
                progress=line.follow,
            )
    session.output.announce(f"engine {report.engine}: files are written on Spark")
    if as_json:
        session.output.write_json(_body(report, snapshot, files))
        return exit_codes.OK
    width = max((len(table.table) for table in report.tables), default=0)
    lines = [f"{table.table.ljust(width)}  {_rows(table.read)}" for table in report.tables]
    total = _rows(sum(table.read for table in report.tables))
    session.output.write_lines(
        [
            *lines,
            f"{total} of commit {snapshot.graph_commit_id} as {files.form.value} in {files.out}",
        ]
    )
    return exit_codes.OK


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _body(report: "JobReport", snapshot: "Snapshot", files: _Files) -> dict[str, object]:
    return {
        "out": files.out,
        "format": files.form.value,
        "branch": report.branch,
        "graph_commit_id": snapshot.graph_commit_id,
        "resolved_snapshot": snapshot.resolved_snapshot,
        "total_entities": sum(table.read for table in report.tables),
        "report": report.to_dict(),
    }


def _refuse_without_out(names: Sequence[str]) -> None:
    if names:
        raise UsageError(
            f"{', '.join(names)}: standard output is NDJSON, written by this process; give --out"
            " URI to write files on Spark"
        )


def _count(snapshot: "Snapshot", types: Sequence[str]) -> int:
    """How many entities there are of the types, or of all without any."""
    return sum(
        table.entity_count
        for table in snapshot.tables
        if not types or {table.table_key, table.table_key.partition(":")[2]} & set(types)
    )
