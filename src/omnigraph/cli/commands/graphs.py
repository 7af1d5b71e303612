"""`omnigraph graphs list`: what a server serves."""

from typing import Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command

_LIST_HELP: Final = """List the graphs of a server.

\b
Example:
  omnigraph graphs list --server http://127.0.0.1:8080

A server tells its graphs only to whom a policy of its own allows it.
"""


def register(app: typer.Typer) -> None:
    """Add the group `graphs`."""
    group = typer.Typer(rich_markup_mode=None, help="Look at what a server serves.")
    group.command("list", help=_LIST_HELP)(list_)
    app.add_typer(group, name="graphs")


def list_(context: typer.Context, *, as_json: JsonOption = False) -> int:
    """Print the ids of the graphs and where they are."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_server

    body = find_server(session).list_graphs()
    if as_json:
        session.output.write_json(body)
        return exit_codes.OK
    session.output.write_table(
        ("graph", "uri"), [(each["graph_id"], each["uri"]) for each in body["graphs"]]
    )
    return exit_codes.OK
