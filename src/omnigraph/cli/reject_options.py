"""Options that say what bad rows do to their load."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from omnigraph.errors import UsageError

_PANEL: Final = "Bad rows"


class OnError(StrEnum):
    """What bad rows do to their load."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        metavar="|".join(OnError),
        rich_help_panel=_PANEL,
        help="What bad rows do: refuse the load, or be set aside in --rejects while the others "
        "are loaded.",
    ),
]
RejectsOption = Annotated[
    str | None,
    typer.Option(
        "--rejects",
        metavar="URI",
        rich_help_panel=_PANEL,
        help="A folder for the bad rows with their reasons, also of a load that is refused; "
        "without it the first 20 are printed.",
    ),
]
MaxRejectsOption = Annotated[
    int | None,
    typer.Option(
        "--max-rejects",
        min=0,
        metavar="N",
        rich_help_panel=_PANEL,
        help="More bad rows refuse the load; without it OMNIGRAPH_PIPELINE_MAX_REJECTS, then "
        "10000.",
    ),
]
MaxRejectRatioOption = Annotated[
    float | None,
    typer.Option(
        "--max-reject-ratio",
        min=0,
        max=1,
        metavar="RATIO",
        rich_help_panel=_PANEL,
        help="So does a larger part of the rows; without it OMNIGRAPH_PIPELINE_MAX_REJECT_RATIO, "
        "then 0.01.",
    ),
]
CascadeOption = Annotated[
    bool,
    typer.Option(
        "--cascade",
        rich_help_panel=_PANEL,
        help="With quarantine: set nodes aside too that are left without a required edge.",
    ),
]


def require_place(on_error: str | None, rejects: str | None) -> None:
    """Refuse to set rows aside without a folder for them.

    Raises:
        UsageError: there is none.
    """
    if on_error == OnError.QUARANTINE and rejects is None:
        raise UsageError(
            "--on-error quarantine needs --rejects URI, the folder that the bad rows go to"
        )
