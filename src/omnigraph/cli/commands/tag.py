"""`omnigraph tag`: commits under a name."""

from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriOption
from omnigraph.cli.session import begin_command, name_of

_CREATE_HELP = """Give a commit a name.

\b
Example:
  omnigraph tag create v1 --uri papers.omni

Names the head of a branch, main without --branch, or what --at names: a commit id, another tag, a
number of the branch, or a time. Wherever a commit is read, its tag will do: query --snapshot v1.
While the tag is there, cleanup keeps what it names, and the branch that holds it cannot be deleted.
"""
_LIST_HELP = """List the tags of a graph, by name.

\b
Example:
  omnigraph tag list --uri papers.omni
"""
_DELETE_HELP = """Delete a tag. Its commit stays in the history.

\b
Example:
  omnigraph tag delete v1 --uri papers.omni

Nothing keeps the data of an old commit any more: the next cleanup may remove it.
"""

_NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the tag.")]


def register(app: typer.Typer) -> None:
    """Add the group `tag`."""
    group = typer.Typer(rich_markup_mode=None, help="Give commits names, list and delete them.")
    group.command("create", help=_CREATE_HELP)(create)
    group.command("list", help=_LIST_HELP)(list_)
    group.command("delete", help=_DELETE_HELP)(delete)
    app.add_typer(group, name="tag")


def create(
    context: typer.Context,
    name: _NameArgument,
    *,
    at: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="The commit to name; the head without it."),
    ] = None,
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="The branch whose head, number or time is meant.")
    ] = "main",
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Create the tag and say what it names."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.reach(writes=True) as graph:
        made = graph.tags.create(name, at, branch=branch)
    if as_json:
        session.output.write_json({"uri": target.uri, **made.to_dict()})
    else:
        session.output.write(
            f"created tag {made.name} at commit {made.graph_commit_id}, version"
            f" {made.graph_manifest_version} of {made.graph_branch}"
        )
    return exit_codes.OK


def list_(context: typer.Context, *, uri: UriOption = None, as_json: JsonOption = False) -> int:
    """Print the tags."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, find_target
    from omnigraph.graph.bodies import show_time

    with find_target(session, uri, name=URI_OPTION).reach() as graph:
        tags = graph.tags.list()
    if as_json:
        session.output.write_json({"tags": [tag.to_dict() for tag in tags]})
        return exit_codes.OK
    session.output.write_table(
        ("tag", "commit", "version", "branch", "made at", "made by"),
        [
            (
                tag.name,
                tag.graph_commit_id,
                str(tag.graph_manifest_version),
                tag.graph_branch,
                show_time(tag.created_at),
                tag.actor_id or "-",
            )
            for tag in tags
        ],
    )
    return exit_codes.OK


def delete(
    context: typer.Context,
    name: _NameArgument,
    *,
    uri: UriOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete the tag and say so."""
    session = begin_command(context)

    from omnigraph.cli.addressing import URI_OPTION, announce_write, find_write_target

    target = find_write_target(session, uri, name=URI_OPTION)
    announce_write(session, name_of(context), target)
    with target.reach(writes=True) as graph:
        graph.tags.delete(name)
    if as_json:
        session.output.write_json({"uri": target.uri, "name": name, "actor_id": target.actor})
    else:
        session.output.write(f"deleted tag {name}")
    return exit_codes.OK
