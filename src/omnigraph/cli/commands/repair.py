"""`omnigraph repair`: tables that something outside has moved."""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import begin_command, name_of
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cli.output import Output
    from omnigraph.graph.maintenance.repair import RepairReport

_HELP: Final = """Find tables that something outside has moved, and repair them.

\b
Example:
  omnigraph repair papers.omni

Shows what it finds; --confirm rolls back what late writers left, and publishes versions that change
no row. Rows that something outside wrote need a decision: --confirm --force --discard restores what
the graph shows, --confirm --force --adopt publishes what the table shows, if it breaks no rule of
the schema. --discard also ends writes that recovery may not settle.

Exits with 1 if something is left.
"""
_STAGES: Final = {"branches": "looking at tables"}


def register(app: typer.Typer) -> None:
    """Add `repair`."""
    app.command("repair", help=_HELP)(repair)


def repair(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    confirm: Annotated[bool, typer.Option("--confirm", help="Repair it.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Decide about rows from outside, too.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="With --force: publish what the table shows.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="With --force: restore what the graph shows.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show what is wrong, or repair it."""
    session = begin_command(context)
    decision = _decision(confirm=confirm, force=force, adopt=adopt, discard=discard)

    from omnigraph.cli.addressing import announce_write, find_target, find_write_target
    from omnigraph.cli.progress import ProgressLine

    if confirm:
        target = find_write_target(session, uri)
        announce_write(session, name_of(context), target)
    else:
        target = find_target(session, uri)
    with (
        ProgressLine(session.output, _STAGES, unit="branches") as line,
        target.open(writes=confirm) as graph,
    ):
        report = graph.maintenance.repair(confirm=confirm, force=decision, progress=line.follow)
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        _show(session.output, report)
    return exit_codes.OK if report.is_clean else exit_codes.FAILED


def _decision(
    *, confirm: bool, force: bool, adopt: bool, discard: bool
) -> Literal["adopt", "discard"] | None:
    """What the options say about rows from outside.

    Raises:
        UsageError: they do not go together.
    """
    if not force and (adopt or discard):
        raise UsageError("--adopt and --discard need --force and --confirm")
    if not force:
        return None
    if not confirm or adopt == discard:
        raise UsageError("--force needs --confirm, and exactly one of --adopt and --discard")
    return "adopt" if adopt else "discard"


def _show(output: "Output", report: "RepairReport") -> None:
    if not report.tables and not report.blocked:
        output.write("nothing to repair")
        return
    output.write_table(
        ("branch", "table", "class", "pinned", "newest", "done", "left because"),
        [
            (
                table.branch,
                table.table_key,
                table.drift_class,
                str(table.published_dataset_version),
                str(table.lance_head_version),
                table.action or "-",
                table.error or "-",
            )
            for table in report.tables
        ],
    )
    for write in report.blocked:
        told = write.error or "what something outside wrote was discarded with it"
        output.write(f"{write.branch}  write {write.operation_id}  {told}")
