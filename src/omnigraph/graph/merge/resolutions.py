"""How contested entities are decided: by a strategy for all, or one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from omnigraph.errors import InvalidArgument
from omnigraph.graph.ndjson.strict_reader import decode_line
from omnigraph.lang.suggest import did_you_mean

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue
    from omnigraph.lang import Catalog

Resolutions: TypeAlias = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | bytes | None
"""What callers give: one decision, several, or a line of JSON for each. Any: as JSON gives it."""


class Strategy(StrEnum):
    """What becomes of entities that both sides changed."""

    FAIL = "fail"
    OURS = "ours"
    THEIRS = "theirs"


class Take(StrEnum):
    """Which form a contested entity gets."""

    OURS = "ours"
    THEIRS = "theirs"
    BASE = "base"
    DELETE = "delete"
    ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The decision for one entity."""

    type: str
    id: str
    take: Take
    row: Mapping[str, JsonValue] | None = None
    """The whole entity in the form of the load format's `data`, with `from` and `to` of an edge."""


_FORMS: Final = (
    '{"type": "Person", "id": "ada", "take": "ours"|"theirs"|"base"|"delete"}, or with "row": {…}'
    ' in place of "take"'
)


def parse_strategy(text: str) -> Strategy:
    """The strategy that a word means.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(text, str) or text not in set(Strategy):
        raise InvalidArgument(
            f"strategy is one of {', '.join(Strategy)}, not {text!r}", argument="strategy"
        )
    return Strategy(text)


def parse_resolutions(given: Resolutions) -> dict[tuple[str, str], Resolution]:
    """Decisions by type and id.

    Raises:
        InvalidArgument: one is malformed, or an entity is decided twice.
    """
    decided: dict[tuple[str, str], Resolution] = {}
    for number, record in _records(given):
        resolution = _resolution(number, record)
        key = resolution.type, resolution.id
        if key in decided:
            raise _wrong(number, f"{key[0]} {key[1]!r} is decided twice")
        decided[key] = resolution
    return decided


def require_known_types(decided: Iterable[tuple[str, str]], catalog: Catalog) -> None:
    """Refuse decisions for types that the graph does not have.

    Raises:
        InvalidArgument: it names the first, and the nearest that there are.
    """
    bare = {*catalog.node_types, *catalog.edge_types}
    known = bare.union(
        (f"node:{name}" for name in catalog.node_types),
        (f"edge:{name}" for name in catalog.edge_types),
    )
    for type_name, entity_id in sorted(decided):
        if type_name not in known:
            raise InvalidArgument(
                f"the resolution of {type_name} {entity_id!r} is of a type that there is not"
                f"{did_you_mean(type_name.rpartition(':')[2], bare, otherwise='there are')}",
                argument="resolutions",
            )


def resolution_bodies(given: Resolutions) -> list[dict[str, Any]] | None:
    """Decisions as JSON carries them, judged as `parse_resolutions` does; `None` for none."""
    if given is None:
        return None
    bodies: list[dict[str, Any]] = []
    for choice in parse_resolutions(given).values():
        decided = {"take": choice.take.value} if choice.row is None else {"row": dict(choice.row)}
        bodies.append({"type": choice.type, "id": choice.id, **decided})
    return bodies


def _records(given: Resolutions) -> Iterable[tuple[int, Any]]:
    """The decisions with their numbers, from whatever form they have."""
    if given is None:
        return ()
    if isinstance(given, str):
        return _lines(given.encode(errors="surrogatepass"))
    if isinstance(given, (bytes, bytearray, memoryview)):
        return _lines(bytes(given))
    if isinstance(given, Mapping):
        return [(1, given)]
    if not isinstance(given, Iterable):
        raise InvalidArgument(
            "resolutions are a mapping, a list of mappings, or lines of JSON as a text or bytes,"
            f" not {given!r}; one is {_FORMS}",
            argument="resolutions",
        )
    return enumerate(given, 1)


def _lines(data: bytes) -> Iterable[tuple[int, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            record, why = decode_line(line)
            if why is not None:
                raise _wrong(number, why)
            yield number, record


def _resolution(number: int, record: Any) -> Resolution:  # noqa: ANN401 - as JSON gives it
    if not isinstance(record, Mapping):
        raise _wrong(number, "it is no object")
    unknown = sorted(set(map(str, record)) - {"type", "id", "take", "row"})
    if unknown:
        raise _wrong(number, f"it has a member {unknown[0]!r}")
    if not all(isinstance(record.get(name), str) for name in ("type", "id")):
        raise _wrong(number, "type and id are texts")
    take, row = record.get("take"), record.get("row")
    if (take is None) == (row is None):
        raise _wrong(number, "it has either take or row")
    if row is not None:
        if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
            raise _wrong(number, "row is no object")
        _require_json(number, row)
        return Resolution(type=record["type"], id=record["id"], take=Take.ROW, row=row)
    if take not in [choice.value for choice in Take if choice is not Take.ROW]:
        raise _wrong(number, f"take is {take!r}")
    return Resolution(type=record["type"], id=record["id"], take=Take(take))


def _require_json(number: int, row: Mapping[str, Any]) -> None:  # Any: what is judged here
    try:
        json.dumps(dict(row), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(number, f"row is no JSON ({error})") from error


def _wrong(number: int, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"resolution {number}: {why}; one is {_FORMS}", argument="resolutions", line=number
    )
