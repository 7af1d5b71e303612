"""`omnigraph load`: put the nodes and edges of a file into a graph, as one commit."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    with_spark,
)
from omnigraph.errors import InvalidArgument, UsageError
from omnigraph.graph.job_report import LoadMode
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.graph.job_report import JobReport, TableReport

_HELP: Final = """Load nodes and edges from files of JSON lines, as one commit.

\b
Example:
  omnigraph load papers.omni --data examples/papers/papers-small.ndjson --mode append

All lines are loaded or none: one bad line refuses the load, and every bad line is reported with its
number. Exits with 6 if lines are bad, with 1 if append meets a row that exists, and with 4 if the
condition of --if-commit does not hold. One file of moderate size is loaded in this process; larger
ones, folders, patterns and addresses on Spark.
"""
_INGEST_HELP: Final = """Load a file, by default into rows that may exist, on a branch that may not.

\b
Example:
  omnigraph ingest papers.omni --data examples/papers/papers-small.ndjson --branch import

A deprecated form of 'omnigraph load' with --mode merge and --from main.
"""
_STAGES: Final = {
    "handshake": "asking Spark",
    "intake": "reading the input",
    "check": "checking every rule",
    "stage": "writing the tables",
    "commit": "committing",
}
_STDIN: Final = "-"
_ALWAYS_COUNTED: Final = ("read", "added", "changed", "removed")
_COUNTED_IF_ANY: Final = ("unchanged", "rejected", "superseded")

_DataOption = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        show_default=False,
        help="A file, a folder or a pattern: one node or edge to a line; - is standard input.",
    ),
]
_BranchOption = Annotated[str, typer.Option(metavar="NAME", help="The branch to write.")]


def register(app: typer.Typer) -> None:
    """Add `load` and its deprecated form `ingest`."""
    app.command("load", help=_HELP)(load)
    app.command("ingest", help=_INGEST_HELP, hidden=True)(ingest)


def load(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    data: _DataOption,
    mode: Annotated[
        LoadMode,
        typer.Option(
            metavar="|".join(LoadMode),
            show_default=False,
            help="What becomes of rows that exist: append refuses them, merge replaces those of "
            "the same id, overwrite replaces all rows of each type in the file.",
        ),
    ],
    branch: _BranchOption = "main",
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Make the branch from this one if it is new."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="ndjson", help="The format, whatever the name says."),
    ] = None,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    embed: Annotated[
        bool,
        typer.Option("--embed", help="Fill @embed vectors that may be null too."),
    ] = False,
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Write only while this commit is the head of the branch."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Write at most once under this key; again, it prints the first receipt.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print what would be done.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Load the file and print what it did to each table."""
    return _run(
        context,
        _LoadOptions(
            uri=uri,
            data=data,
            mode=mode,
            branch=branch,
            from_=from_,
            form=form,
            engine=engine,
            spark_master=spark_master,
            spark_remote=spark_remote,
            spark_conf=spark_conf,
            embed=embed,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            as_json=as_json,
        ),
    )


def ingest(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    data: _DataOption,
    mode: Annotated[
        LoadMode,
        typer.Option(metavar="|".join(LoadMode), help="What becomes of rows that exist."),
    ] = LoadMode.MERGE,
    branch: _BranchOption = "main",
    as_json: JsonOption = False,
) -> int:
    """Load the file as `load` does, with other defaults."""
    return _run(
        context,
        _LoadOptions(uri=uri, data=data, mode=mode, branch=branch, from_="main", as_json=as_json),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoadOptions:
    """The options as they were given."""

    uri: str | None
    data: str
    mode: LoadMode
    branch: str
    from_: str | None
    form: str | None = None
    engine: Engine | None = None
    spark_master: str | None = None
    spark_remote: str | None = None
    spark_conf: list[str] | None = None
    embed: bool = False
    if_commit: str | None = None
    idempotency_key: str | None = None
    dry_run: bool = False
    as_json: bool

    def __post_init__(self) -> None:
        if self.if_commit == "":
            raise UsageError("--if-commit is empty; give the id of a commit, or leave it out")

    def source(self) -> str | BinaryIO:
        """What is loaded.

        Raises:
            InvalidArgument: it is standard input, and there is none.
        """
        if self.data != _STDIN:
            return self.data
        if sys.stdin is None:
            raise InvalidArgument("--data -: standard input is closed; name a file")
        return sys.stdin.buffer


def _run(context: typer.Context, options: _LoadOptions) -> int:
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.bodies import load_body
    from omnigraph.cli.consent import require_consent
    from omnigraph.cli.progress import ProgressLine

    target = with_spark(
        find_write_target(session, options.uri),
        engine=options.engine,
        master=options.spark_master,
        remote=options.spark_remote,
        conf=options.spark_conf,
    )
    announce_write(session, name_of(context), target)
    if options.mode is LoadMode.OVERWRITE and not options.dry_run:
        require_consent(session, target, "replacing all rows of each type in the file")
    session.is_repeatable = options.idempotency_key is not None
    with (
        ProgressLine(session.output, _STAGES, unit="tasks") as line,
        target.open(writes=True) as graph,
    ):
        report = graph.load(
            options.source(),
            mode=options.mode.value,
            branch=options.branch,
            from_=options.from_,
            format=options.form,
            embed=options.embed,
            dry_run=options.dry_run,
            if_commit=options.if_commit,
            idempotency_key=options.idempotency_key,
            progress=line.follow,
        )
    session.output.announce(f"engine {report.engine}: {_why(report, options, target)}")
    if options.as_json:
        session.output.write_json(load_body(report))
        return exit_codes.OK
    for warning in report.warnings:
        session.output.warn(warning)
    session.output.write_lines([*_table_lines(report.tables), _receipt(report)])
    return exit_codes.OK


def _why(report: "JobReport", options: _LoadOptions, target: "Target") -> str:
    if options.engine is not None and options.engine is not Engine.AUTO:
        return f"--engine {options.engine.value}"
    if options.engine is None and target.settings.spark.engine is not Engine.AUTO:
        return f"OMNIGRAPH_ENGINE is {target.settings.spark.engine.value}"
    if report.already_loaded:
        return "nothing was loaded again"
    most = target.settings.spark.min_input_bytes
    if report.engine == Engine.SPARK.value:
        return f"not one file of JSON lines with at most {most:,} bytes"
    size_bytes = sum(stage.bytes for stage in report.stages)
    return f"one input of {size_bytes:,} bytes; up to {most:,} are loaded in this process"


def _table_lines(tables: "tuple[TableReport, ...]") -> list[str]:
    """A line for each table, with its numbers below each other."""
    names = [
        *_ALWAYS_COUNTED,
        *(name for name in _COUNTED_IF_ANY if any(getattr(each, name) for each in tables)),
    ]
    columns = [[each.table for each in tables]]
    columns[0] = [cell.ljust(max(map(len, columns[0]))) for cell in columns[0]]
    for name in names:
        numbers = [f"{getattr(each, name):,}" for each in tables]
        width = max(map(len, numbers), default=0)
        columns.append([f"{number.rjust(width)} {name}" for number in numbers])
    return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def _receipt(report: "JobReport") -> str:
    rows = sum(each.read for each in report.tables)
    made = f", made from {report.base_branch}" if report.branch_created else ""
    what = "1 row" if rows == 1 else f"{rows:,} rows"
    if report.dry_run:
        return f"{what} for branch {report.branch}, mode {report.mode}: dry run, nothing is written"
    told = f"{what} on branch {report.branch}{made}, mode {report.mode}"
    if report.commit is None:
        return f"{told}: no commit"
    again = " of an earlier load with this key" if report.already_loaded else ""
    return f"{told}: commit {report.commit.graph_commit_id}{again}"
