"""`omnigraph query`: run a read query and print its rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.query_input import (
    EngineOption,
    NameArgument,
    ParamsFileOption,
    ParamsOption,
    QueryFileOption,
    QueryOptions,
    QueryTextOption,
    ReadBranchOption,
    SnapshotOption,
    TimeoutOption,
)
from omnigraph.cli.row_style import RowFormat
from omnigraph.cli.session import begin_command

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.graph.results.query_result import QueryResult

_HELP: Final = """Run a read query and print its rows.

\b
Example:
  omnigraph query topic_overview --store papers.omni --query examples/papers/queries.gq

The whole query reads one state of the graph: the head of a branch, or a commit. It writes nothing.
"""


def register(app: typer.Typer) -> None:
    """Add `query` and its deprecated name `read`."""
    app.command("query", help=_HELP)(query)
    app.command("read", help=_HELP, hidden=True)(query)


def query(
    context: typer.Context,
    name: NameArgument = None,
    *,
    file: QueryFileOption = None,
    text: QueryTextOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
    form: Annotated[
        RowFormat | None,
        typer.Option(
            "--format",
            metavar="|".join(RowFormat),
            help="How rows are printed. Without it defaults.output of the operator config, then "
            "table.",
        ),
    ] = None,
    engine: EngineOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the rows of a query."""
    session = begin_command(context)
    options = QueryOptions(
        name=name,
        file=file,
        text=text,
        params=params,
        params_file=params_file,
        branch=branch,
        snapshot=snapshot,
        engine=engine,
        timeout_s=timeout,
    )

    from omnigraph.cli.addressing import choose_branch, find_query_target

    target, style = find_query_target(session)
    if snapshot is None:
        branch = choose_branch(context, target, branch)
        options = replace(options, branch=branch)
    if options.names_stored(target):
        from omnigraph.client.calls import require_local

        require_local(options.executor)
        result = _invoke(target, options)
    else:
        query_input = options.read(target.roots)
        with options.apply(target).reach() as graph, query_input.placed():
            result = graph.query(
                query_input.source,
                name,
                query_input.params,
                branch=branch,
                snapshot=snapshot,
                executor=options.executor,
                timeout_s=timeout,
            )
    style.write(result, style.choose_format(form, as_json=as_json), session.output)
    return exit_codes.OK


def _invoke(target: "Target", options: QueryOptions) -> "QueryResult":
    """The rows of a stored query of the server."""
    from omnigraph.graph.results.query_result import QueryResult

    result = options.invoke(target, expect_mutation=False)
    if not isinstance(result, QueryResult):
        raise TypeError("a stored read gives rows")
    return result
