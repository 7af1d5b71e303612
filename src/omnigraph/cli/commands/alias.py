"""`omnigraph alias`: a read under a name of one's own.

An alias of the operator config is bound to a stored query of a server; one of the project's file
names a query in a `.gq` file. It lives under this command, so that it cannot shadow another one.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.query_input import ParamsFileOption, ParamsOption, QueryOptions, find_below
from omnigraph.cli.row_style import RowFormat
from omnigraph.cli.session import Session, begin_command
from omnigraph.errors import ParameterError, UsageError

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Configuration
    from omnigraph.cli.operator_config import Alias
    from omnigraph.cli.project_config import ProjectAlias
    from omnigraph.graph.results.query_result import QueryResult

_HELP: Final = """Run a read that the configuration has a name for.

\b
Example:
  omnigraph alias triage 2026-11-01 --format kv

The words after the name are values of the parameters that the alias lists. --params wins over them,
and they win over the parameters of the alias.
"""


def register(app: typer.Typer) -> None:
    """Add `alias`."""
    app.command("alias", help=_HELP)(alias)


def alias(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The alias.")],
    args: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", show_default=False, help="Values of parameters."),
    ] = None,
    *,
    params: ParamsOption = None,
    params_file: ParamsFileOption = None,
    form: Annotated[
        RowFormat | None,
        typer.Option("--format", metavar="|".join(RowFormat), help="How rows are printed."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the rows of the query that the alias stands for."""
    session = begin_command(context)

    from omnigraph.cli.addressing import read_configuration

    configuration = read_configuration(session, session.require_settings())
    own = configuration.operator.aliases.get(name)
    project = configuration.project
    shared = None if project is None else project.aliases.get(name)
    chosen = own or shared
    if chosen is None:
        known = sorted({*configuration.operator.aliases, *(project.aliases if project else ())})
        raise UsageError(f"there is no alias {name!r} ({', '.join(known) or 'there is none'})")
    given = QueryOptions(
        name=None,
        file=None,
        text="",
        params=params,
        params_file=params_file,
        branch=None,
        timeout_s=None,
    ).read()
    named = given.params or {}
    words = _positionals(name, chosen.args, args or ())
    values = {**chosen.params, **words, **named}

    def run(values: Mapping[str, object]) -> "QueryResult":
        if own is not None:
            return _run_stored(configuration, own, values)
        return _run_file(session, configuration, _required(shared), values)

    result = _run_with(run, values, {key: words[key] for key in words if key not in named})
    style = configuration.row_style
    form = form or (None if as_json else chosen.format)
    style.write(result, style.choose_format(form, as_json=as_json), session.output)
    return exit_codes.OK


def _required(shared: "ProjectAlias | None") -> "ProjectAlias":
    if shared is None:
        raise TypeError("one of the two is there")
    return shared


def _run_with(
    run: Callable[[Mapping[str, object]], "QueryResult"],
    values: Mapping[str, object],
    words: dict[str, str],
) -> "QueryResult":
    """The rows with words as text; with JSON in place of each that its parameter takes no text for.

    What a parameter is, only the query tells, which may be behind a server.
    """
    try:
        return run(values)
    except ParameterError as error:
        name = str(error.details.get("parameter"))
        if error.details.get("reason") != "parameter_type" or name not in words:
            raise
        try:
            value = json.loads(words.pop(name))
        except ValueError:
            raise error from None
    return _run_with(run, {**values, name: value}, words)


def _positionals(name: str, names: Sequence[str], args: Sequence[str]) -> dict[str, str]:
    if len(args) > len(names):
        raise UsageError(
            f"alias {name!r} takes {len(names)} values ({', '.join(names)}), not {len(args)}"
        )
    return dict(zip(names, args, strict=False))


def _run_stored(
    configuration: "Configuration", own: "Alias", values: Mapping[str, object]
) -> "QueryResult":
    from omnigraph.graph.results.query_result import QueryResult

    defaults = configuration.operator.defaults
    server_name = own.server or defaults.server
    if server_name is None:
        raise UsageError(f"the alias of {own.query!r} names no server, and defaults has none")
    server = configuration.server(server_name, "the alias")
    graph_id = own.graph or (defaults.default_graph if server_name == defaults.server else None)
    with server.place(graph_id).open() as graph:
        result = graph.queries.invoke(own.query, values, expect_mutation=False)
    if not isinstance(result, QueryResult):
        raise TypeError("a stored read gives rows")
    return result


def _run_file(
    session: Session,
    configuration: "Configuration",
    shared: "ProjectAlias",
    values: Mapping[str, object],
) -> "QueryResult":
    from omnigraph.cli.addressing import find_project_target
    from omnigraph.cli.source_files import read_source_file

    target = find_project_target(session, configuration, shared.graph)
    path = find_below(Path(shared.query), configuration.roots)
    text = read_source_file(path, "alias", allows_stdin=False).decode(errors="surrogateescape")
    with target.reach() as graph:
        return graph.query(text, shared.name, values, branch=shared.branch or target.branch)
