"""`omnigraph doctor`: what this machine lacks, and how to get it."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from omnigraph.cli import exit_codes
from omnigraph.cli.options import JsonOption
from omnigraph.cli.session import begin_command

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.cli.installation import Check
    from omnigraph.cli.session import Session

_HELP: Final = """Check what omnigraph needs on this machine.

\b
Example:
  omnigraph doctor

Looks at Python, Java, Spark, Lance, DataFusion and Arrow, at hard links in the temporary folder, at
the variables of the object store (never their values), at what a commit survives, and at the
settings with the operator config. If the graph of OMNIGRAPH_PROFILE or of defaults.store is in an
object store, lists and reads it; writes nothing. Of a graph that is given it tells what maintenance
is due. Exits with 1 if something that is needed is missing or cannot be used.

With --warm it first runs a small job and keeps the Java classes that it loaded (some 160 MB in the
folder of OMNIGRAPH_HOME): the first job of each later command is then faster.
"""


def register(app: typer.Typer) -> None:
    """Add `doctor`."""
    app.command("doctor", help=_HELP)(doctor)


def doctor(
    context: typer.Context,
    uri: Annotated[
        str | None,
        typer.Argument(
            metavar="[URI]", show_default=False, help="A graph whose maintenance is looked at."
        ),
    ] = None,
    *,
    warm: Annotated[
        bool,
        typer.Option("--warm", help="Make Spark start faster from now on; takes about a minute."),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Print every check; 1 if something needed is missing."""
    from omnigraph.cli.installation import examine_installation

    session = begin_command(context)
    if warm:
        session.output.announce(f"class-data archive: {_warm(session)}")
    checks = examine_installation(session.environ, session.settings)
    if uri is not None:
        checks += _check_maintenance(session, uri)
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


def _check_maintenance(session: "Session", uri: str) -> "tuple[Check, ...]":
    """A check for each table of which something is due, or one that says that nothing is."""
    from omnigraph.cli.addressing import find_target
    from omnigraph.cli.installation import Check, Status

    with find_target(session, uri).open() as graph:
        due = graph.maintenance.status().tables
    if not due:
        return (Check(name="Maintenance", status=Status.OK, found="nothing is due"),)
    return tuple(
        Check(
            name="Maintenance",
            status=Status.WARNING,
            found=f"{table.table_key} on {table.branch}: {table.reason}",
            remedy=f"omnigraph optimize {uri} --branch {table.branch}",
        )
        for table in due
    )


def _warm(session: "Session") -> "Path":
    """Make the class-data archive of this Java and this Spark.

    Raises:
        SparkNotInstalled, SparkUnavailable, InvalidArgument: there is none now.
    """
    from omnigraph.cli.progress import ProgressLine
    from omnigraph.pipeline.spark.class_archive import make_archive
    from omnigraph.pipeline.spark.java import find_java
    from omnigraph.pipeline.spark.session import require_pyspark

    settings = session.require_settings()
    require_pyspark()
    with ProgressLine(session.output, {}) as line:
        line.enter("running a first job of Spark")
        return make_archive(settings.client.home, find_java())
