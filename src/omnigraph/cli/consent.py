"""Consent to what cannot be undone: asked for before anything is opened, and only away from home.

A path on this machine needs none. Anything else needs `--yes`, or a typed `yes` on a terminal; a
program that cannot be asked is refused.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from omnigraph.cli.addressing import Target
    from omnigraph.cli.session import Session


def require_consent(session: Session, target: Target, what: str) -> None:
    """Make sure that the operator wants `what` done to the target.

    Raises:
        InvalidArgument: there is no consent; nothing was changed.
    """
    if target.is_local or session.assumes_yes:
        return
    if session.output.is_json or not _can_ask():
        raise InvalidArgument(
            f"{what} on {target.uri} is not confirmed, and nobody can be asked; pass --yes"
        )
    session.output.explain(f"{what} on {target.uri}? Type yes to go on:")
    if sys.stdin.readline().strip() != "yes":
        raise InvalidArgument(f"{what} on {target.uri} was not confirmed; nothing was changed")


def _can_ask() -> bool:
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)
