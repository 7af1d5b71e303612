"""Arguments of the public API, checked before anything happens."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import InvalidArgument
from omnigraph.ids import RESERVED_ACTOR


def require_query(source: object, name: object, params: object) -> None:
    """What a caller without a type checker may get wrong."""
    for argument, given, kinds, what in (
        ("source", source, (str,), "the text of a query"),
        ("name", name, (str, type(None)), "the name of a query"),
        ("params", params, (Mapping, type(None)), "a mapping of names to values"),
    ):
        if not isinstance(given, kinds):
            raise InvalidArgument(
                f"{argument} is {what}, not {type(given).__name__}", argument=argument
            )


def checked_actor(actor: str | None) -> str | None:
    """An actor that may write.

    Raises:
        InvalidArgument: it is none.
    """
    if actor is None:
        return None
    if not isinstance(actor, str) or not actor or actor.startswith(RESERVED_ACTOR):
        raise InvalidArgument(
            f"{actor!r} cannot be an actor: it is no text, empty, or starts with"
            f" {RESERVED_ACTOR!r}, which the system keeps for itself",
            argument="actor",
        )
    return actor
