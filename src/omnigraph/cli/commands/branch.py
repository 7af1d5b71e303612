"""`omnigraph branch`: create, list and delete branches."""

from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriOption
from omnigraph.cli.session import begin_command, name_of
from omnigraph.errors import UsageError

_CREATE_HELP = """Create a branch at the head of another one.

\b
Example:
  omnigraph branch create draft --uri papers.omni

Copies no data: the new branch shares every table until it writes one.
"""
_LIST_HELP = """List the branches of a graph.

\b
Example:
  omnigraph branch list --uri papers.omni

Shows each branch with its head, the branch it was made from, when and by whom; main comes first.
"""
_DELETE_HELP = """Delete a branch for good.

\b
Example:
  omnigraph branch delete draft --uri papers.omni

Refused while other branches were made from it. In an object store it needs --yes, or a typed yes.
Exits with 4 if the condition of --if-commit does not hold.
"""

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.")]


def register(app: typer.Typer) -> None:
    """Add the group `branch`."""
    group = typer.Typer(rich_markup_mode=None, help="Create, list and delete branches.")
    group.command("create", help=_CREATE_HELP)(create)
    group.command("list", help=_LIST_HELP)(list_)
    group.command("delete", help=_DELETE_HELP)(delete)
    app.add_typer(group, name="branch")


def create(
    context: typer.Context,
    name: _NameArgument,
    *,
    from_: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The branch to start from.")
    ] = "main",
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Create the branch and say so."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.open(writes=True) as graph:
        made = graph.branches.create(name, from_=from_)
    if as_json:
        session.output.write_json(
            {"uri": target.uri, "from": from_, "name": made.name, "actor_id": made.actor_id}
        )
    else:
        session.output.write(f"created branch {made.name} from {from_}")
    return exit_codes.OK


def list_(context: typer.Context, *, uri: UriOption = None, as_json: JsonOption = False) -> int:
    """Print the live branches."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.cli.bodies import show_time

    with find_target(session, uri, name=URI_OPTION).open() as graph:
        branches = graph.branches.list()
    if as_json:
        session.output.write_json({"branches": [branch.name for branch in branches]})
        return exit_codes.OK
    session.output.write_table(
        ("branch", "head", "made from", "made at", "made by"),
        [
            (
                branch.name,
                branch.head,
                branch.parent or "-",
                "-" if branch.created_at is None else show_time(branch.created_at),
                branch.actor_id or "-",
            )
            for branch in branches
        ],
    )
    return exit_codes.OK


def delete(
    context: typer.Context,
    name: _NameArgument,
    *,
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Delete only while this commit is the head of the branch."),
    ] = None,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete the branch, with consent where it is needed, and say so."""
    session = begin_command(context)
    if if_commit == "":
        raise UsageError("--if-commit is empty; give the id of a commit, or leave it out")

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target
    from omnigraph.cli.consent import require_consent

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    require_consent(session, target, f"deleting branch {name!r}")
    with target.open(writes=True) as graph:
        graph.branches.delete(name, if_commit=if_commit)
    if as_json:
        session.output.write_json({"uri": target.uri, "name": name, "actor_id": target.actor})
    else:
        session.output.write(f"deleted branch {name}")
    return exit_codes.OK
