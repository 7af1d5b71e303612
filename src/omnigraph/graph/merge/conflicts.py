"""What stands in the way of a merge, entity by entity, for people and as a table."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from omnigraph.errors import MergeConflicts
from omnigraph.graph.access import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.graph.changes.entity_change import Image
    from omnigraph.graph.gate import Gate
    from omnigraph.graph.validation import EntityKind

REPORTED_CONFLICTS: Final = 10_000
_NAMED: Final = 3
_IMAGES: Final = frozenset({"base", "ours", "theirs"})

CONFLICT_COLUMNS: Final = pa.schema(
    {
        "entity_kind": pa.string(),
        "type": pa.string(),
        "id": pa.string(),
        "kind": pa.string(),
        "property": pa.string(),
        "base": pa.string(),
        "ours": pa.string(),
        "theirs": pa.string(),
        "message": pa.string(),
        "entity_ids": pa.list_(pa.string()),
        "remedy": pa.string(),
    }
)
"""One row for each property that is contested; values are JSON, null where there is no entity."""


class ConflictKind(StrEnum):
    """Why an entity cannot be merged by itself."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One entity that both sides changed, or that breaks a rule of the merged graph."""

    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    kind: ConflictKind
    message: str
    base: Image | None = None
    ours: Image | None = None
    theirs: Image | None = None
    entity_ids: tuple[str, ...] = ()
    """Of a broken rule: entities of the type that have a part in it, where there are others than
    `entity_id`. Of a broken `@card` these are edges, and `entity_id` is the node."""
    remedy: str | None = None
    """Of a broken rule: a resolution that ends it, as JSON."""

    @property
    def order(self) -> tuple[bool, str, str, str]:
        """Nodes before edges, then types by name, then entities by id."""
        is_edge = self.entity_kind == "edge"
        return is_edge, self.type_name, self.entity_id or "", self.kind

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body: dict[str, Any] = {
            "entity_kind": self.entity_kind.value,
            "type_name": self.type_name,
            "entity_id": self.entity_id,
            "kind": self.kind.value,
            "message": self.message,
        }
        if self.entity_ids:
            body["entity_ids"] = list(self.entity_ids)
        if self.remedy is not None:
            body["remedy"] = self.remedy
        images = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        return body | {name: image.to_dict() for name, image in images.items() if image is not None}

    @property
    def told(self) -> str:
        """The message, and what helps."""
        if self.remedy is None:
            return self.message
        return f"{self.message}; a resolution decides it, as {self.remedy}"

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each property that is contested, at least one.

        That is what the two sides have otherwise; if one has deleted the entity, what the other one
        has changed.
        """
        sides = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        shown = {
            "entity_kind": self.entity_kind.value,
            "type": self.type_name,
            "id": self.entity_id,
            "kind": self.kind.value,
            "message": self.message,
            "entity_ids": list(self.entity_ids) or None,
            "remedy": self.remedy,
        }
        cells = {side: _cells(image) for side, image in sides.items()}
        first, second = (cells[side] or cells["base"] for side in ("ours", "theirs"))
        contested = (name for name, value in first.items() if second.get(name) != value)
        for name in tuple[str | None, ...](contested) or (None,):
            values = {side: values.get(name or "") for side, values in cells.items()}
            yield {**shown, "property": name, **values}


def _cells(image: Image | None) -> dict[str, str]:
    if image is None:
        return {}
    ends: dict[str, JsonValue] = {}
    if image.endpoints is not None:
        ends = dict(zip(("src", "dst"), image.endpoints, strict=True))
    return {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in {**ends, **image.properties}.items()
    }


def conflict_table(conflicts: Sequence[Conflict]) -> pa.Table:
    """The conflicts as a table, a row for each contested property."""
    rows = [row for conflict in conflicts for row in conflict.rows()]
    return pa.Table.from_pylist(rows, schema=CONFLICT_COLUMNS)


def refuse_conflicts(conflicts: Sequence[Conflict], total: int, what: str) -> None:
    """Refuse a merge or a revert that has conflicts.

    Raises:
        MergeConflicts: with the conflicts in order, up to 10,000 of them.
    """
    if not conflicts:
        return
    named = "; ".join(conflict.told for conflict in conflicts[:_NAMED])
    more = f"; and {total - _NAMED:,} more" if total > _NAMED else ""
    raise MergeConflicts(
        f"{what}, nothing was changed: {named}{more}",
        merge_conflicts=[conflict.to_dict() for conflict in conflicts[:REPORTED_CONFLICTS]],
        total=total,
    )


@contextmanager
def values_for_readers(gate: Gate, *branches: str) -> Iterator[None]:
    """Show what contested entities have to those alone who may read all of the branches.

    Others may merge or undo, so they are told which entities and properties stand in the way.

    Raises:
        MergeConflicts: as the block does, for them without values.
    """
    try:
        yield
    except MergeConflicts as refused:
        if all(gate.allows(Action.READ, branch) for branch in branches):
            raise
        # cast: as `refuse_conflicts` puts them there
        conflicts = cast("list[dict[str, JsonValue]]", refused.details["merge_conflicts"])
        bare = [
            {name: value for name, value in each.items() if name not in _IMAGES}
            for each in conflicts
        ]
        raise MergeConflicts(
            refused.message, **refused.details | {"merge_conflicts": bare}
        ) from None
