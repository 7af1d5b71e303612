"""`omnigraph explain`: show how a read query runs."""

from typing import Annotated, Final

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
from omnigraph.cli.session import begin_command

_HELP: Final = """Show how a read query would run, without running it.

\b
Example:
  omnigraph explain papers_of_author --store papers.omni --query examples/papers/queries.gq

Parameters may be left out. With --analyze the query runs, which needs them, and the plan has the
rows and the time of every step.
"""


def register(app: typer.Typer) -> None:
    """Add `explain`."""
    app.command("explain", help=_HELP)(explain)


def explain(
    context: typer.Context,
    name: NameArgument = None,
    *,
    file: QueryFileOption = None,
    text: QueryTextOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: ReadBranchOption = None,
    snapshot: SnapshotOption = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query and show what was measured.")
    ] = False,
    engine: EngineOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the plan of a query."""
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
    from omnigraph.graph.bodies import plan_body

    target, _ = find_query_target(session)
    if snapshot is None:
        branch = choose_branch(context, target, branch)
    query_input = options.read(target.roots)
    with options.apply(target).reach() as graph, query_input.placed():
        plan = graph.explain(
            query_input.source,
            name,
            query_input.params,
            branch=branch,
            snapshot=snapshot,
            executor=options.executor,
            analyze=analyze,
        )
    if as_json:
        session.output.write_json(plan_body(plan))
    else:
        session.output.write_lines(str(plan).split("\n"))
    return exit_codes.OK
