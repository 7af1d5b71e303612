"""What happened to one entity, as callers see it, and which changes they want to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import InvalidArgument
from omnigraph.graph.validation import EntityKind

if TYPE_CHECKING:
    from omnigraph.errors import JsonValue
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang import Catalog, EdgeType, NodeType


class Op(StrEnum):
    """What happened to an entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An entity at one moment."""

    properties: dict[str, JsonValue]
    endpoints: tuple[str, str] | None = None
    """Where an edge starts and where it ends."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {"properties": self.properties}
        if self.endpoints is not None:
            body["endpoints"] = dict(zip(("from", "to"), self.endpoints, strict=True))
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """What happened to one entity between two states."""

    kind: EntityKind
    type_id: int
    type_name: str
    id: str
    op: Op
    before: Image | None = None
    after: Image | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {
            "kind": self.kind.value,
            "type": {"id": self.type_id, "name": self.type_name},
            "id": self.id,
            "op": self.op.value,
        }
        images = {"before": self.before, "after": self.after}
        return body | {name: image.to_dict() for name, image in images.items() if image is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """Which changes are wanted; an empty set wants all."""

    kinds: frozenset[EntityKind] = frozenset()
    types: frozenset[str] = frozenset()
    """`Person`, or `node:Link` and `edge:Link` when both exist."""
    ops: frozenset[Op] = frozenset()

    def wants(self, item: NodeType | EdgeType, kind: EntityKind) -> bool:
        """Whether changes of a type are wanted."""
        from omnigraph.graph.manifest.table_refs import key_of

        return (not self.kinds or kind in self.kinds) and (
            not self.types or item.name in self.types or key_of(item) in self.types
        )

    def to_dict(self) -> dict[str, list[str]]:
        """The same for the same wishes, however they were given."""
        wishes = {"kinds": self.kinds, "types": self.types, "ops": self.ops}
        return {name: sorted(map(str, values)) for name, values in wishes.items()}

    def tables(self, *catalogs: Catalog) -> frozenset[TableRef] | None:
        """The tables whose types the filter names in one of the schemas; `None` is all of them.

        A table is the same under every name that its type had or gets.

        Raises:
            InvalidArgument: no schema has such a type; it is named, and those that there are.
        """
        if not self.types:
            return None
        # A client reads changes without the storage that tables are in.
        from omnigraph.graph.manifest.table_refs import key_of, ref_of

        items: list[NodeType | EdgeType] = []
        for catalog in catalogs:
            items += [*catalog.node_types.values(), *catalog.edge_types.values()]
        known = {item.name for item in items} | {key_of(item) for item in items}
        unknown = sorted(self.types - known)
        if unknown:
            names = ", ".join(sorted({item.name for item in items}))
            raise InvalidArgument(
                f"there is no type {unknown[0]!r}; there are {names}", argument="types"
            )
        return frozenset(ref_of(item) for item in items if {item.name, key_of(item)} & self.types)


def parse_filter(
    kinds: Iterable[str] | None, types: Iterable[str] | None, ops: Iterable[str] | None
) -> ChangeFilter:
    """What a caller asked to see.

    Raises:
        InvalidArgument: a kind or an operation is none, or something is no list.
    """
    return ChangeFilter(
        kinds=_words("kinds", kinds, EntityKind),
        types=frozenset(_texts("types", types)),
        ops=_words("ops", ops, Op),
    )


_Word = TypeVar("_Word", bound=StrEnum)


def _words(argument: str, texts: Iterable[str] | None, words: type[_Word]) -> frozenset[_Word]:
    given = _texts(argument, texts)
    unknown = [text for text in given if text not in set(words)]
    if unknown:
        raise InvalidArgument(
            f"{argument} has {unknown[0]!r}, which is none of {', '.join(words)}",
            argument=argument,
        )
    return frozenset(map(words, given))


def _texts(argument: str, texts: Iterable[str] | None) -> list[str]:
    if texts is None:
        return []
    given = None if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    if given is None or not all(isinstance(text, str) for text in given):
        raise InvalidArgument(f"{argument} is a list of texts, as [{texts!r}]", argument=argument)
    return given
