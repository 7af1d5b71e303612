"""The two programs, `omnigraph` and `omnigraph-server`: global options, dispatch, the end.

Every way a command can end passes through `_run`: a result, an error, a wrong command line, an
interrupt, a closed pipe. Global options may stand before or after the command.
"""

import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from typer.main import get_command

from omnigraph.cli import exit_codes
from omnigraph.cli.commands import (
    alias,
    analytics,
    blob,
    branch,
    changes,
    cleanup,
    clone,
    commit,
    config,
    diff,
    doctor,
    embed,
    ensure_indices,
    explain,
    export,
    graphs,
    init,
    lint,
    load,
    login,
    mutate,
    optimize,
    policy,
    profile,
    query,
    recovery,
    repair,
    run_pipeline,
    schema,
    serve,
    snapshot,
    tag,
    verify,
    version,
)
from omnigraph.cli.failures import render_traceback, report, translate
from omnigraph.cli.global_options import GRAPH, Scope
from omnigraph.cli.logs import start_logging
from omnigraph.cli.output import ColorMode, prepare_streams, settle_streams
from omnigraph.cli.session import Session, open_session, session_of
from omnigraph.cli.spark_log import log_path
from omnigraph.errors import Cancelled, SettingInvalid
from omnigraph.settings import LogLevel

_HELP: Final = """A typed property-graph database on a lakehouse.

\b
Example:
  omnigraph init papers.omni --schema examples/papers/schema.pg
"""
_GLOBAL_FLAGS: Final = ("--yes", "--quiet", "--no-progress")
_GLOBAL_OPTIONS: Final = (
    *("--store", "--server", "--graph", "--cluster", "--profile", "--target", "--config", "--as"),
    *("--log-level", "--color"),
)
_CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    help=_HELP,
    epilog="Global options may stand before or after the command.",
    context_settings=_CONTEXT_SETTINGS,
    rich_markup_mode=None,
)
for _group in (
    *(
        init,
        clone,
        query,
        mutate,
        load,
        run_pipeline,
        embed,
        analytics,
        explain,
        export,
        blob,
        snapshot,
        branch,
        tag,
        commit,
        diff,
        changes,
        schema,
        serve,
    ),
    *(optimize, ensure_indices, cleanup, repair, verify, recovery, lint, policy),
    *(graphs, alias, login, profile, config, version, doctor),
):
    _group.register(app)

server_app = typer.Typer(
    context_settings=_CONTEXT_SETTINGS, rich_markup_mode=None, add_completion=False
)


def run() -> NoReturn:
    """The program `omnigraph`."""
    _collect_seldom()
    sys.exit(main(sys.argv[1:], os.environ))


def run_server() -> NoReturn:
    """The program `omnigraph-server`."""
    _collect_seldom()
    sys.exit(_run(server_app, "omnigraph-server", sys.argv[1:], os.environ))


def _collect_seldom() -> None:
    """Look for cycles of garbage seldom: imports make many objects and hardly any garbage."""
    gc.set_threshold(50_000)


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command of `omnigraph` and return its exit code; no command shows the help."""
    return _run(app, "omnigraph", _hoist_global_options(arguments) or ["--help"], environ)


def _print_version(context: typer.Context, value: bool) -> None:  # noqa: FBT001 - typer's call
    if value:
        session_of(context).output.write(version.describe_version())
        raise typer.Exit


_VersionOption = Annotated[
    bool,
    typer.Option(
        "-v",
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version of omnigraph and of its storage format.",
    ),
]


@app.callback()
def apply_global_options(
    context: typer.Context,
    *,
    store: Annotated[
        str | None,
        typer.Option(metavar="URI", help="The storage of one graph: a path, file:// or s3://."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="NAME|URL", help="A server: of the operator config, or http(s)://."),
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The graph of the server."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME|DIR|URI", help="A cluster; not in this version.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A profile of the operator config, if no URI is given."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A graph of the project's file, omnigraph.yaml."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The project's file; omnigraph.yaml here without it."),
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--as", metavar="ACTOR", help="Who a write is recorded for.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Consent to a destructive command on a remote target.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print no target and no progress.")
    ] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress.")] = False,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            metavar="|".join(LogLevel),
            help="Log from this level on; debug adds the traceback to an error.",
        ),
    ] = None,
    color: Annotated[
        ColorMode,
        typer.Option(
            metavar="|".join(ColorMode), help="Use colour; auto asks the terminal and NO_COLOR."
        ),
    ] = ColorMode.AUTO,
    version: _VersionOption = False,  # noqa: ARG001 - its callback did the work
) -> None:
    """Complete the session with the global options."""
    session = session_of(context)
    session.scope = Scope(
        store=store,
        server=server,
        cluster=cluster,
        graph=graph,
        profile=profile,
        actor=actor,
        target=target,
        config=config,
    )
    session.assumes_yes = yes
    session.log_level = log_level or session.log_level
    session.output.color = color
    session.output.is_quiet = quiet
    session.output.shows_progress = not (quiet or no_progress)
    start_logging(session, is_asked=log_level is not None)


serve.register_program(server_app, _VersionOption)


def _hoist_global_options(arguments: Sequence[str]) -> list[str]:
    """Put global options first, where typer looks for them; nothing after `--` is touched."""
    first: list[str] = []
    rest: list[str] = []
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if argument == "--":
            rest += [argument, *remaining]
            break
        if argument.partition("=")[0] == GRAPH and rest[:1] == [serve.NAME]:
            rest.append(argument)  # there it names a graph to serve, and comes many times
        elif argument in _GLOBAL_OPTIONS:
            first += [argument, *remaining[:1]]
            del remaining[:1]
        elif argument in _GLOBAL_FLAGS or argument.startswith(
            tuple(f"{option}=" for option in _GLOBAL_OPTIONS)
        ):
            first.append(argument)
        else:
            rest.append(argument)
    return first + _join_words(rest)


def _join_words(arguments: list[str]) -> list[str]:
    """A deprecated form of two words as one, which is how it is registered."""
    form = " ".join(arguments[:2])
    return [form, *arguments[2:]] if form in lint.DEPRECATED_FORMS else arguments


def _run(
    program: typer.Typer, name: str, arguments: Sequence[str], environ: Mapping[str, str]
) -> int:
    """Run a command to whatever end it comes, and return the exit code."""
    prepare_streams()
    session = open_session(environ, is_json="--json" in arguments)
    try:
        return _dispatch(program, name, arguments, session)
    except BrokenPipeError:
        return exit_codes.OK
    except SystemExit as end:
        # Typer turns a closed pipe into an exit with 1 and keeps the reason as the context.
        if isinstance(end.__context__, OSError) and end.__context__.errno == errno.EPIPE:
            return exit_codes.OK
        raise
    finally:
        settle_streams()


def _dispatch(program: typer.Typer, name: str, arguments: Sequence[str], session: Session) -> int:
    try:
        code = get_command(program).main(
            arguments, prog_name=name, standalone_mode=False, obj=session
        )
        if code == exit_codes.INTERRUPTED:
            raise Cancelled("interrupted")
        session.output.finish()
    except (KeyboardInterrupt, typer.Abort):
        return report(Cancelled("interrupted"), session.output)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the edge of the process: everything ends as an error
        if session.log_level is LogLevel.DEBUG:
            session.output.explain(render_traceback(error))
        settings = session.settings
        return report(
            translate(error),
            session.output,
            is_repeatable=session.is_repeatable,
            log=None if isinstance(settings, SettingInvalid) else log_path(settings),
        )
    return int(code or exit_codes.OK)
