"""`omnigraph serve` and `omnigraph-server`: answer HTTP requests over one graph or many."""

import inspect
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli.global_options import TARGET
from omnigraph.cli.session import Session, begin_command, name_of, session_of
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.server.boot import GraphSource
    from omnigraph.settings import Settings

NAME: Final = "serve"
_HELP: Final = """Serve a graph, or several, over HTTP.

\b
Example:
  {example}

Without --unauthenticated it needs tokens, in OMNIGRAPH_SERVER_BEARER_TOKENS_FILE or one of its
siblings; with tokens and without --policy only reading is allowed. It writes one line to standard
output when it listens, logs to standard error, and ends in order at SIGINT or SIGTERM.
"""


def register(app: typer.Typer) -> None:
    """Add `serve`."""
    app.command(NAME, help=_HELP.format(example="omnigraph serve papers.omni --unauthenticated"))(
        serve
    )


def register_program(app: typer.Typer, version_option: object) -> None:
    """Make the same command a program of its own, which tells its version, too."""
    signature = inspect.signature(serve)
    version = inspect.Parameter(
        "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=version_option
    )

    def run(*arguments: object, version: bool, **options: object) -> int:  # noqa: ARG001 - told
        return serve(*arguments, **options)  # type: ignore[arg-type]  # as typer read them

    parameters = [*signature.parameters.values(), version]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    app.command(help=_HELP.format(example="omnigraph-server papers.omni --unauthenticated"))(run)


def serve(
    context: typer.Context,
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="[URI]",
            show_default=False,
            help="The graph: a path, file:// or s3://. Several are given by --graph.",
        ),
    ] = None,
    *,
    graph_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of the one graph; `default` without it."),
    ] = None,
    graphs: Annotated[
        list[str] | None,
        typer.Option("--graph", metavar="ID=URI", help="A graph and its id; for each of several."),
    ] = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ID=]PATH",
            help="Stored queries: a .gq file or a folder of them; ID= gives it to one graph.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="[ID=]FILE", help="The policy of the graphs; ID= gives it to one."),
    ] = None,
    server_policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The policy of the server: who lists graphs, metrics."),
    ] = None,
    bind: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 lets the system choose."),
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Serve without tokens: all may do all.")
    ] = False,
    require_all_graphs: Annotated[
        bool,
        typer.Option(
            "--require-all-graphs", help="Do not start if one of the graphs cannot be served."
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Processes that answer.")
    ] = 1,
    metrics_bind: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Metrics there, without a token, and only there."),
    ] = None,
    no_maintenance: Annotated[
        bool,
        typer.Option("--no-maintenance", help="Leave what is due on the graphs to somebody else."),
    ] = False,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Have in memory what queries read before it listens."),
    ] = False,
) -> int:
    """Serve until a signal ends it."""
    is_program = not name_of(context)
    session = session_of(context) if is_program else begin_command(context)
    address, named = _address(session, uri), _named(session, graphs)
    project = None if is_program else _project_graph(session, is_named=bool(address or named))
    if project is not None:
        address = project.uri
        queries, policy = queries or list(project.queries), policy or project.policies
        bind = bind or project.bind
    settings = _settings(
        session, bind, is_open=unauthenticated, requires_all_graphs=require_all_graphs
    )
    _forget_tokens(session)

    from omnigraph.server.boot import parse_graph_options
    from omnigraph.server.logs import start_server_logging
    from omnigraph.server.main import ServeRequest, run_server

    uris = parse_graph_options(address, graph_id, named)
    start_server_logging(settings.server)
    return run_server(
        ServeRequest(
            source=_source(uris, queries or [], policy or [], server_policy),
            settings=settings,
            workers=workers,
            metrics_bind=metrics_bind,
            maintains=not no_maintenance,
            warms=warm,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProjectGraph:
    """A graph of the project's file, with what the file says about serving it."""

    uri: str
    queries: tuple[str, ...]
    policies: list[str]
    bind: str | None


def _project_graph(session: Session, *, is_named: bool) -> _ProjectGraph | None:
    """The graph of `--target`, or without any address the one that the file serves.

    Raises:
        UsageError: it is given beside another address, there is none, or it is behind a server.
    """
    from omnigraph.cli.addressing import read_configuration

    wanted = session.scope.target
    if is_named:
        if wanted is not None:
            raise UsageError(f"more than one graph is given; leave {TARGET} out, or the address")
        return None
    configuration = read_configuration(session, session.require_settings())
    project = configuration.project
    name = wanted or (None if project is None else project.server_graph)
    if project is None or name is None:
        if wanted is not None:
            raise UsageError(f"{TARGET}: there is no omnigraph.yaml that could name {wanted!r}")
        return None
    entry = project.graphs.get(name)
    if entry is None or entry.is_server:
        why = "is behind a server" if entry is not None else "is not under graphs of the file"
        raise UsageError(f"{name!r} cannot be served: it {why}")
    for warning in project.unknown:
        # A policy under another key would be none, and what is served would be open to more.
        session.output.warn(warning)
    session.settings = configuration.settings
    is_bound = "OMNIGRAPH_BIND" in configuration.environ
    return _ProjectGraph(
        uri=project.path_of(entry.uri),
        queries=tuple(map(project.path_of, entry.queries)),
        policies=[] if entry.policy is None else [project.path_of(entry.policy)],
        bind=None if is_bound else project.server_bind,
    )


def _address(session: Session, uri: str | None) -> str | None:
    if uri is not None and session.scope.store is not None:
        raise UsageError("the graph is given twice: as the argument and as --store")
    return uri or session.scope.store


def _named(session: Session, graphs: list[str] | None) -> list[str]:
    """What `--graph` names; before the command it is an option of all commands."""
    return [*([session.scope.graph] if session.scope.graph else []), *(graphs or [])]


def _settings(
    session: Session, bind: str | None, *, is_open: bool, requires_all_graphs: bool
) -> "Settings":
    from omnigraph.settings.values import parse_address

    settings = session.require_settings()
    server = settings.server
    if bind is not None:
        try:
            server = replace(server, bind=parse_address(bind))
        except ValueError as error:
            raise UsageError(f"--bind {bind}: {error}") from None
    if is_open:
        server = replace(server, unauthenticated=True)
    if requires_all_graphs:
        server = replace(server, require_all_graphs=True)
    return replace(settings, server=replace(server, log_level=session.log_level))


def _forget_tokens(session: Session) -> None:
    """Tokens were read; neither this process nor one that it starts shows them to anybody."""
    from omnigraph.server.auth import TOKEN_VARIABLES

    for name in TOKEN_VARIABLES:
        os.environ.pop(name, None)
    settings = session.require_settings()
    session.settings = replace(
        settings, server=replace(settings.server, bearer_token=None, bearer_tokens_json=None)
    )


def _source(
    uris: dict[str, str], queries: list[str], policies: list[str], server_policy: Path | None
) -> "GraphSource":
    from omnigraph.server.boot import GraphSource, parse_assignments

    files = parse_assignments(policies, uris)
    for graph_id, given in files.items():
        if len(given) > 1:
            raise UsageError(f"the graph {graph_id!r} has {len(given)} policies; give one --policy")
    return GraphSource(
        uris=uris,
        policy_files={graph_id: given[0] for graph_id, given in files.items()},
        server_policy_file=None if server_policy is None else str(server_policy),
        queries=parse_assignments(queries, uris),
    )
