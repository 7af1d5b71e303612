"""The lane of one `omnigraph load`: chosen, announced and taken."""

from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from omnigraph.cli.spark_options import tell_operation
from omnigraph.errors import SourceError, UsageError
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.api import Graph
    from omnigraph.api.load_source import Lane
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.commands.load import LoadOptions
    from omnigraph.cli.output import Output
    from omnigraph.cli.progress import ProgressLine
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport

_TYPE_ERROR: Final = "type_error"
_HOW_TO_CAST: Final = "expressions stand in a pipeline file (omnigraph run)"
_HOW_TO_GUESS: Final = ", and --option inferSchema=true lets Spark guess the types of a CSV"


def find_lane(target: "Target", options: "LoadOptions", source: str | BinaryIO) -> "Lane":
    """Where the load runs, before anything is opened.

    Raises:
        UsageError: options that the source or the lane does not have.
        InvalidArgument: the engine that is asked for cannot take the source.
        SourceError: there is no such format, or the file cannot be looked at.
    """
    from omnigraph.api.load_source import choose_lane, format_of, has_active_session

    options.rows.require_fit(format_of(source, options.rows.form), options.data)
    options.rows.columns()
    options.rows.reader_options()
    spark = target.settings.spark
    lane = choose_lane(
        source,
        format=options.rows.form,
        engine=spark.engine.value,
        most_bytes=spark.min_input_bytes,
        has_session=has_active_session(),
    )
    if lane.engine == Engine.LOCAL.value:
        _require_nothing_of_spark(options)
    return lane


def _require_nothing_of_spark(options: "LoadOptions") -> None:
    of_spark = {
        "--resume": options.resume,
        "--shared-filesystem": options.shared_filesystem,
        "--spark-master": options.spark_master,
        "--spark-remote": options.spark_remote,
        "--spark-conf": options.spark_conf,
    }
    for name, value in of_spark.items():
        if value:
            raise UsageError(
                f"{name} is about Spark, and this load runs in this process; leave it out, or give "
                "--engine spark"
            )


def send(
    graph: "Graph",
    lane: "Lane",
    source: str | BinaryIO,
    options: "LoadOptions",
    line: "ProgressLine",
    output: "Output",
) -> "JobReport":
    """Load in the lane.

    Raises:
        SourceError: a column does not fit; with the ways to cast it from here.
    """
    if lane.engine == Engine.LOCAL.value or not isinstance(source, str):
        form = options.rows.form
        return graph.load(source, format=form, engine="local", progress=line.follow, **options.load)
    from omnigraph.api.load_source import format_of

    try:
        return _send_to_spark(graph, source, options, line, output)
    except SourceError as error:
        if error.details.get("code") != _TYPE_ERROR:
            raise
        is_csv = format_of(source, options.rows.form) == "csv"
        how = _HOW_TO_CAST + (_HOW_TO_GUESS if is_csv else "")
        raise SourceError(f"{error.message}; {how}", **error.details) from error


def _send_to_spark(
    graph: "Graph", source: str, options: "LoadOptions", line: "ProgressLine", output: "Output"
) -> "JobReport":
    columns = options.rows.columns()
    with graph.pipeline(shared_filesystem=options.shared_filesystem) as pipeline:
        line.enter("session")
        return pipeline.load(
            source,
            format=options.rows.form,
            type=options.rows.type,
            edge=options.rows.edge,
            columns=columns,
            takes_same_names=columns is not None,
            options=options.rows.reader_options(),
            resume=options.resume,
            progress=line.follow,
            started=partial(tell_operation, output),
            **options.load,
        )


def announce_engine(
    session: "Session",
    target: "Target",
    lane: "Lane",
    options: "LoadOptions",
    report: "JobReport | None" = None,
) -> None:
    """Say which engine runs and why: Spark before the load, this process after it."""
    session.output.announce(f"engine {lane.engine}: {_why(target, lane, options, report)}")


def _why(target: "Target", lane: "Lane", options: "LoadOptions", report: "JobReport | None") -> str:
    if lane.why:
        return lane.why
    if options.engine is not None and options.engine is not Engine.AUTO:
        return f"--engine {options.engine.value}"
    if options.engine is None and target.settings.spark.engine is not Engine.AUTO:
        return f"OMNIGRAPH_ENGINE is {target.settings.spark.engine.value}"
    if report is None or report.already_loaded:
        return "nothing was loaded again"
    size_bytes = sum(stage.bytes for stage in report.stages)
    most = target.settings.spark.min_input_bytes
    return f"one input of {size_bytes:,} bytes; up to {most:,} are loaded in this process"
