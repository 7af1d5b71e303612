"""What can be measured, with which parameters, and which columns come of it; pure.

A measure is checked when it is made. Every result has the columns `type` and `id`, then those of
its measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

from omnigraph.errors import InvalidArgument
from omnigraph.lang.ir import Column
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import F64, I64, STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_LANDMARKS: Final = 100
"""Nodes from which distances are measured at once."""
DAMPING: Final = 0.85
TOLERANCE: Final = 1e-6
MOST_STEPS: Final = 100
MOST_ROUNDS: Final = 10
_E = TypeVar("_E", bound=StrEnum)


class Direction(StrEnum):
    """Which way an edge is followed."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Degree:
    """How many edges leave a node, lead to it, and both; a loop counts at either end."""

    name: ClassVar = "degree"
    columns: ClassVar = (Column("in_degree", I64), Column("out_degree", I64), Column("degree", I64))
    written: ClassVar = "degree"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRank:
    """The share of a random surfer's time; every edge counts, the sum is 1."""

    damping: float = DAMPING
    tol: float = TOLERANCE
    max_iter: int = MOST_STEPS

    name: ClassVar = "pagerank"
    columns: ClassVar = (Column("pagerank", F64),)
    written: ClassVar = "pagerank"

    def __post_init__(self) -> None:
        _require_number("damping", self.damping, "at least 0 and below 1", lambda at: 0 <= at < 1)
        _require_number("tol", self.tol, "a number above 0", lambda at: at > 0)
        _require_count("max_iter", self.max_iter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedComponents:
    """Which nodes hang together, whichever way their edges go; named by the smallest."""

    name: ClassVar = "connected_components"
    columns: ClassVar = (Column("component", STRING),)
    written: ClassVar = "component"


@dataclass(frozen=True, slots=True, kw_only=True)
class StronglyConnectedComponents:
    """Which nodes reach each other along their edges; named by the smallest."""

    name: ClassVar = "strongly_connected_components"
    columns: ClassVar = (Column("component", STRING),)
    written: ClassVar = "component"


@dataclass(frozen=True, slots=True, kw_only=True)
class Triangles:
    """How many pairs of a node's neighbours are neighbours; direction does not count."""

    name: ClassVar = "triangles"
    columns: ClassVar = (Column("triangles", I64),)
    written: ClassVar = "triangles"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPropagation:
    """Communities: every node takes the label that most of its neighbours have, again and again."""

    max_iter: int = MOST_ROUNDS

    name: ClassVar = "label_propagation"
    columns: ClassVar = (Column("label", STRING),)
    written: ClassVar = "label"

    def __post_init__(self) -> None:
        _require_count("max_iter", self.max_iter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """How far every node is from each landmark, in edges or by a weight; null where none leads."""

    landmarks: Sequence[str]
    weight: str | None = None
    direction: str = Direction.OUT

    name: ClassVar = "shortest_paths"
    written: ClassVar = "distance"

    def __post_init__(self) -> None:
        if isinstance(self.landmarks, str):
            raise InvalidArgument(
                f"landmarks are a list of ids, not one text; give [{self.landmarks!r}]",
                argument="landmarks",
            )
        given = list(self.landmarks) if isinstance(self.landmarks, Iterable) else []
        if not given or not all(map(_is_text, given)):
            raise InvalidArgument(
                "landmarks are the ids of the nodes to measure from; give at least one",
                argument="landmarks",
            )
        distinct = tuple(sorted(set(given), key=str.encode))
        if len(distinct) > MOST_LANDMARKS:
            raise InvalidArgument(
                f"{len(distinct):,} landmarks are given and {MOST_LANDMARKS} are possible; ask in"
                " parts",
                argument="landmarks",
            )
        if self.weight is not None and not isinstance(self.weight, str):
            raise InvalidArgument(
                f"weight is the name of a property, not {self.weight!r}", argument="weight"
            )
        object.__setattr__(self, "landmarks", distinct)
        object.__setattr__(self, "direction", _word("direction", self.direction, Direction))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The landmark, and the distance from it: edges are counted, weights are added."""
        far = (I64 if self.weight is None else F64).as_nullable(nullable=True)
        return Column("landmark", STRING), Column("distance", far)


Measure: TypeAlias = (
    Degree
    | PageRank
    | ConnectedComponents
    | StronglyConnectedComponents
    | Triangles
    | LabelPropagation
    | ShortestPaths
)

MEASURES: Final[Mapping[str, type[Measure]]] = {
    kind.name: kind
    for kind in (
        Degree,
        PageRank,
        ConnectedComponents,
        StronglyConnectedComponents,
        Triangles,
        LabelPropagation,
        ShortestPaths,
    )
}
"""All measures, by name."""

_PARAMETERS: Final[Mapping[str, Mapping[str, Callable[[str], Any]]]] = {
    # Any: each has its own type, which the measure checks.
    PageRank.name: {"damping": float, "tol": float, "max_iter": int},
    LabelPropagation.name: {"max_iter": int},
    ShortestPaths.name: {"landmarks": str, "weight": str, "direction": str},
}


def parse_measure(name: str, texts: Sequence[tuple[str, str]]) -> Measure:
    """The measure of a name with parameters that are given as texts; landmarks may be repeated.

    Raises:
        InvalidArgument: there is no such measure or parameter, or a value is not possible.
    """
    kind = MEASURES.get(name)
    if kind is None:
        hint = did_you_mean(name, MEASURES, otherwise="there are")
        raise InvalidArgument(f"there is no analytics `{name}`{hint}", name=name)
    known = _PARAMETERS.get(name, {})
    given: dict[str, Any] = {}  # Any: as above
    for key, text in texts:
        if key not in known:
            hint = did_you_mean(key, known, otherwise="it has") or "; it has none"
            raise InvalidArgument(f"{name} has no parameter `{key}`{hint}", argument=key)
        if key == "landmarks":
            given.setdefault(key, []).append(text)
        elif key in given:
            raise InvalidArgument(f"the parameter `{key}` is given twice", argument=key)
        else:
            given[key] = _parsed(key, text, known[key])
    if kind is ShortestPaths:
        given.setdefault("landmarks", [])
    return kind(**given)


def _parsed(name: str, text: str, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - as above
    try:
        return parse(text)
    except ValueError:
        wanted = "a whole number" if parse is int else "a number"
        raise InvalidArgument(f"{name} is {wanted}, not {text!r}", argument=name) from None


def _is_text(value: object) -> bool:
    """Whether it is a text that can be stored; a lone half of a character cannot."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _require_number(
    name: str, value: float, wanted: str, is_possible: Callable[[float], bool]
) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not is_possible(value):
        raise InvalidArgument(f"{name} is {wanted}, not {value!r}", argument=name)


def _require_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"{name} is a whole number above 0, not {value!r}", argument=name)


def _word(name: str, value: str, words: type[_E]) -> _E:
    try:
        return words(value)
    except ValueError:
        listed = ", ".join(f"'{word}'" for word in words)
        raise InvalidArgument(f"{name} is one of {listed}, not {value!r}", argument=name) from None
