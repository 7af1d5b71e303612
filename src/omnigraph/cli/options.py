"""Options that more than one command takes."""

from typing import Annotated

import typer

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON; errors become one JSON line on stderr.")
]
