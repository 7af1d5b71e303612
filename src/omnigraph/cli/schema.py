"""`omnigraph schema`: what a change of the schema would do."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import session_of
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import UsageError

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
    schema = typer.Typer(rich_markup_mode=None, help="Plan changes of a schema.")
    # A callback keeps the name of the only command in the command line.
    schema.callback()(_group)
    schema.command("plan", help=_PLAN_HELP)(plan)
    app.add_typer(schema, name="schema")


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
    session = session_of(context)
    if from_schema is None:
        raise UsageError(
            "schema plan without --from-schema needs a graph, and none is given; give --from-schema"
        )
    session.require_settings()

    from omnigraph.lang import compile_schema, plan_migration

    migration = plan_migration(
        compile_schema(read_source_file(from_schema, "--from-schema"), path=str(from_schema)),
        compile_schema(read_source_file(schema, "--schema"), path=str(schema)),
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        session.output.write_json(migration.to_dict())
    else:
        session.output.write(migration.render())
        if migration.steps:
            session.output.write(_NO_ROWS)
    return exit_codes.OK if migration.supported else exit_codes.FAILED


def _group() -> None:
    """Nothing to do before a command of the group."""
