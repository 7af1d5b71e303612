"""What the tables can do, stated once: planner and `explain` read it, never a version check."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import PropType, Scalar
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.layout import EDGE_COLUMNS, NODE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.lang.catalog import EdgeType


class Pushdown(StrEnum):
    """Who evaluates a predicate on a column."""

    SCANNER = "scanner"
    """Lance's own scanner; every other way works too."""

    PROVIDER = "provider"
    """DataFusion over the table provider."""

    NULL_TEST = "null_test"
    """Only whether there is a value; by the provider."""


_PUSHED: Mapping[Scalar, Pushdown] = {
    scalar: {
        Scalar.U32: Pushdown.PROVIDER,
        Scalar.U64: Pushdown.PROVIDER,
        Scalar.BLOB: Pushdown.NULL_TEST,
        Scalar.VECTOR: Pushdown.NULL_TEST,
    }.get(scalar, Pushdown.SCANNER)
    for scalar in Scalar
}

STAGED_OPERATIONS = frozenset(
    {
        "append",
        "merge_insert",
        "update",
        "delete",
        "overwrite",
        "pieces",
        "index",
        "compaction",
        "add_columns",
        "drop_columns",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What predicates, indexes and writes the tables support."""

    staged_operations: frozenset[str] = STAGED_OPERATIONS
    pushed: Mapping[Scalar, Pushdown] = field(default_factory=lambda: dict(_PUSHED))

    def pushdown(self, kind: PropType) -> Pushdown:
        """Who evaluates a comparison with a column of this type."""
        return Pushdown.PROVIDER if kind.is_list else self.pushed[kind.scalar]

    def index_kinds(self, kind: PropType) -> tuple[IndexKind, ...]:
        """The indexes that fit a column of this type."""
        if kind.scalar is Scalar.VECTOR:
            return (IndexKind.IVF_FLAT,)
        if not kind.is_plain:
            return ()
        if kind.is_text and kind.enum_values is None:
            return (IndexKind.BTREE, IndexKind.INVERTED)
        return (IndexKind.BTREE,)


def wanted_indexes(item: NodeType | EdgeType) -> list[IndexSpec]:
    """The indexes that a type should have: endpoints and ids, wishes, keys and unique members."""
    system = NODE_COLUMNS if isinstance(item, NodeType) else EDGE_COLUMNS
    specs = [IndexSpec(property_name=name, kind=IndexKind.BTREE) for name in system]
    wished = {name for names in item.indexes for name in names}
    if isinstance(item, NodeType):
        wished |= set(item.key or ())
    unique = {name for names in item.unique for name in names}
    able = Capabilities()
    for name, declared in item.properties.items():
        for kind in able.index_kinds(declared.type):
            is_search = kind is not IndexKind.BTREE
            if name in wished or (name in unique and not is_search):
                specs.append(IndexSpec(property_name=name, kind=kind))
    return specs
