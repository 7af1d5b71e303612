"""`omnigraph init`: create a graph."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.pandas_on_demand import start_arrow
from omnigraph.cli.session import begin_command
from omnigraph.cli.source_files import read_source_file

_HELP = """Create an empty graph with a schema.

\b
Example:
  omnigraph init papers.omni --schema examples/papers/schema.pg

The place must be new or empty. An init that crashed leaves a place that is neither; --force clears
it, and never touches a graph.
"""


def register(app: typer.Typer) -> None:
    """Add `init`."""
    app.command("init", help=_HELP)(init)


def init(
    context: typer.Context,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Where: a path, file:// or s3://bucket/prefix.")
    ],
    *,
    schema: Annotated[Path, typer.Option(metavar="FILE", help="The schema, a .pg file.")],
    force: Annotated[
        bool, typer.Option("--force", help="Clear what a crashed init left there.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Create the graph and print where."""
    session = begin_command(context)
    start_arrow()

    from omnigraph import Graph, compile_schema
    from omnigraph.cli.addressing import find_write_target
    from omnigraph.graph.bodies import commit_body
    from omnigraph.lang import require_meant_annotations

    target = find_write_target(session, uri)
    source = read_source_file(schema, "--schema")
    # Compiled here too, because only here the name of the file is known to the findings.
    catalog = compile_schema(source, path=str(schema))
    require_meant_annotations(source, path=str(schema))
    with Graph.init(
        target.uri,
        schema=source.decode(),
        actor=target.actor,
        force=force,
        settings=target.settings,
    ) as graph:
        first = graph.commits.list(limit=1).commits[0]
    if as_json:
        session.output.write_json({"uri": target.uri, "commit": commit_body(first)})
    else:
        session.output.write(
            f"created {target.uri}: node types {len(catalog.node_types)}, "
            f"edge types {len(catalog.edge_types)}"
        )
    return exit_codes.OK
