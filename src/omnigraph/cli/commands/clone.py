"""`omnigraph clone`: a graph of its own from another one."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.pandas_on_demand import start_arrow
from omnigraph.cli.session import begin_command, name_of

if TYPE_CHECKING:
    from omnigraph.api import Graph
    from omnigraph.graph.history.branches import Branch

_HELP: Final = """Copy a graph with its branches to another place, as a graph of its own.

\b
Example:
  omnigraph clone papers.omni copy-of-papers.omni

The rows, their ids and the schema are the same; history is not copied, the clone begins its own.
Nobody can open it before it is complete. The source is only read, and may be written to meanwhile.
A clone that was killed leaves a place that is neither new nor a graph; --force clears it.
"""
_COLUMNS: Final = ("name", "head", "nodes", "edges")
_STAGES: Final = {"copy": "copying rows", "check": "checking the clone"}


def register(app: typer.Typer) -> None:
    """Add `clone`."""
    app.command("clone", help=_HELP)(clone)


def clone(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="The graph: a path, file:// or s3://bucket/prefix.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="DST", help="Where the clone goes; must be new.")
    ],
    *,
    at: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Only this state, as main; without other branches."),
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option(
            "--branch",
            metavar="NAME",
            help="Only main and this branch; may be given several times. All by default.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Clear what a crashed init or clone left there.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Clone the graph and print what the clone has."""
    session = begin_command(context)
    start_arrow()

    from omnigraph import Graph
    from omnigraph.cli.addressing import announce_write, find_write_target, require_storage
    from omnigraph.cli.progress import ProgressLine, telling_interrupts

    require_storage(source, "SRC")
    found = find_write_target(session, target, name="DST")
    announce_write(session, name_of(context), found)
    with ProgressLine(session.output, _STAGES) as line, telling_interrupts(line, "nothing is left"):
        graph = Graph.clone(
            source,
            found.uri,
            at=at,
            branches=branches or None,
            actor=found.actor,
            force=force,
            progress=line.follow,
            settings=found.settings,
        )
    with graph:
        branches_made = [_branch_body(graph, branch) for branch in graph.branches.list()]
    if as_json:
        body = {"source": source, "uri": found.uri, "branches": branches_made}
        session.output.write_json(body)
        return exit_codes.OK
    session.output.write(f"cloned {source} to {found.uri}")
    session.output.write_table(
        ("branch", "head", "nodes", "edges"),
        [tuple(_cell(branch[name]) for name in _COLUMNS) for branch in branches_made],
    )
    return exit_codes.OK


def _branch_body(graph: "Graph", branch: "Branch") -> dict[str, str | int | None]:
    counts = {"nodes": 0, "edges": 0}
    for table in graph.snapshot(branch=branch.name).tables:
        counts["edges" if table.table_key.startswith("edge:") else "nodes"] += table.entity_count
    return {"name": branch.name, "parent": branch.parent, "head": branch.head, **counts}


def _cell(value: str | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
