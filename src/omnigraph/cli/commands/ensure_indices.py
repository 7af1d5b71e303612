"""`omnigraph ensure-indices`: build the indexes that the schema declares."""

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
    from omnigraph.graph.maintenance.index_report import TableIndexStats

_HELP: Final = """Build the declared indexes that are missing or do not cover every row.

\b
Example:
  omnigraph ensure-indices papers.omni

Changes no result of any query, only its speed; runs beside other writers, and makes one commit or,
if there is nothing to build, none. Where a table has more than 64 fragments or 10 million rows to
work on, Spark builds them if it is installed; the result is the same.
"""
_STAGES: Final = {
    **SPARK_STAGES,
    "plan": "looking at indexes",
    "build": "building indexes",
    "commit": "committing indexes",
}
_INTERRUPTED: Final = "no row changed, and the graph has all of this commit or nothing of it"


def register(app: typer.Typer) -> None:
    """Add `ensure-indices`."""
    app.command("ensure-indices", help=_HELP)(ensure_indices)


def ensure_indices(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="The branch whose tables are indexed.")
    ] = "main",
    types: TypesOption = None,
    engine: LaneOption = None,
    spark_master: MasterOption = None,
    spark_remote: RemoteOption = None,
    spark_conf: ConfOption = None,
    shared_filesystem: SharedOption = False,
    as_json: JsonOption = False,
) -> int:
    """Build the indexes and print what every table has now."""
    session = begin_command(context)

    from omnigraph.api.maintenance_lane import request_of
    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.progress import ProgressLine, telling_interrupts
    from omnigraph.cli.spark_options import with_spark

    request = request_of(types or None, branch, joins=False)
    target = with_spark(
        find_write_target(session, uri),
        engine=engine,
        master=spark_master,
        remote=spark_remote,
        conf=spark_conf,
        command="ensure-indices",
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
        report = graph.maintenance.ensure_indices(
            types=request.types,
            branch=branch,
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
            "commit": "none, nothing was built" if commit is None else commit.graph_commit_id,
        }
    )
    session.output.write_table(
        ("table", "built", "complete", "not yet", "dataset version"),
        [_line(table) for table in report.tables],
    )
    return exit_codes.OK


def _line(table: "TableIndexStats") -> tuple[str, ...]:
    built = ", ".join(f"{index.property_name} {index.kind}" for index in table.built) or "-"
    # Of no rows every index covers all, also one that is not there.
    absent = sum(index.reason == "no_rows" for index in table.pending_indexes)
    complete = sum(index.is_complete for index in table.coverage) - absent
    return (
        table.table_key,
        built,
        f"{complete} of {len(table.coverage)}",
        left_of(table.pending_indexes, is_busy=table.skipped is not None),
        str(table.published_dataset_version),
    )
