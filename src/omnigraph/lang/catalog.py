"""The typed meaning of a schema, after interfaces are expanded and every rule has been checked.

Immutable. Two catalogs are equal when their schema hash is: SHA-256 over a canonical JSON in which
types come by name, properties by stable id (by name in a catalog compiled from source alone, which
has none), enum values and constraints sorted, and annotations included. Comments, layout and the
order of declarations do not count.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.lang.types import PropType

if TYPE_CHECKING:
    import pyarrow as pa

AnnotationScalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationValue:
    """What an annotation says: its value (None for a bare one) and keywords."""

    value: AnnotationScalar | None = None
    keywords: Mapping[str, AnnotationScalar] = field(default_factory=dict)
    is_quoted: bool = field(default=False, compare=False)
    """Its name was given in quotes: it is metadata, however it looks."""

    def to_json(self) -> object:
        """The value alone, or with its keywords when there are any."""
        if not self.keywords:
            return self.value
        return {"value": self.value, "keywords": dict(sorted(self.keywords.items()))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """The value of `@default`, as the property's type holds it."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """`@embed`: the text property a vector stands for, and the model if recorded."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """`@range`: inclusive bounds, either end open."""

    property: str
    low: int | float | None
    high: int | float | None

    def to_dict(self) -> dict[str, object]:
        """The JSON form, open ends left out."""
        bounds = {"min": self.low, "max": self.high}
        return {"property": self.property} | {k: v for k, v in bounds.items() if v is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """`@check`: an RE2 pattern that must be found in the value."""

    property: str
    pattern: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"property": self.property, "pattern": self.pattern}


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """A property of a node or edge type, or of an interface."""

    name: str
    type: PropType
    annotations: Mapping[str, AnnotationValue] = field(default_factory=dict)
    default: Default | None = None
    property_id: int | None = None
    column: str | None = None
    """Physical column of an accepted property; None before acceptance."""

    @property
    def must_be_given(self) -> bool:
        """Required, and nothing fills it when a new row leaves it out."""
        return not self.type.nullable and self.default is None

    def describe(self) -> dict[str, object]:
        """The JSON form for UIs and agents."""
        out: dict[str, object] = {
            "name": self.name,
            "type": str(self.type),
            "kind": self.type.to_dict(),
        }
        if self.default is not None:
            out["default"] = self.default.value
        if self.property_id is not None:
            out["property_id"] = self.property_id
        if self.column is not None:
            out["column"] = self.column
        return out | _describe_annotations(self.annotations)


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """A node type; `key`, `unique` and `indexes` hold property names."""

    name: str
    properties: Mapping[str, Property]
    implements: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    embeds: Mapping[str, Embed] = field(default_factory=dict)
    annotations: Mapping[str, AnnotationValue] = field(default_factory=dict)
    type_id: int | None = None
    incarnation: int | None = None

    @property
    def blob_properties(self) -> tuple[str, ...]:
        """Names of the Blob properties."""
        return _blobs(self.properties)

    @cached_property
    def indexed_properties(self) -> frozenset[str]:
        """Properties that some `@index` or the key names."""
        return frozenset(name for names in self.indexes for name in names)

    @cached_property
    def arrow_schema(self) -> "pa.Schema":
        """`id`, then the properties in declaration order."""
        from omnigraph.lang.arrow_schema import table_schema

        return table_schema(("id",), self.properties.values())

    def describe(self) -> dict[str, object]:
        """The JSON form for UIs and agents."""
        return {
            "name": self.name,
            "properties": [item.describe() for item in self.properties.values()],
            "implements": list(self.implements),
            "key": None if self.key is None else list(self.key),
            "ranges": [item.to_dict() for item in self.ranges],
            "checks": [item.to_dict() for item in self.checks],
            "embeds": {
                name: {"source": embed.source} | ({"model": embed.model} if embed.model else {})
                for name, embed in self.embeds.items()
            },
            **_describe_shared(self),
        }


@dataclass(frozen=True, kw_only=True)
class EdgeType:
    """An edge type; `unique` and `indexes` may also name `src` and `dst`."""

    name: str
    from_type: str
    to_type: str
    properties: Mapping[str, Property]
    card: tuple[int, int | None] = (0, None)
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    annotations: Mapping[str, AnnotationValue] = field(default_factory=dict)
    type_id: int | None = None
    incarnation: int | None = None

    @property
    def blob_properties(self) -> tuple[str, ...]:
        """Names of the Blob properties."""
        return _blobs(self.properties)

    @cached_property
    def arrow_schema(self) -> "pa.Schema":
        """`id`, `src`, `dst`, then the properties in declaration order."""
        from omnigraph.lang.arrow_schema import table_schema

        return table_schema(("id", "src", "dst"), self.properties.values())

    def describe(self) -> dict[str, object]:
        """The JSON form for UIs and agents."""
        return {
            "name": self.name,
            "from": self.from_type,
            "to": self.to_type,
            "card": {"min": self.card[0], "max": self.card[1]},
            "properties": [item.describe() for item in self.properties.values()],
            **_describe_shared(self),
        }


@dataclass(frozen=True, kw_only=True)
class InterfaceType:
    """An interface; nodes that implement it have its properties."""

    name: str
    properties: Mapping[str, Property]

    def describe(self) -> dict[str, object]:
        """The JSON form for UIs and agents."""
        return {
            "name": self.name,
            "properties": [item.describe() for item in self.properties.values()],
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Catalog:
    """All types of a schema, in declaration order."""

    node_types: Mapping[str, NodeType] = field(default_factory=dict)
    edge_types: Mapping[str, EdgeType] = field(default_factory=dict)
    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)

    @cached_property
    def edge_by_word(self) -> Mapping[str, str]:
        """Casefolded edge name to edge name."""
        return {name.casefold(): name for name in self.edge_types}

    @cached_property
    def implementing(self) -> Mapping[str, tuple[str, ...]]:
        """By interface: the node types that implement it, in order of their names."""
        found: dict[str, list[str]] = {interface: [] for interface in self.interfaces}
        for name in sorted(self.node_types):
            for interface in self.node_types[name].implements:
                found[interface].append(name)
        return {interface: tuple(names) for interface, names in found.items()}

    def readable(self, name: str) -> Mapping[str, Property]:
        """The properties of a node type or an interface, of which a variable is bound."""
        item = self.node_types.get(name)
        return self.interfaces[name].properties if item is None else item.properties

    @cached_property
    def schema_hash(self) -> str:
        """SHA-256 of the declared meaning, in hex."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.schema_hash == other.schema_hash

    def __hash__(self) -> int:
        return hash(self.schema_hash)

    def canonical_json(self) -> str:
        """The text under the schema hash: equal for equal meaning."""
        meaning = {
            "nodes": [
                canonical(self.node_types[name].describe()) for name in sorted(self.node_types)
            ],
            "edges": [
                canonical(self.edge_types[name].describe()) for name in sorted(self.edge_types)
            ],
            "interfaces": [
                canonical(self.interfaces[name].describe()) for name in sorted(self.interfaces)
            ],
        }
        return json.dumps(meaning, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def describe(self) -> dict[str, object]:
        """Types, constraints, annotations and descriptions as JSON, for UIs and agents."""
        return {
            "schema_hash": self.schema_hash,
            "nodes": [item.describe() for item in self.node_types.values()],
            "edges": [item.describe() for item in self.edge_types.values()],
            "interfaces": [item.describe() for item in self.interfaces.values()],
        }


def _blobs(properties: Mapping[str, Property]) -> tuple[str, ...]:
    return tuple(name for name, item in properties.items() if item.type.scalar == "Blob")


def _describe_shared(item: NodeType | EdgeType) -> dict[str, object]:
    out: dict[str, object] = {
        "unique": [list(names) for names in item.unique],
        "indexes": [list(names) for names in item.indexes],
        "blob_properties": list(item.blob_properties),
    }
    if item.type_id is not None:
        out |= {"type_id": item.type_id, "incarnation": item.incarnation}
    return out | _describe_annotations(item.annotations)


def _describe_annotations(annotations: Mapping[str, AnnotationValue]) -> dict[str, object]:
    out: dict[str, object] = {}
    for name in ("description", "instruction"):
        if name in annotations:
            out[name] = annotations[name].value
    if annotations:
        out["annotations"] = {name: value.to_json() for name, value in annotations.items()}
    return out


def canonical(described: dict[str, object]) -> dict[str, object]:
    """A described type reduced to its meaning: lists in order, what says nothing left out.

    `@index` is a wish for each member by itself, so only the members count. `@rename_from` tells
    the migration planner about the past and is no part of what is declared. `@default` counts as
    the value that it gives, which stands beside it. The order of a key's members is that of their
    stable ids, which the properties carry, so it needs no place of its own here.
    """
    out = dict(described)
    for name in ("unique", "indexes", "ranges", "checks", "implements", "blob_properties", "key"):
        value = out.get(name)
        if isinstance(value, list):
            rows = [sorted(row) if isinstance(row, list) else row for row in value]
            out[name] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    indexes = out.get("indexes")
    if isinstance(indexes, list):
        out["indexes"] = sorted({name for row in indexes for name in row})
    properties = out["properties"]
    if isinstance(properties, list):
        out["properties"] = sorted(
            (_without_spelling(item) for item in properties),
            key=lambda item: (item.get("property_id", 0), item["name"]),
        )
    return _without_spelling(out)


# Any: JSON objects whose members the callers know.
def _without_spelling(described: dict[str, Any]) -> dict[str, Any]:
    annotations = described.get("annotations", {})
    kept = {
        name: value for name, value in annotations.items() if name not in ("rename_from", "default")
    }
    rest = {name: value for name, value in described.items() if name != "annotations"}
    return rest | ({"annotations": kept} if kept else {})
