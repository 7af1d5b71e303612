"""The accepted schema: a catalog with stable ids, as a graph keeps it.

Ids are minted once and never reused: `type_id` also names the table, `property_id` also names
indexes. A rename keeps ids and columns. A dropped name that comes back is a new property or type
with a new id; its column gets a new name if the old one is still in the table.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from omnigraph.lang.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.lang.renames import match_names

_Type = TypeVar("_Type", NodeType, EdgeType)


@dataclass(frozen=True, kw_only=True)
class AcceptedSchema:
    """A catalog with ids, the counters that mint them, and columns that may not be used again."""

    catalog: Catalog
    next_type_id: int
    next_property_id: int
    retired_columns: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By type id: columns of softly dropped properties, which are still in the table."""

    @cached_property
    def schema_hash(self) -> str:
        """SHA-256 over the meaning, the ids and the retired columns.

        Two accepted schemas of one hash are the same in every respect but the counters, so what is
        stored under a hash is written once.
        """
        retired = {str(key): sorted(value) for key, value in self.retired_columns.items()}
        parts = (self.catalog.canonical_json(), json.dumps(retired, sort_keys=True))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def ids_json(self) -> str:
        """The ids as canonical JSON; `restore_schema` reads them back beside the source."""
        types = {
            f"{kind}:{name}": {
                "type_id": item.type_id,
                "incarnation": item.incarnation,
                "properties": {
                    prop.name: {"property_id": prop.property_id, "column": prop.column}
                    for prop in item.properties.values()
                },
            }
            for kind, items in (
                ("node", self.catalog.node_types),
                ("edge", self.catalog.edge_types),
            )
            for name, item in items.items()
        }
        return json.dumps(
            {
                "next_type_id": self.next_type_id,
                "next_property_id": self.next_property_id,
                "retired_columns": {str(k): list(v) for k, v in self.retired_columns.items()},
                "types": types,
            },
            sort_keys=True,
            separators=(",", ":"),
        )


def accept_schema(
    desired: Catalog, previous: AcceptedSchema | None = None, *, keeps_dropped: bool = True
) -> AcceptedSchema:
    """`desired` with ids: those of `previous` for what goes on, new ones for the rest.

    The plan from `previous` to `desired` must be supported; this function does not check it. With
    `keeps_dropped` the columns of dropped properties stay in the table and are retired.
    """
    minter = _Minter(
        next_type_id=previous.next_type_id if previous else 1,
        next_property_id=previous.next_property_id if previous else 1,
        retired=dict(previous.retired_columns) if previous else {},
        keeps_dropped=keeps_dropped,
    )
    old = previous.catalog if previous else Catalog()
    catalog = Catalog(
        node_types={
            item.name: _ordered_key(item)
            for item in minter.types(old.node_types, desired.node_types)
        },
        edge_types={item.name: item for item in minter.types(old.edge_types, desired.edge_types)},
        interfaces=desired.interfaces,
    )
    return AcceptedSchema(
        catalog=catalog,
        next_type_id=minter.next_type_id,
        next_property_id=minter.next_property_id,
        retired_columns=minter.retired,
    )


def restore_schema(catalog: Catalog, ids_json: str) -> AcceptedSchema:
    """The accepted schema of a source's catalog and the ids that `ids_json` wrote for it.

    Raises:
        KeyError: the ids are not those of this source.
    """
    ids = json.loads(ids_json)
    return AcceptedSchema(
        catalog=Catalog(
            node_types={
                name: _ordered_key(_with_ids(item, ids["types"][f"node:{name}"]))
                for name, item in catalog.node_types.items()
            },
            edge_types={
                name: _with_ids(item, ids["types"][f"edge:{name}"])
                for name, item in catalog.edge_types.items()
            },
            interfaces=catalog.interfaces,
        ),
        next_type_id=ids["next_type_id"],
        next_property_id=ids["next_property_id"],
        retired_columns={int(key): tuple(value) for key, value in ids["retired_columns"].items()},
    )


# Any: the JSON that `ids_json` wrote.
def _with_ids(item: _Type, ids: dict[str, Any]) -> _Type:
    properties = {
        name: replace(
            declared,
            property_id=ids["properties"][name]["property_id"],
            column=ids["properties"][name]["column"],
        )
        for name, declared in item.properties.items()
    }
    return replace(
        item, properties=properties, type_id=ids["type_id"], incarnation=ids["incarnation"]
    )


def _ordered_key(node: NodeType) -> NodeType:
    """Key members by stable id, so that a rename changes no node id."""
    if node.key is None:
        return node
    ordered = sorted(node.key, key=lambda name: node.properties[name].property_id or 0)
    return replace(node, key=tuple(ordered))


@dataclass(slots=True, kw_only=True)
class _Minter:
    next_type_id: int
    next_property_id: int
    retired: dict[int, tuple[str, ...]]
    keeps_dropped: bool

    def types(self, old: Mapping[str, _Type], new: Mapping[str, _Type]) -> list[_Type]:
        names = match_names(old, new)
        before = {after: old[name] for name, after in names.pairs}
        for name in names.dropped:
            self.retired.pop(old[name].type_id or 0, None)
        out: list[_Type] = []
        for name, item in new.items():
            kept = before.get(name)
            if kept is None:
                type_id, incarnation = self.next_type_id, 1
                self.next_type_id += 1
            else:
                type_id, incarnation = kept.type_id or 0, kept.incarnation or 1
            properties = self.properties(type_id, kept.properties if kept else {}, item.properties)
            out.append(
                replace(item, properties=properties, type_id=type_id, incarnation=incarnation)
            )
        return out

    def properties(
        self, type_id: int, old: Mapping[str, Property], new: Mapping[str, Property]
    ) -> dict[str, Property]:
        names = match_names(old, new)
        before = {after: old[name] for name, after in names.pairs}
        dropped = tuple(old[name].column or name for name in names.dropped)
        if dropped and self.keeps_dropped:
            self.retired[type_id] = (*self.retired.get(type_id, ()), *dropped)
        # A column that is dropped for good is still there while the new ones are added.
        taken = {
            *dropped,
            *self.retired.get(type_id, ()),
            *(item.column for item in before.values() if item.column is not None),
        }
        out: dict[str, Property] = {}
        for name, item in new.items():
            kept = before.get(name)
            if kept is not None:
                out[name] = replace(item, property_id=kept.property_id, column=kept.column)
                continue
            number = self.next_property_id
            self.next_property_id += 1
            column = _free_column(name, number, taken)
            taken.add(column)
            out[name] = replace(item, property_id=number, column=column)
        return out


def _free_column(name: str, number: int, taken: set[str]) -> str:
    """The property's name, else with its id; a property may itself be called like that."""
    column = name
    while column in taken:
        column = f"{column}__{number}"
    return column
