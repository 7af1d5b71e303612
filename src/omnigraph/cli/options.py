"""Arguments and options that more than one command takes."""

from typing import Annotated

import typer

from omnigraph.errors import UsageError

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON; errors become one JSON line on stderr.")
]
UriArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[URI]",
        show_default=False,
        help="The graph: a path, file:// or s3://. Without it --store, a profile or the defaults.",
    ),
]
UriOption = Annotated[
    str | None,
    typer.Option(
        "--uri",
        metavar="URI",
        help="The graph: a path, file:// or s3://. Without it --store, a profile or the defaults.",
    ),
]
BranchOption = Annotated[str, typer.Option(metavar="NAME", help="The branch to look at.")]
TypesOption = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only this type; may be given several times."),
]
AnyBranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="NAME", help="Only this branch; all without it.")
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="At most so many; all without it.")
]
PageTokenOption = Annotated[
    str | None, typer.Option(metavar="TOKEN", help="Go on where a page ended.")
]


def require_commit(if_commit: str | None) -> None:
    """Refuse an empty `--if-commit`: a variable of a script that is not set must not pass.

    Raises:
        UsageError: it is empty.
    """
    if if_commit == "":
        raise UsageError("--if-commit is empty; give the id of a commit, or leave it out")
