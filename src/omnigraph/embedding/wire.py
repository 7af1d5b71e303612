"""What the HTTP providers have in common, as values: one request, one way to speak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.embedding.embedder import Purpose
    from omnigraph.errors import JsonValue
    from omnigraph.settings import EmbeddingSettings, Secret


class Unreadable(Exception):
    """A whole answer that does not have the provider's shape; its text must not be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The texts of one request, and what is wanted of them."""

    model: str
    texts: Sequence[str]
    dimension: int
    purpose: Purpose


IndexedRow: TypeAlias = tuple[int, object]
"""Which text of the request a row belongs to, and the row as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How one provider is spoken to.

    `path_and_body` gives what to append to the base URL and the JSON to send there. `read_rows`
    takes parsed JSON apart, or raises `Unreadable`; it leaves numbers and counts to others.
    """

    provider: str
    base_url: str
    keys: Mapping[str, Callable[[EmbeddingSettings], Secret | None]]
    """The variables that may hold the key; the first that does is used."""
    key_header: Callable[[str], tuple[str, str]]
    path_and_body: Callable[[Ask], tuple[str, JsonValue]]
    read_rows: Callable[[object], list[IndexedRow]]


def member(value: object, name: str) -> object:
    """The member of a JSON object.

    Raises:
        Unreadable: it is no object, or has no such member.
    """
    if isinstance(value, dict) and name in value:
        return value[name]
    raise Unreadable


def items(value: object) -> list[object]:
    """The items of a JSON array.

    Raises:
        Unreadable: it is no array.
    """
    if isinstance(value, list):
        return value
    raise Unreadable
