"""`omnigraph snapshot`: the tables of a branch at its head."""

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import BranchOption, JsonOption, UriArgument
from omnigraph.cli.session import begin_command

_HELP = """Show what a branch holds: its commit, its types and how many entities each has.

\b
Example:
  omnigraph snapshot papers.omni

Reads the manifest only, and writes nothing.
"""


def register(app: typer.Typer) -> None:
    """Add `snapshot`."""
    app.command("snapshot", help=_HELP)(snapshot)


def snapshot(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: BranchOption = "main",
    as_json: JsonOption = False,
) -> int:
    """Print the tables of the branch's head."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target
    from omnigraph.cli.bodies import snapshot_body, split_table_key

    with find_target(session, uri).open() as graph:
        taken = graph.snapshot(branch=branch)
        tables = taken.tables
        body = snapshot_body(taken, branch)
    if as_json:
        session.output.write_json(body)
        return exit_codes.OK
    session.output.write_facts(
        {"branch": branch, "version": taken.seq, "commit": taken.graph_commit_id}
    )
    session.output.write_table(
        ("kind", "type", "entities", "dataset", "dataset version"),
        [
            (
                *split_table_key(table),
                f"{table.entity_count:,}",
                table.dataset_path,
                str(table.published_dataset_version),
            )
            for table in tables
        ],
    )
    return exit_codes.OK
