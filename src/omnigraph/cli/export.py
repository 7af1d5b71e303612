"""`omnigraph export`: a graph as NDJSON on standard output, in the format that `load` reads."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import BranchOption, JsonOption, UriArgument
from omnigraph.cli.session import begin_command

if TYPE_CHECKING:
    from omnigraph.graph.snapshot import Snapshot

_HELP: Final = """Write a graph to standard output as NDJSON, in the format that load reads.

\b
Example:
  omnigraph export papers.omni --type Author --type Wrote

Nodes come before edges, then types by name, then entities by id: the same commit gives the same
bytes. All of it is read from one commit, the head of the branch, and nothing is written to the
graph. Bytes of blobs are included; a blob outside the graph is written as its address.
"""


def register(app: typer.Typer) -> None:
    """Add `export`."""
    app.command("export", help=_HELP)(export)


def export(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    branch: BranchOption = "main",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only this type, as Person, node:Link or edge:Link; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,  # noqa: ARG001 - the lines are JSON anyway; it shapes errors
) -> int:
    """Print the records of the branch's head."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target
    from omnigraph.cli.progress import ProgressLine

    target = find_target(session, uri)
    if sys.stdout is not None and sys.stdout.isatty():
        session.output.shows_progress = False  # The records themselves are seen there.
    with ProgressLine(session.output, {}, unit="entities") as line, target.open() as graph:
        found = graph.snapshot(branch=branch)
        chunks = graph.export(types=types, snapshot=found.resolved_snapshot)
        total, done = _count(found, types or ()), 0
        for chunk in chunks:
            session.output.write_data(chunk)
            done += chunk.count(b"\n")
            line.tell("exporting", done, total)
    return exit_codes.OK


def _count(snapshot: "Snapshot", types: Sequence[str]) -> int:
    """How many entities there are of the types, or of all without any."""
    return sum(
        table.entity_count
        for table in snapshot.tables
        if not types or {table.table_key, table.table_key.partition(":")[2]} & set(types)
    )
