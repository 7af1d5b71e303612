"""`omnigraph lint`: check queries against a schema file, or against the schema of a graph."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, UriArgument
from omnigraph.cli.session import Session, begin_command
from omnigraph.cli.source_files import read_source_file
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.lang import Catalog

_HELP = """Check the queries of a file against a schema file, or against that of a graph.

\b
Example:
  omnigraph lint --schema examples/papers/schema.pg --query examples/papers/queries.gq

Reports every query that would not run, and what looks like a mistake in those that would. Exits
with 1 if a query has an error, with 0 if there are only warnings.
"""

DEPRECATED_FORMS: Final = ("query lint", "query check")
"""Two words each: `query` on its own runs a query."""


def register(app: typer.Typer) -> None:
    """Add `lint`, its other name `check`, and the deprecated forms."""
    app.command("lint", help=_HELP)(lint)
    for name in ("check", *DEPRECATED_FORMS):
        app.command(name, help=_HELP, hidden=True)(lint)


def lint(
    context: typer.Context,
    uri: UriArgument = None,
    *,
    query: Annotated[Path, typer.Option(metavar="FILE", help="The .gq file to check.")],
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The .pg file to check against, instead of a graph."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the report; 1 if a query has an error."""
    session = begin_command(context)

    from omnigraph.lang import lint as lint_queries

    if schema is None:
        catalog, origin = _graph_catalog(session, uri)
    else:
        catalog, origin = _file_catalog(session, schema, uri)
    report = lint_queries(
        catalog,
        read_source_file(query, "--query"),
        path=str(query),
        schema_source=origin,
    )
    if as_json:
        session.output.write_json(report.to_dict())
    else:
        session.output.write(report.render())
    return exit_codes.OK if report.status == "ok" else exit_codes.FAILED


def _file_catalog(
    session: Session, schema: Path, uri: str | None
) -> tuple["Catalog", dict[str, str]]:
    addresses = [uri, *session.scope.given().values()]
    if any(address is not None for address in addresses):
        raise UsageError("lint takes --schema or a graph, and both are given; leave one out")
    session.require_settings()

    from omnigraph.lang import compile_schema

    catalog = compile_schema(read_source_file(schema, "--schema"), path=str(schema))
    return catalog, {"kind": "file", "path": str(schema)}


def _graph_catalog(session: Session, uri: str | None) -> tuple["Catalog", dict[str, str]]:
    from omnigraph.cli.addressing import find_target

    target = find_target(session, uri, name="URI, --schema FILE")
    with target.open() as graph:
        return graph.schema.catalog, {"kind": "graph", "uri": target.uri}
