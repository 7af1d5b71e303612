"""`omnigraph login` and `logout`: keep the token of a server, and forget it."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import Session, begin_command
from omnigraph.errors import UsageError

_LOGIN_HELP: Final = """Keep the token of a server in the file of credentials.

\b
Example:
  omnigraph login prod < token.txt

The token is one line on standard input, which no list of processes shows, or --token. It is sent
only to the server of that name in the operator config. The file can be read by you alone.
"""
_LOGOUT_HELP: Final = """Forget the token of a server.

\b
Example:
  omnigraph logout prod

It is no error if there is none.
"""
_NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The server, as the operator config names it.")
]


def register(app: typer.Typer) -> None:
    """Add `login` and `logout`."""
    app.command("login", help=_LOGIN_HELP)(login)
    app.command("logout", help=_LOGOUT_HELP)(logout)


def login(
    context: typer.Context,
    name: _NameArgument,
    *,
    token: Annotated[
        str | None,
        typer.Option(metavar="T", help="The token; standard input is the safer place for it."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Put the token into the file."""
    session = begin_command(context)
    _require_name(name)

    from omnigraph.cli.operator_config import read_operator_config
    from omnigraph.client.credentials import read_credentials, write_credentials
    from omnigraph.settings import Secret

    home = _home(session)
    given = (_read_line() if token is None else token).strip()
    if not given or not given.isascii() or not given.isprintable():
        raise UsageError("a token is one line of printable ASCII characters; none was given")
    tokens = read_credentials(home) | {name: Secret(given)}
    write_credentials(home, tokens)
    is_known = name in read_operator_config(home).servers
    if not is_known:
        session.output.warn(
            f"{name!r} is not under servers of the operator config; the token is used once it is"
        )
    _tell(session, f"logged in to {name}", {"name": name, "known": is_known}, as_json=as_json)
    return exit_codes.OK


def logout(context: typer.Context, name: _NameArgument, *, as_json: JsonOption = False) -> int:
    """Take the token out of the file."""
    session = begin_command(context)
    _require_name(name)

    from omnigraph.client.credentials import read_credentials, write_credentials

    home = _home(session)
    tokens = read_credentials(home)
    is_removed = tokens.pop(name, None) is not None
    if is_removed:
        write_credentials(home, tokens)
    text = f"logged out of {name}" if is_removed else f"there was no token of {name}"
    _tell(session, text, {"name": name, "removed": is_removed}, as_json=as_json)
    return exit_codes.OK


def _tell(session: Session, text: str, body: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        session.output.write_json(body)
    else:
        session.output.write(text)


def _home(session: Session) -> Path:
    home = session.require_settings().client.home
    if home is None:
        raise UsageError("this account has no home folder; set OMNIGRAPH_HOME")
    return home


def _read_line() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no token is given; write it to standard input, or give --token T")
    return sys.stdin.readline()


def _require_name(name: str) -> None:
    if not name.isprintable() or not name.strip() or set(name) & set("[]\n="):
        raise UsageError(f"{name!r} is no name of a server")
