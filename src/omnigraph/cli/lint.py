"""`omnigraph lint`: check queries against a schema, without a graph."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import session_of
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import UsageError

_HELP = """Check the queries of a file against a schema.

\b
Example:
  omnigraph lint --schema examples/papers/schema.pg --query examples/papers/queries.gq

Reports every query that would not run, and what looks like a mistake in those that would. Exits
with 1 if a query has an error, with 0 if there are only warnings.
"""


def register(app: typer.Typer) -> None:
    """Add `lint`, its other name `check`, and the deprecated forms under `query`."""
    query = typer.Typer(rich_markup_mode=None, help="Deprecated: use `omnigraph lint`.")
    query.callback()(_warn_of_deprecated_form)
    for parent, name, hidden in (
        (app, "lint", False),
        (app, "check", True),
        (query, "lint", False),
        (query, "check", False),
    ):
        parent.command(name, help=_HELP, hidden=hidden)(lint)
    app.add_typer(query, name="query", hidden=True)


def lint(
    context: typer.Context,
    *,
    query: Annotated[Path, typer.Option(metavar="FILE", help="The .gq file to check.")],
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The .pg file that the queries are written for."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the report; 1 if a query has an error."""
    session = session_of(context)
    if schema is None:
        raise UsageError("lint without --schema needs a graph, and none is given; give --schema")
    session.require_settings()

    from omnigraph.lang import compile_schema
    from omnigraph.lang import lint as lint_queries

    catalog = compile_schema(read_source_file(schema, "--schema"), path=str(schema))
    report = lint_queries(
        catalog,
        read_source_file(query, "--query"),
        path=str(query),
        schema_source={"kind": "file", "path": str(schema)},
    )
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        session.output.write(report.render())
    return exit_codes.OK if report.status == "ok" else exit_codes.FAILED


def _warn_of_deprecated_form(context: typer.Context) -> None:
    form = f"omnigraph query {context.invoked_subcommand}"
    session_of(context).output.warn(f"'{form}' is deprecated; use 'omnigraph lint'")
