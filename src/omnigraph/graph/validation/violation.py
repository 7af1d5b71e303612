"""One broken rule: its text, its structured twin, and its place in the order of reporting.

The texts of rules 2 to 7 are made here and nowhere else, so that a mutation, a load, a Spark job
and a merge say the same about the same row. The order is that of the checks, then tables by kind
(node, edge) and name, then rows by id in code-point order; inside one row by declaration. Lines
that are no valid records come first of all, in line order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.lang.catalog import NodeType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.lang.catalog import Check, EdgeType, Property

_LONGEST_SHOWN = 60
_LONGEST_VALUE = 256


class Code(StrEnum):
    """What kind of rule was broken, in the order of the checks."""

    JSON_ERROR = "json_error"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_MEMBER = "unknown_member"
    RESERVED_MEMBER = "reserved_member"
    ID_MISMATCH = "id_mismatch"
    TYPE_ERROR = "type_error"
    REQUIRED_MISSING = "required_missing"
    UNKNOWN_KEY = "unknown_key"
    RANGE_VIOLATION = "range_violation"
    CHECK_VIOLATION = "check_violation"
    ENUM_VIOLATION = "enum_violation"
    KEY_CONFLICT = "key_conflict"
    UNIQUE_VIOLATION = "unique_violation"
    ORPHAN_EDGE = "orphan_edge"
    CARDINALITY_VIOLATION = "cardinality_violation"


class EntityKind(StrEnum):
    """Whether a type is one of nodes or of edges."""

    NODE = "node"
    EDGE = "edge"


class InputUnit(StrEnum):
    """What the rows of an input are counted in."""

    LINE = "line"
    ROW = "row"


_RECORD_RANK = 0
_RANKS: dict[Code, int] = {
    **dict.fromkeys(
        (
            Code.JSON_ERROR,
            Code.UNKNOWN_TYPE,
            Code.UNKNOWN_MEMBER,
            Code.RESERVED_MEMBER,
            Code.ID_MISMATCH,
        ),
        _RECORD_RANK,
    ),
    Code.TYPE_ERROR: 1,
    Code.REQUIRED_MISSING: 1,
    Code.UNKNOWN_KEY: 1,
    Code.RANGE_VIOLATION: 2,
    Code.CHECK_VIOLATION: 3,
    Code.ENUM_VIOLATION: 4,
    Code.KEY_CONFLICT: 5,
    Code.UNIQUE_VIOLATION: 6,
    Code.ORPHAN_EDGE: 7,
    Code.CARDINALITY_VIOLATION: 8,
}

ROW_RULES = frozenset(code for code, rank in _RANKS.items() if rank in (1, 2, 3, 4))
"""Codes of the checks that look at one row alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The row that a violation is about."""

    entity_id: str | None = None
    source: str | None = None
    """Name of the input, where there are several."""
    input_line: int | None = None
    unit: InputUnit = InputUnit.LINE
    """What `input_line` counts: lines of a text, or rows of a table."""
    row: int | None = None
    """Position in the rows of the delta; None for a row that is committed already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a row breaks."""

    code: Code
    message: str
    kind: EntityKind | None = None
    type: str | None = None
    properties: tuple[str, ...] = ()
    subject: Subject = field(default_factory=Subject)
    value: JsonValue = None
    limit: JsonValue = None
    held_by: str | None = None
    """Who has the unique tuple already."""
    place: int = 0
    """Position of the property or constraint in its type, for the order inside one row."""

    @property
    def order(self) -> tuple[int, str, int, bool, str, bool, str, int, int]:
        """The key that sorts violations for a report."""
        rank, subject = _RANKS[self.code], self.subject
        is_record = rank == _RECORD_RANK
        entity_id = None if is_record else subject.entity_id
        return (
            rank,
            (subject.source or "") if is_record else "",
            (subject.input_line or 0) if is_record else 0,
            self.kind is EntityKind.EDGE,
            self.type or "",
            entity_id is not None,
            entity_id or "",
            -1 if subject.row is None else subject.row,
            self.place,
        )

    def to_dict(self) -> dict[str, JsonValue]:
        """The structured twin, with the message."""
        out: dict[str, JsonValue] = {
            "code": self.code.value,
            "message": self.message,
            "type": self.type,
            "kind": None if self.kind is None else self.kind.value,
        }
        if len(self.properties) == 1:
            out["property"] = self.properties[0]
        elif self.properties:
            out["properties"] = list(self.properties)
        out |= {"entity_id": self.subject.entity_id, "value": self.value, "limit": self.limit}
        if self.subject.source is not None:
            out["source"] = self.subject.source
        if self.subject.input_line is not None:
            out["input_line"] = self.subject.input_line
            if self.subject.unit is InputUnit.ROW:
                out["input_unit"] = self.subject.unit.value
        return out


def kind_of(item: NodeType | EdgeType) -> EntityKind:
    """Node or edge."""
    return EntityKind.NODE if isinstance(item, NodeType) else EntityKind.EDGE


def place_of(item: NodeType | EdgeType, name: str) -> int:
    """Position of a system column or a property in the rows of its type."""
    return int(item.arrow_schema.get_field_index(name))


def range_violation(
    item: NodeType, name: str, subject: Subject, *, value: Shown, bound: tuple[str, float]
) -> Violation:
    """`@range`; `bound` is (`max`, 150) or (`min`, 0)."""
    word, limit = bound
    sign = ">" if word == "max" else "<"
    return Violation(
        code=Code.RANGE_VIOLATION,
        message=f"@range violation on {item.name}.{name}: value {value.text} {sign} {word} {limit}",
        kind=EntityKind.NODE,
        type=item.name,
        properties=(name,),
        subject=subject,
        value=value.json,
        limit=limit,
        place=place_of(item, name),
    )


def check_violation(item: NodeType, check: Check, subject: Subject, *, value: str) -> Violation:
    """`@check`."""
    return Violation(
        code=Code.CHECK_VIOLATION,
        message=f"@check violation on {item.name}.{check.property}: value '{shown(value)}' "
        f"does not match pattern '{check.pattern}'",
        kind=EntityKind.NODE,
        type=item.name,
        properties=(check.property,),
        subject=subject,
        value=cut_value(value),
        limit=check.pattern,
        place=place_of(item, check.property),
    )


def enum_violation(
    item: NodeType | EdgeType, prop: Property, subject: Subject, *, value: str
) -> Violation:
    """A text outside the closed set of an enum."""
    known = list(prop.type.enum_values or ())
    return Violation(
        code=Code.ENUM_VIOLATION,
        message=f"invalid enum value '{shown(value)}' for {item.name}.{prop.name} "
        f"(expected: {', '.join(known)})",
        kind=kind_of(item),
        type=item.name,
        properties=(prop.name,),
        subject=subject,
        value=cut_value(value),
        limit=known,
        place=place_of(item, prop.name),
    )


def key_conflict(item: NodeType | EdgeType, subject: Subject) -> Violation:
    """A strict insert of an id that is committed."""
    return Violation(
        code=Code.KEY_CONFLICT,
        message=f"{item.name} '{shown(subject.entity_id or '')}' exists already",
        kind=kind_of(item),
        type=item.name,
        properties=("id",),
        subject=subject,
        value=subject.entity_id,
    )


def unique_violation(
    item: NodeType | EdgeType,
    names: Sequence[str],
    subject: Subject,
    *,
    values: Sequence[Shown],
    held_by: str,
    place: int,
) -> Violation:
    """A tuple of `@key` or `@unique` that two records hold."""
    only = len(names) == 1
    where = names[0] if only else f"({', '.join(names)})"
    text = ", ".join(value.text for value in values)
    json_values = [value.json for value in values]
    return Violation(
        code=Code.UNIQUE_VIOLATION,
        message=f"@unique violation on {item.name}.{where}: "
        f"value '{text if only else f'({text})'}' "
        f"held by '{shown(held_by)}' and '{shown(subject.entity_id or '')}'",
        kind=kind_of(item),
        type=item.name,
        properties=tuple(names),
        subject=subject,
        value=json_values[0] if only else json_values,
        held_by=held_by,
        place=place,
    )


def orphan_edge(item: EdgeType, endpoint: str, subject: Subject, *, node_id: str) -> Violation:
    """An edge whose `src` or `dst` is no node of the final image."""
    node_type = item.from_type if endpoint == "src" else item.to_type
    return Violation(
        code=Code.ORPHAN_EDGE,
        message=f"{endpoint} '{shown(node_id)}' not found in {node_type}",
        kind=EntityKind.EDGE,
        type=item.name,
        properties=(endpoint,),
        subject=subject,
        value=node_id,
        limit=node_type,
        place=place_of(item, endpoint),
    )


def cardinality_violation(item: EdgeType, source: str, *, edges: int) -> Violation:
    """A source with too many or too few edges; the entity is the source."""
    low, high = item.card
    word, limit = ("min", low) if edges < low else ("max", high)
    counted = "1 edge" if edges == 1 else f"{edges} edges"
    return Violation(
        code=Code.CARDINALITY_VIOLATION,
        message=f"@card violation on edge {item.name}: source '{shown(source)}' "
        f"has {counted} ({word} {limit})",
        kind=EntityKind.EDGE,
        type=item.name,
        properties=("src",),
        subject=Subject(entity_id=source),
        value=edges,
        limit=limit,
    )


def bare_node(item: EdgeType, node_id: str, *, row: Subject) -> Violation:
    """A node without an edge that it needs; the entity is the node."""
    return Violation(
        code=Code.CARDINALITY_VIOLATION,
        message=f"@card violation on edge {item.name}: source '{shown(node_id)}' "
        f"has 0 edges (min {item.card[0]})",
        kind=EntityKind.NODE,
        type=item.from_type,
        properties=(),
        subject=row,
        value=0,
        limit=item.card[0],
    )


@dataclass(frozen=True, slots=True)
class Shown:
    """A value as a message writes it and as its JSON form."""

    text: str
    json: JsonValue


def shown(text: str) -> str:
    """A text short enough for a message."""
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def cut_value(value: str) -> str:
    """A text short enough for a report of a thousand violations."""
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"
