"""`omnigraph version`: the release, and the storage format that it reads and writes."""

import typer

import omnigraph
from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import session_of

_HELP = """Print the version of omnigraph and of its storage format.

\b
Example:
  omnigraph version
"""


def register(app: typer.Typer) -> None:
    """Add `version`."""
    app.command("version", help=_HELP)(version)


def version(context: typer.Context, *, as_json: JsonOption = False) -> int:
    """Print both versions."""
    output = session_of(context).output
    if as_json:
        output.write_json({"version": omnigraph.__version__, "storage_format": None})
    else:
        output.write(describe_version())
    return exit_codes.OK


def describe_version() -> str:
    """Both versions as text."""
    return (
        f"omnigraph {omnigraph.__version__}\n"
        "storage format: none (this version has no storage layer)"
    )
