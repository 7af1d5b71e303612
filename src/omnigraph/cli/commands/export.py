"""`omnigraph export`: a graph as NDJSON on standard output, or as files in a folder.

The stream is read in this process. Files are written on Spark, because there is no bound to them.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.query_input import ReadBranchOption, SnapshotOption
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
    from omnigraph.api import Graph
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.session import Session
    from omnigraph.graph.graph_like import GraphLike
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.jobs.report import JobReport

_HELP: Final = """Write a graph to standard output as NDJSON, in the format that load reads.

\b
Example:
  omnigraph export papers.omni --type Author --type Wrote

Nodes come before edges, then types by name, then entities by id: the same commit gives the same
bytes. All of it is read from one commit, the head of the branch or what --snapshot names, and
nothing is written to the graph. Bytes of blobs are included; a blob outside the graph is written
as its address.

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
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
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
    """Print the records of one state, or write them to files."""
    session = begin_command(context)
    if branch is not None and snapshot is not None:
        raise UsageError("both --branch and --snapshot are given; give one of them")
    if jsonl and form not in (None, ExportFormat.NDJSON):
        raise UsageError(f"--jsonl is NDJSON, and --format is {form}; give one of them")

    from omnigraph.cli.addressing import choose_branch, find_target

    found = find_target(session, uri)
    state = _State(branch=choose_branch(context, found, branch or "main"), at=snapshot)
    target = with_spark(
        found,
        engine=engine,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
    )
    if out is not None:
        form = form or ExportFormat.NDJSON
        files = _Files(out=out, form=form, shared_filesystem=shared_filesystem)
        return _write_files(session, target, files, state, types, as_json=as_json)
    out_options = {
        "--format": form,
        "--engine spark": engine is Engine.SPARK or None,
        "--spark-master": spark_master,
        "--spark-remote": spark_remote,
        "--spark-conf": spark_conf,
        "--shared-filesystem": shared_filesystem or None,
    }
    _refuse_without_out([name for name, value in out_options.items() if value is not None])
    return _stream(session, target, state, types)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What is exported."""

    branch: str
    at: str | None

    def of(self, graph: "Graph") -> "Snapshot":
        return graph.snapshot(self.at, branch=self.branch)

    def read(
        self, graph: "GraphLike", types: list[str] | None
    ) -> "tuple[Iterator[bytes], int | None]":
        """The chunks, and how many records they hold if that is known."""
        from omnigraph.client import RemoteGraph

        if isinstance(graph, RemoteGraph):
            if self.at is None:
                return graph.export(types=types, branch=self.branch), None
            return graph.export(types=types, snapshot=self.at), None
        from omnigraph.api import Graph

        if not isinstance(graph, Graph):
            raise TypeError(f"{type(graph).__name__} is neither an open graph nor a remote one")
        snapshot = self.of(graph)
        chunks = graph.export(types=types, snapshot=snapshot.resolved_snapshot)
        return chunks, _count(snapshot, types or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """What is written instead of standard output."""

    out: str
    form: ExportFormat
    shared_filesystem: bool


def _stream(session: "Session", target: "Target", state: _State, types: list[str] | None) -> int:
    from omnigraph.cli.progress import ProgressLine
    from omnigraph.graph.jobs.stage_progress import StageProgress

    if sys.stdout is not None and sys.stdout.isatty():
        session.output.shows_progress = False  # The records themselves are seen there.
    with ProgressLine(session.output, {}) as line, target.reach() as graph:
        chunks, total = state.read(graph, types)
        rows, size_bytes = 0, 0
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
    state: _State,
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
        snapshot = state.of(graph)
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
