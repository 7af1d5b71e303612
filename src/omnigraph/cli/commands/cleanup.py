"""`omnigraph cleanup`: remove old versions, and what dead processes left."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import begin_command, name_of
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cli.output import Output
    from omnigraph.graph.maintenance.cleanup_report import CleanupReport

_HELP: Final = """Remove old versions of tables, and what dead processes left.

\b
Example:
  omnigraph cleanup papers.omni --keep 10 --older-than 7d

Shows what would go; only --confirm removes it, and in an object store it needs --yes, too. Give
--keep, --older-than or both; with both, a version goes only if both allow it. Reading a commit
whose versions are gone fails from then on. What heads, branches, tags, running jobs and recoveries
need always stays.

Exits with 1 if something could not be removed.
"""
_STAGES: Final = {"tables": "looking at old versions"}


def register(app: typer.Typer) -> None:
    """Add `cleanup`."""
    app.command("cleanup", help=_HELP)(cleanup)


def cleanup(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    keep: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Keep the newest N versions of each table; below 3 it acts as 3.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Keep what was in force within this time: 30m, 12h, 7d, 4w."
        ),
    ] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Remove it.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Show what may go, or remove it."""
    session = begin_command(context)
    if keep is None and older_than is None:
        raise UsageError("say what may go: --keep N, --older-than AGE, or both")

    from omnigraph.cli.addressing import announce_write, find_target, find_write_target
    from omnigraph.cli.consent import require_consent
    from omnigraph.cli.progress import ProgressLine

    if confirm:
        target = find_write_target(session, uri)
        announce_write(session, name_of(context), target)
        require_consent(session, target, "removing old versions")
    else:
        target = find_target(session, uri)
    with (
        ProgressLine(session.output, _STAGES, unit="tables") as line,
        target.open(writes=confirm) as graph,
    ):
        report = graph.maintenance.cleanup(
            keep=keep, older_than=older_than, confirm=confirm, progress=line.follow
        )
    for warning in report.warnings:
        session.output.warn(warning)
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        _show(session.output, report)
    return exit_codes.FAILED if report.errors else exit_codes.OK


def _show(output: "Output", report: "CleanupReport") -> None:
    from omnigraph.cli.stage_text import format_bytes

    output.write_table(
        ("table", "versions", "bytes", "error"),
        [
            (
                table.table_key,
                str(table.old_versions_removed),
                format_bytes(table.bytes_removed),
                table.error or "-",
            )
            for table in report.tables
        ],
    )
    if report.leftovers:
        output.write_table(
            ("beside them", "what", "error"),
            [(each.kind, each.name, each.error or "-") for each in report.leftovers],
        )
    if not report.confirmed:
        output.explain("nothing was removed; --confirm removes it")
