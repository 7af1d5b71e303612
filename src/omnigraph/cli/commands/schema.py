"""`omnigraph schema`: the schema in force, and what a change of it would do."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import begin_command
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import UsageError

_SHOW_HELP = """Print the schema of a graph, as it was accepted.

\b
Example:
  omnigraph schema show papers.omni

With --at, the schema that was in force at a commit.
"""
_PLAN_HELP = """Show the steps from one schema to another.

\b
Example:
  omnigraph schema plan --from-schema /dev/null --schema examples/papers/schema.pg

Changes nothing. Every type counts as empty, so only what is wrong whatever the graph holds is
refused. Exits with 1 if a step is not supported.
"""


_NO_ROWS = "note: every type was taken as empty; existing rows may add checks or refuse a step"


def register(app: typer.Typer) -> None:
    """Add the group `schema`."""
    schema = typer.Typer(rich_markup_mode=None, help="Show a schema and plan changes of it.")
    schema.command("show", help=_SHOW_HELP)(show)
    schema.command("get", help=_SHOW_HELP, hidden=True)(show)
    schema.command("plan", help=_PLAN_HELP)(plan)
    app.add_typer(schema, name="schema")


def show(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    at: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="The commit to look at; the head without.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the source of the schema."""
    session = begin_command(context)

    from omnigraph.cli.addressing import find_target

    with find_target(session, uri).open() as graph:
        source = graph.schema.show(at=at)
    if as_json:
        session.output.write_json({"schema_source": source})
    else:
        session.output.write(source.removesuffix("\n"))
    return exit_codes.OK


def plan(
    context: typer.Context,
    *,
    schema: Annotated[Path, typer.Option(metavar="FILE", help="The desired schema, a .pg file.")],
    from_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The .pg file to take as the accepted schema."),
    ] = None,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Plan drops that remove data for good.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print the plan; 1 if it is not supported."""
    session = begin_command(context)
    if from_schema is None:
        raise UsageError(
            "schema plan on a graph is not in this version; give --from-schema, a .pg file to "
            "take as the accepted schema"
        )
    if session.scope.given():
        raise UsageError(
            f"--from-schema needs no graph; leave {next(iter(session.scope.given()))} out"
        )
    session.require_settings()

    from omnigraph.cli.bodies import schema_plan_body
    from omnigraph.lang import compile_schema, plan_migration

    migration = plan_migration(
        compile_schema(read_source_file(from_schema, "--from-schema"), path=str(from_schema)),
        compile_schema(read_source_file(schema, "--schema"), path=str(schema)),
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        session.output.write_json(schema_plan_body(migration))
    else:
        session.output.write(migration.render())
        if migration.steps:
            session.output.write(_NO_ROWS)
    return exit_codes.OK if migration.supported else exit_codes.FAILED
