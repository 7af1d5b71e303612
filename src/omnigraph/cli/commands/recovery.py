"""`omnigraph recovery`: how interrupted writes were settled."""

import sys

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import AnyBranchOption, JsonOption, LimitOption, UriArgument
from omnigraph.cli.session import begin_command

_LIST_HELP = """List the recoveries of a branch with their outcome, newest first.

\b
Example:
  omnigraph recovery list papers.omni

A recovery settles a write whose process died: it finishes the write, or restores what was before.
"""


def register(app: typer.Typer) -> None:
    """Add the group `recovery`."""
    group = typer.Typer(rich_markup_mode=None, help="Look at what recoveries did.")
    # A callback keeps the name of the only command in the command line.
    group.callback()(_group)
    group.command("list", help=_LIST_HELP)(list_)
    app.add_typer(group, name="recovery")


def list_(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: AnyBranchOption = None,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print what recoveries did on the branch, or on all."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target
    from omnigraph.graph.bodies import show_time

    with find_target(session, uri).open() as graph:
        recoveries = graph.maintenance.recoveries(branch=branch, limit=limit or sys.maxsize)
    if as_json:
        session.output.write_json({"recoveries": [recovery.to_dict() for recovery in recoveries]})
        return exit_codes.OK
    session.output.write_table(
        ("operation", "outcome", "write", "for", "settled at", "commit"),
        [
            (
                recovery.operation_id,
                recovery.recovery_kind,
                recovery.writer_kind,
                recovery.recovery_for_actor or "-",
                show_time(recovery.recovered_at),
                recovery.graph_commit_id or "-",
            )
            for recovery in recoveries
        ],
    )
    return exit_codes.OK


def _group() -> None:
    """Nothing to do before a command of the group."""
