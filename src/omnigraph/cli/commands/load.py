"""`omnigraph load`: put the rows of files into a graph, as one commit."""

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.commands.load_lane import announce_engine, find_lane, send
from omnigraph.cli.options import JsonOption, UriArgument, require_commit
from omnigraph.cli.reject_options import (
    CascadeOption,
    MaxRejectRatioOption,
    MaxRejectsOption,
    OnError,
    OnErrorOption,
    RejectsOption,
    require_place,
)
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.source_options import (
    EdgeOption,
    FormatOption,
    FromColumnOption,
    IdColumnOption,
    MapOption,
    ReaderOption,
    SourceOptions,
    ToColumnOption,
    TypeOption,
)
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    ResumeOption,
    SharedOption,
    with_spark,
)
from omnigraph.errors import InvalidArgument, OmnigraphError, UsageError
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.ids import MAIN_BRANCH
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.api import Graph
    from omnigraph.api.load_source import Lane
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.progress import ProgressLine
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.load.request import LoadArguments
    from omnigraph.graph.maintenance.index_report import IndexReport

_HELP: Final = """Load nodes and edges from files, as one commit.

\b
Example:
  omnigraph load papers.omni --data examples/papers/papers-small.ndjson --mode append

All rows are loaded or none: one bad row refuses the load, unless --on-error sets bad rows aside.
Exits with 6 if rows are bad, with 1 if append meets a row that exists, and with 4 if the condition
of --if-commit does not hold.

One graph, CSV or Parquet file of moderate size is loaded in this process; larger ones, folders,
patterns, addresses and other formats on Spark. The lines of a graph file (ndjson) name their types;
the rows of the other formats are of one type, --type or --edge.
"""
_INGEST_HELP: Final = """Load a file, by default into rows that may exist, on a branch that may not.

\b
Example:
  omnigraph ingest papers.omni --data examples/papers/papers-small.ndjson --branch import

A deprecated form of 'omnigraph load' with --mode merge and --from main.
"""
_STDIN: Final = "-"

_DataOption = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        show_default=False,
        help="A file, a folder, a pattern of files or an address; - is standard input.",
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
            "the same id, update changes what is given of them and refuses others, overwrite "
            "replaces all rows of each type in the file.",
        ),
    ],
    branch: _BranchOption = "main",
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="Make the branch from this one if it is new."),
    ] = None,
    form: FormatOption = None,
    type_name: TypeOption = None,
    edge: EdgeOption = None,
    maps: MapOption = None,
    id_column: IdColumnOption = None,
    from_column: FromColumnOption = None,
    to_column: ToColumnOption = None,
    reader_options: ReaderOption = None,
    on_error: OnErrorOption = OnError.FAIL,
    rejects: RejectsOption = None,
    max_rejects: MaxRejectsOption = None,
    max_reject_ratio: MaxRejectRatioOption = None,
    cascade: CascadeOption = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="With merge: keep the values that a row does not give."),
    ] = False,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    embed: Annotated[
        bool,
        typer.Option("--embed", help="Fill @embed vectors that may be null too."),
    ] = False,
    index: Annotated[
        bool,
        typer.Option(
            "--index", help="Then build the indexes of the loaded types, as a commit of its own."
        ),
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
    resume: ResumeOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print what would be done.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Load the file and print what it did to each table."""
    return _run(
        context,
        LoadOptions(
            uri=uri,
            data=data,
            load={
                "mode": mode.value,
                "branch": branch,
                "from_": from_,
                "on_error": on_error.value,
                "rejects": rejects,
                "max_rejects": max_rejects,
                "max_reject_ratio": max_reject_ratio,
                "cascade": cascade,
                "partial": partial,
                "embed": embed,
                "dry_run": dry_run,
                "if_commit": if_commit,
                "idempotency_key": idempotency_key,
            },
            rows=SourceOptions(
                form=form,
                type=type_name,
                edge=edge,
                map=maps,
                id_column=id_column,
                from_column=from_column,
                to_column=to_column,
                option=reader_options,
            ),
            engine=engine,
            spark_master=spark_master,
            spark_remote=spark_remote,
            spark_conf=spark_conf,
            shared_filesystem=shared_filesystem,
            index=index,
            resume=resume,
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
        LoadOptions(
            uri=uri,
            data=data,
            load={"mode": mode.value, "branch": branch, "from_": "main"},
            as_json=as_json,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options as they were given."""

    uri: str | None
    data: str
    load: "LoadArguments"
    rows: SourceOptions = field(default_factory=SourceOptions)
    engine: Engine | None = None
    spark_master: str | None = None
    spark_remote: str | None = None
    spark_conf: list[str] | None = None
    shared_filesystem: bool = False
    index: bool = False
    resume: str | None = None
    as_json: bool

    def __post_init__(self) -> None:
        require_place(self.load.get("on_error"), self.load.get("rejects"))
        require_commit(self.load.get("if_commit"))

    def refuse_served(self) -> None:
        """Refuse what a load of a server does not have.

        Raises:
            UsageError: an option needs the storage of the graph.
        """
        wishes = {
            "--engine": self.engine is Engine.SPARK,
            "--spark-master": self.spark_master,
            "--spark-remote": self.spark_remote,
            "--spark-conf": self.spark_conf,
            "--shared-filesystem": self.shared_filesystem,
            "--index": self.index,
            "--resume": self.resume,
            "--format, --type, --edge, --map and columns": self.rows != SourceOptions(),
        }
        given = [name for name, wish in wishes.items() if wish]
        if given:
            raise UsageError(
                f"{given[0]}: a server loads the lines of one request; give --store URI to load"
                " with access to storage"
            )

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


def _run(context: typer.Context, options: LoadOptions) -> int:
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, choose_branch, find_write_target
    from omnigraph.cli.consent import require_consent

    target = with_spark(
        find_write_target(session, options.uri),
        engine=options.engine,
        master=options.spark_master,
        remote=options.spark_remote,
        conf=options.spark_conf,
        command="load",
    )
    branch = choose_branch(context, target, options.load.get("branch", MAIN_BRANCH))
    options = replace(options, load={**options.load, "branch": branch})
    source = options.source()
    session.is_repeatable = options.load.get("idempotency_key") is not None
    if target.place is None:
        lane = find_lane(target, options, source)
    else:
        options.refuse_served()
    announce_write(session, name_of(context), target)
    if options.load["mode"] == LoadMode.OVERWRITE.value and not options.load.get("dry_run"):
        require_consent(session, target, "replacing all rows of each type in the file")
    if target.place is not None:
        with target.place.open() as remote:
            _write(session, remote.load(source, **options.load), None, options)
        return exit_codes.OK
    report, indexes = _load(session, target, lane, source, options)
    if lane.engine == Engine.LOCAL.value:
        announce_engine(session, target, lane, options, report)
    _write(session, report, indexes, options)
    return exit_codes.OK


def _load(
    session: "Session",
    target: "Target",
    lane: "Lane",
    source: str | BinaryIO,
    options: LoadOptions,
) -> "tuple[JobReport, IndexReport | None]":
    from omnigraph.cli.job_output import STAGES
    from omnigraph.cli.progress import ProgressLine, telling_interrupts

    if lane.engine == Engine.SPARK.value:
        announce_engine(session, target, lane, options)
    with (
        ProgressLine(session.output, STAGES) as line,
        telling_interrupts(line, "the graph is as before or has the whole load"),
        target.open(writes=True) as graph,
    ):
        report = send(graph, lane, source, options, line, session.output)
        return report, _build_indexes(graph, report, line) if options.index else None


def _build_indexes(
    graph: "Graph", report: "JobReport", line: "ProgressLine"
) -> "IndexReport | None":
    """The indexes of the loaded types; None where nothing was loaded.

    Raises:
        OmnigraphError: they were not built, although the rows are committed.
    """
    if report.commit is None or not report.tables:
        return None
    try:
        return graph.maintenance.ensure_indices(
            types=[table.table for table in report.tables],
            branch=report.branch,
            progress=lambda progress: line.enter(f"indexes: {progress.stage}"),
        )
    except OmnigraphError as error:
        raise type(error)(
            f"the rows are committed ({report.commit.graph_commit_id}), their indexes were not "
            f"built: {error.message}",
            **error.details,
        ) from error


def _write(
    session: "Session", report: "JobReport", indexes: "IndexReport | None", options: LoadOptions
) -> None:
    from omnigraph.cli.job_output import write_report
    from omnigraph.cli.maintenance_text import with_commit
    from omnigraph.graph.bodies import load_body

    if options.as_json:
        body = load_body(report)
        if options.index:
            body["indexes"] = (
                None if indexes is None else with_commit(indexes.to_dict(), indexes.commit)
            )
        session.output.write_json(body)
        return
    write_report(session, report)
    if options.index:
        session.output.write(_index_line(indexes))


def _index_line(report: "IndexReport | None") -> str:
    if report is None or report.commit is None:
        return "indexes: nothing to build"
    built = sum(len(table.built) for table in report.tables)
    what = "1 index" if built == 1 else f"{built} indexes"
    return f"{what} built: commit {report.commit.graph_commit_id}"
