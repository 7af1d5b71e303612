"""The values of settings: closed sets of words, secrets, and how a text becomes a value.

A parser takes the text of a variable and returns the value, or raises ValueError with what it
expected. It never sees the name of the variable; whoever calls it reports that.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from omnigraph import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable

_E = TypeVar("_E", bound=StrEnum)

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
_UNITS: Final = {"": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_LARGEST: Final = 2**63 - 1
_LARGEST_PORT: Final = 65_535

EMBED_MODELS: Final = {
    "openai-compatible": "openai/text-embedding-3-large",
    "openai": "text-embedding-3-large",
    "gemini": "gemini-embedding-2",
    "mock": "mock",
}
"""The embedding providers that we know, each with its default model."""


class Durability(StrEnum):
    """What an acknowledged write on a local path survives."""

    FULL = "full"
    PROCESS = "process"


class TraversalMode(StrEnum):
    """How an expand walks edges when the choice is forced."""

    INDEXED = "indexed"
    CSR = "csr"


class Engine(StrEnum):
    """Which lane runs a job."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class MergeStrategy(StrEnum):
    """Where an upsert of the pipeline compares keys."""

    AUTO = "auto"
    DRIVER = "driver"
    DISTRIBUTED = "distributed"


class LogLevel(StrEnum):
    """The least severe event that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class Secret:
    """A key or token whose text forms never show it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the request that needs it."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"


def parse_text(value: str) -> str:
    """Any text."""
    return value


def parse_flag(value: str) -> bool:
    """True unless empty, `0` or `false`."""
    return value.lower() not in {"", "0", "false"}


def parse_presence(value: str) -> bool:
    """True unless empty: `NO_COLOR=0` means no colour, by a convention of many programs."""
    return value != ""


def parse_whole(value: str) -> int:
    """A whole number from 0."""
    if not re.fullmatch(r"[0-9]{1,19}", value) or int(value) > _LARGEST:
        raise ValueError("expected a whole number")
    return int(value)


def parse_count(value: str) -> int:
    """A whole number from 1."""
    if (number := parse_whole(value)) == 0:
        raise ValueError("expected a whole number above 0")
    return number


def parse_size(value: str) -> int:
    """Bytes, or a number of KiB, MiB or GiB."""
    match = re.fullmatch(r"([0-9]{1,19}) ?(|KiB|MiB|GiB)", value)
    if match is None or (size_bytes := int(match[1]) * _UNITS[match[2]]) > _LARGEST:
        raise ValueError("expected a number of bytes, or one with KiB, MiB or GiB")
    return size_bytes


def parse_some_size(value: str) -> int:
    """As `parse_size`, but not nothing."""
    size_bytes = parse_size(value)
    if not size_bytes:
        raise ValueError("expected a number of bytes above 0, or one with KiB, MiB or GiB")
    return size_bytes


def parse_ratio(value: str) -> float:
    """A number from 0 to 1."""
    if not re.fullmatch(r"[0-9]*\.?[0-9]+(e-[0-9]+)?", value) or not 0 <= float(value) <= 1:
        raise ValueError("expected a number from 0 to 1")
    return float(value)


def one_of(words: type[_E]) -> Callable[[str], _E]:
    """A parser of one of these words."""

    def parse(value: str) -> _E:
        if value not in set(words):
            raise ValueError(f"expected one of {', '.join(words)}")
        return words(value)

    return parse


def parse_provider(value: str) -> str:
    """A known embedding provider, or `module:attr`."""
    if value in EMBED_MODELS or re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", value):
        return value
    raise ValueError(f"expected one of {', '.join(EMBED_MODELS)}, or module:attr")


def parse_address(value: str) -> str:
    """`host:port`, with an IPv6 host in brackets."""
    match = re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+):([0-9]{1,5})", value)
    if match is None or int(match[1]) > _LARGEST_PORT:
        raise ValueError("expected host:port, with an IPv6 host in brackets")
    return value


def parse_list(value: str) -> tuple[str, ...]:
    """A comma list; empty parts are skipped."""
    return tuple(part for part in (part.strip() for part in value.split(",")) if part)


def parse_pairs(value: str) -> dict[str, str]:
    """`key=value;key=value`; a value may contain `=`."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(";"))):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise ValueError("expected key=value;key=value")
        pairs[key] = text
    return pairs


def parse_failpoints(value: str) -> str:
    """The text of `OMNIGRAPH_FAILPOINTS` as it is, if it can be read."""
    failpoints.parse_points(value)
    return value
