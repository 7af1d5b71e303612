"""`omnigraph analytics`: measure a whole graph; print, keep or write what comes of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.query_input import ReadBranchOption, SnapshotOption
from omnigraph.cli.row_style import RowFormat
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    SharedOption,
    with_spark,
)
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN_BRANCH
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.row_style import RowStyle
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.pipeline.analytics.measures import Measure
    from omnigraph.pipeline.analytics.scores import Scores

_HELP: Final = """Measure a whole graph: ranks, components, triangles, communities, distances.

\b
Example:
  omnigraph analytics pagerank papers.omni --edge Cites

NAME is degree, pagerank, connected_components, strongly_connected_components, triangles,
label_propagation or shortest_paths. It measures the nodes that --edge joins, over all edges of that
type, and prints a row for each; with --write it writes the values to a property instead, as one
commit. What fits this process is computed here, all else on Spark.
"""
_STAGES: Final = {
    "session": "looking at the graph",
    "topology": "reading nodes and edges",
    "compute": "computing",
    "collect": "collecting the rows",
}
_FORMS: Final = (".parquet", ".csv", ".jsonl")


def register(app: typer.Typer) -> None:
    """Add `analytics`."""
    app.command("analytics", help=_HELP)(analytics)


def analytics(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What is measured.")],
    uri: UriArgument = None,
    *,
    edge: Annotated[
        str, typer.Option(metavar="TYPE", show_default=False, help="The edges that are followed.")
    ],
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="KEY=VALUE",
            help="A parameter, as damping=0.9, max_iter=20, weight=km or landmarks=ID; may be "
            "repeated, landmarks too.",
        ),
    ] = None,
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
    write: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE.PROPERTY", help="Write the values to this property, as one commit."
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which values --write takes, as in_degree."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the rows to this file or s3:// address: .parquet, .csv or .jsonl.",
        ),
    ] = None,
    form: Annotated[
        RowFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(RowFormat),
            help="How rows are printed. Without it defaults.output of the operator config, then "
            "table.",
        ),
    ] = None,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Measure the graph and print the rows, or what was written."""
    session = begin_command(context)
    options = _Options(
        name=name,
        edge=edge,
        params=params or [],
        branch=branch,
        snapshot=snapshot,
        write=write,
        column=column,
        out=out,
        form=form,
        engine=engine,
        shared_filesystem=shared_filesystem,
        as_json=as_json,
    )

    from omnigraph.cli.addressing import announce_write, choose_branch, find_measured_target

    measure = options.measure()
    found, style = find_measured_target(session, uri, writes=write is not None)
    target = with_spark(
        found,
        engine=engine,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
        command="analytics",
    )
    if snapshot is None:
        options.branch = choose_branch(context, target, branch)
    if write is not None:
        announce_write(session, name_of(context), target)
    _run(session, target, style, measure, options)
    return exit_codes.OK


@dataclass(slots=True, kw_only=True)
class _Options:
    """The options as they were given, checked against each other before anything is read.

    Raises:
        UsageError: two options exclude each other.
    """

    name: str
    edge: str
    params: list[str]
    branch: str | None
    snapshot: str | None
    write: str | None
    column: str | None
    out: str | None
    form: RowFormat | None
    engine: Engine | None
    shared_filesystem: bool
    as_json: bool

    def __post_init__(self) -> None:
        if self.branch is not None and self.snapshot is not None:
            raise UsageError("both --branch and --snapshot are given; give one of them")
        if self.column is not None and self.write is None:
            raise UsageError("--column says which values --write takes; give --write too")
        if self.write is not None:
            for option, value in (
                ("--snapshot", self.snapshot),
                ("--out", self.out),
                ("--format", self.form),
            ):
                if value is not None:
                    raise UsageError(
                        f"--write measures the head of a branch and writes to it, and prints what"
                        f" it wrote; leave {option} out"
                    )
        if self.out is not None and not self.out.endswith(_FORMS):
            raise UsageError(f"--out {self.out!r}: a file ends with {', '.join(_FORMS)}")

    def measure(self) -> "Measure":
        """What is measured.

        Raises:
            UsageError: a parameter has no key or no sign.
            InvalidArgument: there is no such measure or parameter.
        """
        from omnigraph.pipeline.analytics.measures import parse_measure

        return parse_measure(self.name, [_pair(text) for text in self.params])


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise UsageError(f"--param {text!r}: expected KEY=VALUE")
    return key, value


def _run(
    session: "Session", target: "Target", style: "RowStyle", measure: "Measure", options: _Options
) -> None:
    from omnigraph.cli.job_output import STAGES
    from omnigraph.cli.progress import ProgressLine, telling_interrupts

    is_write = options.write is not None
    interrupted = "the graph is as before or has all values" if is_write else "nothing was written"
    report, result = None, None
    with (
        ProgressLine(session.output, {**STAGES, **_STAGES}) as line,
        telling_interrupts(line, interrupted),
        target.open(writes=is_write) as graph,
        graph.pipeline(shared_filesystem=options.shared_filesystem) as pipeline,
    ):
        line.enter("session")
        scores = pipeline.analytics.measure(
            measure,
            edge=options.edge,
            branch=options.branch,
            snapshot=options.snapshot,
            engine="auto" if options.engine is None else options.engine.value,
            progress=line.follow,
        )
        if options.write is None:
            result = scores.result()
        else:
            report = scores.write_to(
                options.write, branch=options.branch or MAIN_BRANCH, column=options.column
            )
    session.output.announce(f"engine {scores.engine}: {_why(options, scores, target)}")
    if report is not None:
        _tell(session, report, options)
    elif result is not None and options.out is not None:
        _keep(result, options.out, target)
        session.output.announce(f"{len(result):,} rows in {options.out}")
    elif result is not None:
        style.write(
            result, style.choose_format(options.form, as_json=options.as_json), session.output
        )


def _why(options: _Options, scores: "Scores", target: "Target") -> str:
    if options.engine not in (None, Engine.AUTO):
        return f"--engine {scores.engine}"
    if target.settings.spark.engine is Engine(scores.engine):
        return f"OMNIGRAPH_ENGINE is {scores.engine}"
    most = target.settings.pipeline.analytics_local_bytes
    fits = scores.engine is Engine.LOCAL
    return f"the graph takes {'at most' if fits else 'more than'} {most:,} bytes here"


def _tell(session: "Session", report: "JobReport", options: _Options) -> None:
    if options.as_json:
        from omnigraph.graph.bodies import load_body

        session.output.write_json(load_body(report))
        return

    from omnigraph.cli.job_output import write_report

    write_report(session, report)


def _keep(result: "QueryResult", out: str, target: "Target") -> None:
    """Write the rows to a file or an object.

    Raises:
        InvalidArgument: it cannot be written.
    """
    data = _data(result, Path(out).suffix)
    if "://" not in out:
        from omnigraph.cli.replaced_file import replacing

        with replacing(Path(out)) as file:
            file.write(data)
        return

    from omnigraph.storage.output_files import OutputFolder, find_output

    folder, _, name = out.rpartition("/")
    storage = target.settings.storage
    with OutputFolder(find_output(folder, storage), storage).writing(name) as written:
        written.write(data)


def _data(result: "QueryResult", form: str) -> bytes:
    if form == ".csv":
        return result.to_csv().encode()
    if form == ".jsonl":
        return result.to_jsonl().encode()

    from io import BytesIO

    from pyarrow import parquet

    sink = BytesIO()
    parquet.write_table(result.to_arrow(), sink)
    return sink.getvalue()
