"""What the global options and the environment say, handed to every command."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import typer

from omnigraph.cli.global_options import RULES, Scope, refuse_unusable
from omnigraph.cli.output import Output
from omnigraph.errors import SettingInvalid
from omnigraph.settings import LogLevel, Settings, load_settings


@dataclass(slots=True, kw_only=True)
class Session:
    """One run of the program; the global options complete it before the command starts."""

    output: Output
    environ: Mapping[str, str]
    settings: Settings | SettingInvalid
    log_level: LogLevel
    scope: Scope = field(default_factory=Scope)
    assumes_yes: bool = False
    is_repeatable: bool = False
    """The command has an idempotency key: sending it again cannot write twice."""

    def require_settings(self) -> Settings:
        """The settings; what the operator should know about them goes to standard error.

        Help, `version` and `doctor` do without, so that they work with broken settings too.

        Raises:
            SettingInvalid: a variable has a malformed value.
        """
        if isinstance(self.settings, SettingInvalid):
            raise self.settings
        for warning in self.settings.warnings:
            self.output.warn(warning)
        return self.settings


def open_session(environ: Mapping[str, str], *, is_json: bool) -> Session:
    """The session before its options are parsed; broken settings wait until somebody needs them."""
    try:
        settings = load_settings(environ)
    except SettingInvalid as error:
        return Session(
            output=Output(is_json=is_json, allows_color=False),
            environ=environ,
            settings=error,
            log_level=LogLevel.INFO,
        )
    return Session(
        output=Output(is_json=is_json, allows_color=not settings.client.no_color),
        environ=environ,
        settings=settings,
        log_level=settings.server.log_level,
    )


def session_of(context: typer.Context) -> Session:
    """The session of this run, for options and groups; a command takes `begin_command`."""
    session: Session = context.obj
    return session


def begin_command(context: typer.Context) -> Session:
    """The session of a command that is about to run; a deprecated one warns first.

    Raises:
        UsageError: a global option was given that this command cannot use.
    """
    session = session_of(context)
    name = name_of(context)
    instead = RULES[name].instead
    if instead is not None:
        session.output.warn(f"'omnigraph {name}' is deprecated; use 'omnigraph {instead}'")
    refuse_unusable(name, session.scope)
    return session


def name_of(context: typer.Context) -> str:
    """The words of the running command: `branch create`."""
    return context.command_path.partition(" ")[2]
