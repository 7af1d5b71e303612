"""The path of an operation, compared with the path of a request as it was sent.

A part of the template is one part of the path: a slash that is sent as `%2F` belongs to the name it
stands in and never begins a part. Frameworks decode the whole path first, and then a tag `rel/2`
would be two parts, and one called `x/changes` the changes of `x`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Scope

_PARTS: Final = "omnigraph.path_parts"
_REST: Final = ":path"


class PathTemplate:
    """A path with variable parts: `{name}` is one part, a last `{name:path}` all that is left."""

    def __init__(self, template: str) -> None:
        parts = template.strip("/").split("/")
        self._rest = parts.pop()[1 : -len(_REST) - 1] if template.endswith(f"{_REST}}}") else None
        self._fixed = [(at, part) for at, part in enumerate(parts) if not part.startswith("{")]
        self._names = [(at, part[1:-1]) for at, part in enumerate(parts) if part.startswith("{")]
        self._count = len(parts)

    def match(self, parts: Sequence[str]) -> dict[str, str] | None:
        """The variable parts by name, or `None` if this is not the path."""
        has_rest = self._rest is not None and len(parts) > self._count
        if not has_rest and (self._rest is not None or len(parts) != self._count):
            return None
        if any(parts[at] != part for at, part in self._fixed):
            return None
        found = {name: parts[at] for at, name in self._names}
        if not all(found.values()):
            return None
        return found if self._rest is None else found | {self._rest: "/".join(parts[self._count :])}


def parts_of(scope: Scope) -> Sequence[str]:
    """The parts of the path of a request, each decoded by itself."""
    parts: Sequence[str] | None = scope.get(_PARTS)
    if parts is None:
        sent = scope.get("raw_path") or quote(scope["path"]).encode()
        parts = [unquote(part) for part in sent.decode("latin-1").removeprefix("/").split("/")]
        scope[_PARTS] = parts
    return parts
