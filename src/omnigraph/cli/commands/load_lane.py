"""The lane of one `omnigraph load`: chosen, announced and taken."""

from dataclasses import replace
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

    kind = format_of(source, options.rows.form)
    options.rows.require_fit(kind, options.data)
    options.rows.columns()
    spark = target.settings.spark
    lane = choose_lane(
        source,
        format=options.rows.form,
        engine=spark.engine.value,
        most_bytes=spark.min_input_bytes,
        has_session=has_active_session(),
        options=options.rows.reader_options(),
    )
    wish = _wish_for_spark(options)
    if lane.engine != Engine.LOCAL.value or wish is None:
        return lane
    if kind != "ndjson" and spark.engine is Engine.AUTO:
        return replace(lane, engine=Engine.SPARK.value, why=wish)
    raise UsageError(
        f"{wish} is about Spark, and this load runs in this process; leave it out, or give "
        "--engine spark"
    )


def _wish_for_spark(options: "LoadOptions") -> str | None:
    """An option that only a load on Spark has; None if none is given."""
    of_spark = {
        "--resume": options.resume,
        "--shared-filesystem": options.shared_filesystem,
        "--spark-master": options.spark_master,
        "--spark-remote": options.spark_remote,
        "--spark-conf": options.spark_conf,
    }
    return next((name for name, value in of_spark.items() if value), None)


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
    from omnigraph.api.load_source import format_of

    kind = format_of(source, options.rows.form)
    is_local = lane.engine == Engine.LOCAL.value
    if not isinstance(source, str) or (is_local and kind == "ndjson"):
        form = options.rows.form
        return graph.load(source, format=form, engine="local", progress=line.follow, **options.load)
    try:
        return _send_to_pipeline(graph, lane, source, options, line, output)
    except SourceError as error:
        if error.details.get("code") != _TYPE_ERROR:
            raise
        is_csv = kind == "csv"
        how = _HOW_TO_CAST + (_HOW_TO_GUESS if is_csv else "")
        raise SourceError(f"{error.message}; {how}", **error.details) from error


def _send_to_pipeline(
    graph: "Graph",
    lane: "Lane",
    source: str,
    options: "LoadOptions",
    line: "ProgressLine",
    output: "Output",
) -> "JobReport":
    from omnigraph.api.load_source import local_path

    columns = options.rows.columns()
    is_local = lane.engine == Engine.LOCAL.value
    with graph.pipeline(shared_filesystem=options.shared_filesystem) as pipeline:
        if not is_local:
            line.enter("session")
        return pipeline.load(
            str(local_path(source)) if is_local else source,
            engine=lane.engine,
            format=options.rows.form,
            type=options.rows.type,
            edge=options.rows.edge,
            columns=columns,
            takes_same_names=columns is not None,
            options=options.rows.reader_options(),
            resume=options.resume,
            progress=line.follow,
            # What is read in this process is read again sooner than resumed.
            started=None if is_local else partial(tell_operation, output),
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
    from omnigraph.api.load_source import local_path

    if lane.why:
        return lane.why
    if options.engine is not None and options.engine is not Engine.AUTO:
        return f"--engine {options.engine.value}"
    if options.engine is None and target.settings.spark.engine is not Engine.AUTO:
        return f"OMNIGRAPH_ENGINE is {target.settings.spark.engine.value}"
    if report is None or report.already_loaded:
        return "nothing was loaded again"
    size_bytes = sum(stage.bytes for stage in report.stages)
    if options.rows.type or options.rows.edge:
        # Columns are counted as they are in memory.
        size_bytes = local_path(options.data).stat().st_size
    most = target.settings.spark.min_input_bytes
    return f"one input of {size_bytes:,} bytes; up to {most:,} are loaded in this process"
