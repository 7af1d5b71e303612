"""`omnigraph snapshot`: the tables of a branch at its head, or of an older state."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.commit_text import pipeline_text, rows_text
from omnigraph.cli.options import BranchOption, JsonOption, UriArgument
from omnigraph.cli.session import begin_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.graph_like import GraphLike
    from omnigraph.graph.maintenance.due import TableDue

_HELP = """Show what a branch holds: its commit, its types and how many entities each has.

\b
Example:
  omnigraph snapshot papers.omni

Reads metadata only, and writes nothing. With --at it shows an older state: a commit id, a tag, a
number of the branch, or a time such as 2026-11-18T09:30Z, which is the newest commit until then. Of
a head it tells on stderr what maintenance is due.
"""


def register(app: typer.Typer) -> None:
    """Add `snapshot`."""
    app.command("snapshot", help=_HELP)(snapshot)


def snapshot(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: BranchOption = "main",
    at: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="The state to look at; the head without it."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the tables of the state."""
    session = begin_command(context)

    from omnigraph.cli.addressing import choose_branch, find_target
    from omnigraph.graph.bodies import snapshot_body, split_table_key
    from omnigraph.graph.history.target_texts import time_text

    target = find_target(session, uri)
    branch = choose_branch(context, target, branch)
    with target.reach() as graph:
        taken = graph.snapshot(at, branch=branch)
        commit = graph.commits.get(taken.graph_commit_id)
        if at is not None:
            # It may lie on another branch, which its number belongs to.
            branch = commit.graph_branch
        tables = taken.tables
        body = snapshot_body(taken, branch)
        is_head = at is None and not as_json and target.place is None
        due = _due(graph, branch) if is_head else ()
    if as_json:
        session.output.write_json(body)
        return exit_codes.OK
    session.output.write_facts(
        {
            "branch": branch,
            "version": taken.seq,
            "commit": taken.graph_commit_id,
            "time": time_text(commit.committed_at),
            "rows": rows_text(commit),
            "pipeline": pipeline_text(commit) if "pipeline" in commit.stats else None,
        }
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
    for table in due:
        session.output.announce(f"maintenance is due: {table.table_key}: {table.reason}")
    return exit_codes.OK


def _due(graph: "GraphLike", branch: str) -> "Sequence[TableDue]":
    """What maintenance would do, which only an open graph tells."""
    from omnigraph.api import Graph

    return graph.maintenance.status(branch=branch).tables if isinstance(graph, Graph) else ()
