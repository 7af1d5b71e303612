"""`omnigraph ensure-indices`: build the indexes that the schema declares."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.maintenance_text import left_of, with_commit
from omnigraph.cli.options import JsonOption, TypesOption, UriArgument
from omnigraph.cli.session import begin_command, name_of

if TYPE_CHECKING:
    from omnigraph.graph.maintenance.index_report import TableIndexStats

_HELP: Final = """Build the declared indexes that are missing or do not cover every row.

\b
Example:
  omnigraph ensure-indices papers.omni

Changes no result of any query, only its speed; runs beside other writers, and makes one commit or,
if there is nothing to build, none.
"""
_STAGES: Final = {
    "plan": "looking at indexes",
    "build": "building indexes",
    "commit": "committing indexes",
}


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
    as_json: JsonOption = False,
) -> int:
    """Build the indexes and print what every table has now."""
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.progress import ProgressLine

    target = find_write_target(session, uri)
    announce_write(session, name_of(context), target)
    with (
        ProgressLine(session.output, _STAGES, unit="tables") as line,
        target.open(writes=True) as graph,
    ):
        report = graph.maintenance.ensure_indices(
            types=types or None, branch=branch, progress=line.follow
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
