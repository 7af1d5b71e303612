"""Query parameters as values, each refused by its name if it is none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.server.request_context import RequestContext

_NUMBER: Final = re.compile("[0-9]{1,9}")


def number_of(given: Mapping[str, str], name: str, *, default: int) -> int:
    """A whole number.

    Raises:
        InvalidArgument: it is none.
    """
    text = given.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise InvalidArgument(f"{name} is a whole number, not {text!r}", argument=name)
    return int(text)


def flag_of(given: Mapping[str, str], name: str) -> bool:
    """`true` or `false`; the latter without it.

    Raises:
        InvalidArgument: it is neither.
    """
    text = given.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidArgument(f"{name} is true or false", argument=name)
    return text == "true"


def known_parameters(context: RequestContext) -> tuple[dict[str, str], dict[str, list[str] | None]]:
    """The parameters of an operation that takes no other: single ones, and those that repeat.

    Raises:
        InvalidArgument: one that nobody knows, or one twice that comes once.
    """
    declared = {each.name: each for each in context.operation.parameters if each.where == "query"}
    single: dict[str, str] = {}
    several: dict[str, list[str] | None] = {
        name: None for name, each in declared.items() if each.is_list
    }
    for name, value in context.query.multi_items():
        if name not in declared:
            known = ", ".join(declared)
            raise InvalidArgument(
                f"there is no parameter {name!r}; there are {known}", argument=name
            )
        if name in several:
            several[name] = [*(several[name] or ()), value]
        elif name in single:
            raise InvalidArgument(f"the parameter {name} comes twice", argument=name)
        else:
            single[name] = value
    return single, several
