"""`omnigraph optimize`: join small fragments and bring indexes up to date."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.maintenance_text import SPARK_STAGES, announce_lane, left_of, with_commit
from omnigraph.cli.options import JsonOption, TypesOption, UriArgument
from omnigraph.cli.session import begin_command, name_of
from omnigraph.cli.spark_options import (
    ConfOption,
    LaneOption,
    MasterOption,
    RemoteOption,
    SharedOption,
)

if TYPE_CHECKING:
    from omnigraph.graph.maintenance.optimize_report import TableOptimizeStats

_HELP: Final = """Join small fragments of tables and bring their indexes up to date.

\b
Example:
  omnigraph optimize papers.omni

Every write adds a fragment to each table that it touches, and reading many small ones is slow. This
changes no row and removes no version; it runs beside other writers, and makes one commit or, if
there is nothing to do, none. Where a table has more than 64 fragments or 10 million rows to work
on, Spark does the work if it is installed; the result is the same.
"""
_STAGES: Final = {
    **SPARK_STAGES,
    "plan": "looking at tables",
    "stage": "joining fragments, building indexes",
    "commit": "committing tables",
}
_INTERRUPTED: Final = "no row changed, and the graph has all of this commit or nothing of it"


def register(app: typer.Typer) -> None:
    """Add `optimize`."""
    app.command("optimize", help=_HELP)(optimize)


def optimize(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: Annotated[str, typer.Option(metavar="NAME", help="The branch whose tables.")] = "main",
    types: TypesOption = None,
    target_rows: Annotated[
        int | None,
        typer.Option(
            "--target-rows",
            min=1,
            metavar="N",
            help="How many rows a fragment is to have; 1,048,576 without it.",
        ),
    ] = None,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Optimize the tables and print what became of each."""
    session = begin_command(context)

    from omnigraph.api.maintenance_lane import request_of
    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.progress import ProgressLine, telling_interrupts
    from omnigraph.cli.spark_options import with_spark

    request = request_of(types or None, branch, joins=True, target_rows=target_rows)
    target = with_spark(
        find_write_target(session, uri),
        engine=engine,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
        command="optimize",
    )
    announce_write(session, name_of(context), target)
    with (
        ProgressLine(session.output, _STAGES, unit="parts") as line,
        telling_interrupts(line, _INTERRUPTED),
        target.open(writes=True) as graph,
    ):
        of_spark = {
            "--spark-master": spark_master,
            "--spark-remote": spark_remote,
            "--spark-conf": spark_conf,
            "--shared-filesystem": shared_filesystem,
        }
        lane = announce_lane(session, graph, request, engine, of_spark)
        if lane == "spark":
            line.enter("session")
        report = graph.maintenance.optimize(
            types=request.types,
            branch=branch,
            target_rows=target_rows,
            engine=lane,
            shared_filesystem=shared_filesystem,
            progress=line.follow,
        )
    if as_json:
        session.output.write_json(with_commit(report.to_dict(), report.commit))
        return exit_codes.OK
    commit = report.commit
    session.output.write_facts(
        {
            "branch": report.branch,
            "engine": report.engine,
            "commit": "none, nothing to do" if commit is None else commit.graph_commit_id,
        }
    )
    session.output.write_table(
        ("table", "fragments joined", "into", "built", "not yet", "dataset version"),
        [_line(table) for table in report.tables],
    )
    return exit_codes.OK


def _line(table: "TableOptimizeStats") -> tuple[str, ...]:
    built = ", ".join(f"{index.property_name} {index.kind}" for index in table.built) or "-"
    return (
        table.table_key,
        str(table.fragments_removed),
        str(table.fragments_added),
        built,
        left_of(table.pending_indexes, is_busy=table.skipped is not None),
        str(table.published_dataset_version),
    )
