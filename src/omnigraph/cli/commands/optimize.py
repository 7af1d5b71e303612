"""`omnigraph optimize`: join small fragments and bring indexes up to date."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.maintenance_text import left_of, with_commit
from omnigraph.cli.options import JsonOption, TypesOption, UriArgument
from omnigraph.cli.session import begin_command, name_of

if TYPE_CHECKING:
    from omnigraph.graph.maintenance.optimize_report import TableOptimizeStats

_HELP: Final = """Join small fragments of tables and bring their indexes up to date.

\b
Example:
  omnigraph optimize papers.omni

Every write adds a fragment to each table that it touches, and reading many small ones is slow. This
changes no row and removes no version; it runs beside other writers, and makes one commit or, if
there is nothing to do, none.
"""
_STAGES: Final = {
    "plan": "looking at tables",
    "stage": "joining fragments, building indexes",
    "commit": "committing tables",
}


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
    as_json: JsonOption = False,
) -> int:
    """Optimize the tables and print what became of each."""
    session = begin_command(context)

    from omnigraph.cli.addressing import announce_write, find_write_target
    from omnigraph.cli.progress import ProgressLine

    target = find_write_target(session, uri)
    announce_write(session, name_of(context), target)
    with (
        ProgressLine(session.output, _STAGES, unit="tables") as line,
        target.open(writes=True) as graph,
    ):
        report = graph.maintenance.optimize(
            types=types or None, branch=branch, target_rows=target_rows, progress=line.follow
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
