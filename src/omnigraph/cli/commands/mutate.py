"""`omnigraph mutate`: run a query that changes data, as one commit."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption, require_commit
from omnigraph.cli.query_input import (
    NameArgument,
    ParamsFileOption,
    ParamsOption,
    QueryFileOption,
    QueryOptions,
    QueryTextOption,
    TimeoutOption,
)
from omnigraph.cli.session import begin_command, name_of

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.graph.results.mutation_result import MutationResult

_HELP: Final = """Run a query that inserts, updates or deletes, as one commit.

\b
Example:
  omnigraph mutate --store papers.omni -e 'query q() { insert Topic { slug: "g", name: "Graphs" } }'

All of it happens or nothing does: a broken rule of the schema refuses the whole query. A query that
matches nothing makes no commit. Exits with 4 if the condition of --if-commit does not hold.
"""


def register(app: typer.Typer) -> None:
    """Add `mutate` and its deprecated name `change`."""
    app.command("mutate", help=_HELP)(mutate)
    app.command("change", help=_HELP, hidden=True)(mutate)


def mutate(
    context: typer.Context,
    name: NameArgument = None,
    *,
    file: QueryFileOption = None,
    text: QueryTextOption = None,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    branch: Annotated[str, typer.Option(metavar="NAME", help="The branch to write.")] = "main",
    if_commit: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Write only while this commit is the head of the branch."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Write at most once under this key; again, it prints the first receipt.",
        ),
    ] = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Change the graph and print what was done."""
    session = begin_command(context)
    options = QueryOptions(
        name=name,
        file=file,
        text=text,
        params=params,
        params_file=params_file,
        branch=branch,
        timeout_s=timeout,
    )
    require_commit(if_commit)

    from omnigraph.cli.addressing import announce_write, choose_branch, find_write_target
    from omnigraph.graph.bodies import mutation_body

    target = find_write_target(session, None, name=None)
    branch = choose_branch(context, target, branch)
    options = replace(options, branch=branch)
    query_input = None if options.names_stored(target) else options.read(target.roots)
    announce_write(session, name_of(context), target)
    session.is_repeatable = idempotency_key is not None
    condition: WriteCondition = {"if_commit": if_commit, "idempotency_key": idempotency_key}
    if query_input is None:
        result = _invoke(target, options, condition)
    else:
        with options.apply(target).reach(writes=True) as graph, query_input.placed():
            result = graph.mutate(
                query_input.source,
                name,
                query_input.params,
                branch=branch,
                timeout_s=timeout,
                **condition,
            )
    if as_json:
        session.output.write_json(mutation_body(result))
        return exit_codes.OK
    for warning in result.warnings:
        session.output.warn(warning)
    session.output.write_lines([_line(result)])
    return exit_codes.OK


class WriteCondition(TypedDict):
    """When a mutation may happen."""

    if_commit: str | None
    idempotency_key: str | None


def _invoke(target: "Target", options: QueryOptions, condition: WriteCondition) -> "MutationResult":
    """The receipt of a stored mutation of the server."""
    from omnigraph.graph.results.mutation_result import MutationResult

    result = options.invoke(target, expect_mutation=True, **condition)
    if not isinstance(result, MutationResult):
        raise TypeError("a stored mutation gives a receipt")
    return result


def _line(result: "MutationResult") -> str:
    nodes = _counted(result.affected_nodes, "node")
    edges = _counted(result.affected_edges, "edge")
    made = "no commit" if result.commit is None else f"commit {result.commit.graph_commit_id}"
    return f"{nodes}, {edges} on branch {result.branch} via {result.query_name}: {made}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
