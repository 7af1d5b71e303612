"""`omnigraph run`: the sources of a pipeline file into a graph, as one commit."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.spark_options import (
    ConfOption,
    MasterOption,
    RemoteOption,
    ResumeOption,
    SharedOption,
    tell_operation,
    with_spark,
)
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.session import Session
    from omnigraph.graph.jobs.report import JobReport

_HELP: Final = """Run a pipeline file: all its sources into the graph, as one commit, on Spark.

\b
Example:
  omnigraph run examples/papers/pipeline.yaml --store papers.omni

The graph is the one that the file names, unless --store or --profile names another. Sources with a
cursor go on where the last run ended. The same run again writes nothing. Paths in the file start
from its folder. Exits with 6 if rows are bad; then nothing is written.
"""


def register(app: typer.Typer) -> None:
    """Add `run`."""
    app.command("run", help=_HELP)(run_pipeline)


def run_pipeline(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline, a YAML file.")],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="Only this source; may be repeated."),
    ] = None,
    full_refresh: Annotated[
        bool,
        typer.Option("--full-refresh", help="Read every source from its beginning."),
    ] = False,
    keep_cursor: Annotated[
        bool,
        typer.Option(
            "--keep-cursor",
            help="Go on from a cursor although its source, or what is made of it, changed.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Load although the same run was committed before.")
    ] = False,
    resume: ResumeOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print what would be done.")
    ] = False,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run the pipeline and print what it did to each table."""
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, find_run_target
    from omnigraph.cli.consent import require_consent
    from omnigraph.pipeline.spec.pipeline_file import read_pipeline
    from omnigraph.pipeline.spec.pipeline_spec import with_paths_from
    from omnigraph.settings import process_environment

    spec = with_paths_from(read_pipeline(file, process_environment()), file.absolute().parent)
    target = with_spark(
        find_run_target(session, spec.graph),
        engine=Engine.SPARK,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
        command="run",
    )
    announce_write(session, name_of(context), target)
    if spec.mode is LoadMode.OVERWRITE and not dry_run:
        require_consent(session, target, "replacing all rows of each type in the pipeline")
    options = _RunOptions(
        file=file,
        only=only or None,
        full_refresh=full_refresh,
        keep_cursor=keep_cursor,
        force=force,
        resume=resume,
        dry_run=dry_run,
        shared_filesystem=shared_filesystem,
    )
    report = _run(session, target, options)
    if as_json:
        from omnigraph.graph.bodies import load_body

        session.output.write_json(load_body(report))
        return exit_codes.OK

    from omnigraph.cli.job_output import write_report

    write_report(session, report, what="run")
    return exit_codes.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunOptions:
    """The options as they were given."""

    file: Path
    only: list[str] | None
    full_refresh: bool
    keep_cursor: bool
    force: bool
    resume: str | None
    dry_run: bool
    shared_filesystem: bool


def _run(session: "Session", target: "Target", options: _RunOptions) -> "JobReport":
    from omnigraph.cli.job_output import STAGES
    from omnigraph.cli.progress import ProgressLine, telling_interrupts

    with (
        ProgressLine(session.output, STAGES) as line,
        telling_interrupts(line, "the graph is as before or has the whole run"),
        target.open(writes=True) as graph,
        graph.pipeline(shared_filesystem=options.shared_filesystem) as pipeline,
    ):
        line.enter("session")
        return pipeline.run(
            options.file,
            only=options.only,
            full_refresh=options.full_refresh,
            keep_cursor=options.keep_cursor,
            force=options.force,
            resume=options.resume,
            dry_run=options.dry_run,
            progress=line.follow,
            started=partial(tell_operation, session.output),
        )
