"""`omnigraph doctor`: what this machine lacks, and how to get it."""

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command

_HELP = """Check what omnigraph needs on this machine.

\b
Example:
  omnigraph doctor

Looks at Python, Java, Spark, Lance, DataFusion and Arrow, at hard links in the temporary folder, at
the variables of the object store (never their values), at what a commit survives, and at the
settings with the operator config. Exits with 1 if something that is needed is missing or cannot be
used.
"""


def register(app: typer.Typer) -> None:
    """Add `doctor`."""
    app.command("doctor", help=_HELP)(doctor)


def doctor(context: typer.Context, *, as_json: JsonOption = False) -> int:
    """Print every check; 1 if something needed is missing."""
    from omnigraph.cli.installation import examine_installation

    session = begin_command(context)
    checks = examine_installation(session.environ, session.settings)
    has_failure = any(check.is_failure for check in checks)
    if as_json:
        session.output.write_json(
            {
                "status": "error" if has_failure else "ok",
                "checks": [check.to_dict() for check in checks],
            }
        )
    else:
        session.output.write_table(
            ("", "part", "found", "remedy"),
            [(check.status, check.name, check.found, check.remedy) for check in checks],
        )
    return exit_codes.FAILED if has_failure else exit_codes.OK
