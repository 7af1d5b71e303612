"""`omnigraph version`: the release, and the storage format that it reads and writes."""

import typer

import omnigraph
from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command

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
    output = begin_command(context).output
    if as_json:
        output.write_json({"version": omnigraph.__version__, "storage_format": storage_format()})
    else:
        output.write(describe_version())
    return exit_codes.OK


def describe_version() -> str:
    """Both versions as text."""
    return f"omnigraph {omnigraph.__version__}\nstorage format: {storage_format()}"


def storage_format() -> int:
    """The version of the storage format that this release writes."""
    from omnigraph.graph.manifest.stamp import INTERNAL_MANIFEST_SCHEMA_VERSION

    return INTERNAL_MANIFEST_SCHEMA_VERSION
