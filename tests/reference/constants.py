"""Constants of generated queries: literals and parameters, the odd ones above all.

A constant is what its column holds, or next to it, or something that no value of the column can
equal: an integer out of range, a fraction, a number too large for F32, a null parameter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random  # noqa: TID251 - seeded
from typing import Any

from tests.reference.evaluator import ReferenceGraph
from tests.reference.graphs import IDS, POOLS, SINGLES, TEXTS, vector

from omnigraph.lang import PropType, Scalar

_NUMERIC = [scalar for scalar in Scalar if scalar.is_numeric]
_INTEGERS = (
    *(0, 1, -1, 2, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53, 2**53 + 1),
    *(16777217, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
)
_FLOATS = (
    *(0.5, 1.0, 1.5, -0.5, -0.0, 0.1, SINGLES[1], 2147483647.5, 4294967295.5, 16777217.0),
    *(2.0**53, 2.0**63, 2.0**64, -(2.0**63), 1e30, -1e30, 1e300, 3.5e38, 3.4028235677973366e38),
    *(1e-46, -3.5),
)
_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def write_literal(value: object) -> str:
    """The literal of a value."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case float():
            spelled = format(Decimal(value), "f")
            return spelled if "." in spelled else f"{spelled}.0"
        case datetime():
            return f'datetime("{write_moment(value)}")'
        case date():
            return f'date("{value.isoformat()}")'
        case list():
            return f"[{', '.join(write_literal(item) for item in value)}]"
        case _:
            return str(value)


def write_moment(value: datetime) -> str:
    """A date-time in UTC; `isoformat` would leave out a fraction of zero, which is as good."""
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True, kw_only=True)
class Constants:
    """Writes the constants of one query and keeps its parameters."""

    rng: Random
    graph: ReferenceGraph
    declared: dict[str, PropType] = field(default_factory=dict)
    given: dict[str, object] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)

    def of_kind(self, kind: PropType, seen: Iterable[object] = ()) -> str:
        """A constant to compare a plain value of the kind with; `seen` are values it has."""
        rng = self.rng
        known = [value for value in seen if value is not None]
        if rng.random() < 0.25:
            return self.parameter(kind, known)
        if kind.scalar is Scalar.DATETIME and rng.random() < 0.1:
            self.features.add("constant: now")
            return "now()"
        return write_literal(self.value(kind, known))

    def value(self, kind: PropType, known: Sequence[object] = ()) -> object:
        rng = self.rng
        if known and rng.random() < 0.6:
            return rng.choice(known)
        if kind.enum_values is not None:
            return rng.choice(kind.enum_values)
        if kind.scalar.is_numeric:
            odd = rng.choice((_INTEGERS, _FLOATS, POOLS[kind.scalar]))
            found = rng.choice(odd)
            self.note_number(kind.scalar, found)
            return found
        if kind.scalar is Scalar.STRING:
            return rng.choice(rng.choice((TEXTS, IDS)))
        found = rng.choice(POOLS[kind.scalar])
        if kind.scalar is Scalar.BOOL or rng.random() < 0.7:
            return found
        return _beside(found)

    def note_number(self, scalar: Scalar, value: float) -> None:
        if not scalar.is_integer:
            self.features.add(
                "constant: integer to a float column"
                if isinstance(value, int)
                else "constant: float to a float column"
            )
        elif isinstance(value, float):
            whole = value.is_integer()
            self.features.add(
                "constant: whole float to an integer column"
                if whole
                else "constant: fraction to an integer column"
            )
        low, high = min(POOLS[Scalar.I64]), max(POOLS[Scalar.U64])
        if scalar.is_integer and not (
            max(low, min(POOLS[scalar])) <= value <= min(high, max(POOLS[scalar]))
        ):
            self.features.add("constant: out of range")

    def parameter(self, kind: PropType, known: Sequence[object] = ()) -> str:
        """A new parameter that a plain value of the kind can be compared with."""
        rng = self.rng
        scalar = kind.scalar
        if scalar.is_numeric:
            scalar = rng.choice((scalar, rng.choice(_NUMERIC)))
        if scalar is kind.scalar and known and rng.random() < 0.5:
            value = rng.choice(known)
        elif kind.enum_values is not None:
            value = rng.choice((*kind.enum_values, "none of them"))
        else:
            value = rng.choice(POOLS[scalar])
        return self.declare(PropType(scalar=scalar, nullable=rng.random() < 0.4), value)

    def declare(self, kind: PropType, value: object) -> str:
        """A parameter of the type; one that may be null sometimes is."""
        rng = self.rng
        name = f"p{len(self.declared)}"
        self.declared[name] = kind
        self.features.add("constant: parameter")
        if kind.nullable and rng.random() < 0.4:
            self.features.add("constant: null parameter")
            if rng.random() < 0.5:
                self.given[name] = None
            return f"${name}"
        self.given[name] = self.spelled(value)
        return f"${name}"

    def spelled(self, value: object) -> object:
        """A value as a caller may pass it."""
        if self.rng.random() < 0.5:
            return value
        match value:
            case bool():
                return value
            case int():
                return str(value)
            case datetime():
                return write_moment(value)
            case date():
                return value.isoformat()
            case list():
                return [self.spelled(item) for item in value]
            case _:
                return value

    def members(self, kind: PropType, seen: Iterable[object]) -> str:
        """A list of values that the kind can equal: a literal, or now and then a parameter."""
        known = [value for value in seen if value is not None]
        if self.rng.random() < 0.3:
            return self.list_parameter(kind, known)
        values = [self.value(kind, known) for _ in range(self.rng.randint(0, 4))]
        return write_literal(values)

    def list_parameter(self, kind: PropType, known: Sequence[object]) -> str:
        """A new parameter of a list type, whose items a plain value of the kind can equal."""
        rng = self.rng
        scalar = rng.choice(_NUMERIC) if kind.scalar.is_numeric else kind.scalar
        values = [*(known if scalar is kind.scalar else ()), *POOLS[scalar]]
        self.features.add("constant: list parameter")
        return self.declare(
            PropType(scalar=scalar, is_list=True, nullable=rng.random() < 0.3),
            [rng.choice(values) for _ in range(rng.randint(0, 4))],
        )

    def query_vector(self) -> str:
        """A vector with a direction, as a literal or a parameter."""
        parts: list[float] = [0.0]
        while not any(parts):
            parts = vector(self.rng)
        if self.rng.random() < 0.4:
            return self.declare(PropType(scalar=Scalar.VECTOR, vector_dim=3), parts)
        return write_literal(parts)

    def declarations(self) -> str:
        """What stands in the brackets of the query."""
        return ", ".join(f"${name}: {kind}" for name, kind in self.declared.items())


def _beside(value: Any) -> object:  # noqa: ANN401 - a date or a date-time
    """The next day or the next millisecond, or the one before at the end of time."""
    step = timedelta(milliseconds=1) if isinstance(value, datetime) else timedelta(days=1)
    return value + step if value.year < 9999 else value - step
