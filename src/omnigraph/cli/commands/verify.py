"""`omnigraph verify`: whether a graph is what it says it is."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import AnyBranchOption, JsonOption, UriArgument
from omnigraph.cli.session import begin_command

if TYPE_CHECKING:
    from omnigraph.cli.output import Output
    from omnigraph.graph.maintenance.verify_report import VerifyReport

_HELP: Final = """Check a whole graph; writes nothing.

\b
Example:
  omnigraph verify papers.omni --deep

Checks the history of each branch, the versions and row counts that its head shows, every rule of
the schema over all rows, and a sample of what indexes find. --deep also reads every column of every
row and the end of every file of blobs, opens the versions of older commits and looks for their
files, and tells of files that nothing names.

Exits with 0 only if nothing is wrong.
"""
_STAGES: Final = {"tables": "checking tables"}


def register(app: typer.Typer) -> None:
    """Add `verify`."""
    app.command("verify", help=_HELP)(verify)


def verify(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: AnyBranchOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Look at everything that is stored.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check the graph and print what is wrong."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target
    from omnigraph.cli.progress import ProgressLine

    with (
        ProgressLine(session.output, _STAGES, unit="tables") as line,
        find_target(session, uri).open() as graph,
    ):
        report = graph.maintenance.verify(branch=branch, deep=deep, progress=line.follow)
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        _show(session.output, report)
    return exit_codes.OK if report.is_sound else exit_codes.FAILED


def _show(output: "Output", report: "VerifyReport") -> None:
    for note in report.notes:
        output.explain(note)
    output.write_facts(
        {
            "branches": ", ".join(report.branches),
            "tables": f"{report.tables:,}",
            "rows": f"{report.rows:,}",
            "problems": f"{len(report.problems):,}",
        }
    )
    if report.problems:
        output.write_table(
            ("branch", "table", "check", "how many", "what"),
            [
                (each.branch, each.table_key or "-", each.check, f"{each.count:,}", each.message)
                for each in report.problems
            ],
        )
