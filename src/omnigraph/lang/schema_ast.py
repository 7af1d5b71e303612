"""The syntax tree of `.pg` files.

Frozen values; `extent` (character offsets) takes no part in comparison. Constraints in parentheses
stand in the body they were written in; the one-property forms `@key`, `@unique`, `@index` are
annotations of their property until the compiler reads them.
"""

from dataclasses import dataclass, field

from omnigraph.lang.source import Extent
from omnigraph.lang.types import PropType

LiteralValue = str | int | float | bool
Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A bare name as an annotation's value."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """`@name`, `@name(value)`, `@name(value, key=literal, …)`."""

    name: str
    value: LiteralValue | Name | None = None
    keywords: tuple[tuple[str, LiteralValue], ...] = ()
    is_quoted: bool = False
    """Metadata, even if it looks like a misspelt annotation."""
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyConstraint:
    """`@key(a, b)`."""

    names: tuple[str, ...]
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueConstraint:
    """`@unique(a, b)`."""

    names: tuple[str, ...]
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexConstraint:
    """`@index(a, b)`."""

    names: tuple[str, ...]
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeConstraint:
    """`@range(property, low..high)`, either end open."""

    property: str
    low: Number | None
    high: Number | None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckConstraint:
    """`@check(property, "pattern")`."""

    property: str
    pattern: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


NamesConstraint = KeyConstraint | UniqueConstraint | IndexConstraint
Constraint = NamesConstraint | RangeConstraint | CheckConstraint


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDecl:
    """`name: type @annotation …`."""

    name: str
    type: PropType
    annotations: tuple[Annotation, ...] = ()
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceDecl:
    """`interface Name { … }`."""

    name: str
    properties: tuple[PropertyDecl, ...] = ()
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRef:
    """A type name where it is used."""

    name: str
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecl:
    """`node Name @annotation … implements … { … }`."""

    name: str
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[TypeRef, ...] = ()
    properties: tuple[PropertyDecl, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """`@card(low..high)`; `high` None is unbounded."""

    low: int
    high: int | None
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDecl:
    """`edge Name: From -> To @card(…) @annotation … { … }`."""

    name: str
    from_type: TypeRef
    to_type: TypeRef
    card: Card | None = None
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[PropertyDecl, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    extent: Extent = field(default=(0, 0), compare=False, repr=False)


Declaration = InterfaceDecl | NodeDecl | EdgeDecl
