"""Options that say what bad rows do to their load."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRows:
    """The options as they were given."""

    on_error: OnError = OnError.FAIL
    rejects: str | None = None
    max_rejects: int | None = None
    max_reject_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.on_error is OnError.QUARANTINE and self.rejects is None:
            raise UsageError(
                "--on-error quarantine needs --rejects URI, the folder that the bad rows go to"
            )
