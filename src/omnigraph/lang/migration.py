"""The migration planner: what must happen to get from an accepted schema to a desired one.

A pure function of two catalogs and the row counts of the tables. It yields ordered steps and, for
every refused or risky one, a diagnostic with a stable OG code. A plan with an error is refused as
a whole.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.errors import InvalidArgument
from omnigraph.lang.catalog import (
    Catalog,
    EdgeType,
    InterfaceType,
    NodeType,
    Property,
    canonical,
)
from omnigraph.lang.declared_constraints import (
    DeclaredConstraint,
    constrained_properties,
    edge_constraints,
    implies,
    node_constraints,
    spell_constraint,
)
from omnigraph.lang.ir import EntityKind
from omnigraph.lang.renames import Renames, match_names
from omnigraph.lang.schema_plan import (
    MigrationDiagnostic,
    MigrationStep,
    SchemaPlan,
    StepKind,
    step_order,
)
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.types import Scalar


def plan_migration(
    accepted: Catalog,
    desired: Catalog,
    *,
    row_counts: Mapping[str, int] | None = None,
    allow_data_loss: bool = False,
) -> SchemaPlan:
    """Plan the way from `accepted` to `desired`.

    Args:
        accepted: the schema in force.
        desired: the schema wanted.
        row_counts: live rows by table key (`node:Person`); a table not named is empty.
        allow_data_loss: drops are irreversible instead of soft.

    Raises:
        InvalidArgument: a key of `row_counts` names no table of `accepted`.
    """
    for key in row_counts or {}:
        _check_table_key(accepted, key)
    planner = _Planner(
        accepted=accepted,
        desired=desired,
        row_counts=row_counts or {},
        is_hard=allow_data_loss,
    )
    planner.plan()
    return SchemaPlan(
        steps=tuple(sorted(planner.steps, key=step_order)),
        diagnostics=tuple(
            sorted(
                planner.diagnostics,
                key=lambda item: (
                    item.severity,
                    item.type_name,
                    item.property_name or "",
                    item.code,
                ),
            )
        ),
    )


def _check_table_key(accepted: Catalog, key: str) -> None:
    known = [f"node:{name}" for name in accepted.node_types]
    known += [f"edge:{name}" for name in accepted.edge_types]
    if key not in known:
        tail = did_you_mean(key, known, otherwise="tables are")
        raise InvalidArgument(f"row_counts: there is no table `{key}`{tail}", key=key)


_TIERS = {
    "OG-DS-102": "destructive",
    "OG-DS-103": "destructive",
    "OG-DS-104": "destructive",
    "OG-DS-105": "destructive",
    "OG-MF-103": "validated",
    "OG-MF-104": "validated",
    "OG-MF-106": "destructive",
    "OG-MF-107": "validated",
    "OG-MF-108": "destructive",
    "OG-CD-101": "safe",
    "OG-VE-101": "destructive",
    "OG-ED-101": "destructive",
    "OG-RN-101": "destructive",
}


@dataclass(slots=True, kw_only=True)
class _Planner:
    accepted: Catalog
    desired: Catalog
    row_counts: Mapping[str, int]
    is_hard: bool
    steps: list[MigrationStep] = field(default_factory=list)
    diagnostics: list[MigrationDiagnostic] = field(default_factory=list)

    def plan(self) -> None:
        nodes = match_names(self.accepted.node_types, self.desired.node_types)
        edges = match_names(self.accepted.edge_types, self.desired.edge_types)
        self.plan_types(EntityKind.NODE, nodes)
        self.plan_types(EntityKind.EDGE, edges)
        for old_name, new_name in nodes.pairs:
            self.plan_node(self.accepted.node_types[old_name], self.desired.node_types[new_name])
        for old_name, new_name in edges.pairs:
            self.plan_edge(
                self.accepted.edge_types[old_name], self.desired.edge_types[new_name], nodes
            )
        self.plan_interfaces()

    def step(
        self,
        kind: StepKind,
        entity: str,
        type_name: str,
        property_name: str | None = None,
        *,
        code: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.steps.append(
            MigrationStep(
                kind=kind,
                entity=entity,
                type_name=type_name,
                property_name=property_name,
                code=code,
                details=details or {},
            )
        )

    def note(
        self,
        code: str,
        severity: str,
        detail: str,
        type_name: str,
        property_name: str | None = None,
    ) -> None:
        self.diagnostics.append(
            MigrationDiagnostic(
                code=code,
                severity=severity,
                tier=_TIERS[code],
                detail=detail,
                type_name=type_name,
                property_name=property_name,
            )
        )

    def rows(self, entity: EntityKind, accepted_name: str) -> int:
        return self.row_counts.get(f"{entity}:{accepted_name}", 0)

    def plan_types(self, entity: EntityKind, names: Renames) -> None:
        for name, problem in names.refused:
            self.note("OG-RN-101", "error", f"{entity} type `{name}`: {problem}", name)
        for old, new in names.renamed:
            self.step(StepKind.RENAME_TYPE, entity, new, details={"from": old})
        for name in names.added:
            self.step(StepKind.ADD_TYPE, entity, name)
        for name in names.dropped:
            code = "OG-DS-102" if entity is EntityKind.NODE else "OG-DS-103"
            rows = self.rows(entity, name)
            self.drop(StepKind.DROP_TYPE, code, rows, f"{entity} type `{name}`", entity, name)

    def drop(
        self,
        kind: StepKind,
        code: str,
        rows: int,
        what: str,
        entity: EntityKind,
        type_name: str,
        property_name: str | None = None,
    ) -> None:
        mode = "hard" if self.is_hard else "soft"
        if rows:
            fate = "the data is removed for good" if self.is_hard else "older commits still show it"
            detail = f"drops {what} of {rows:,} rows; {fate}"
            self.note(code, "warn", detail, type_name, property_name)
        self.step(
            kind,
            entity,
            type_name,
            property_name,
            code=code if rows else None,
            details={"mode": mode},
        )

    def plan_node(self, old: NodeType, new: NodeType) -> None:
        names = self.plan_properties(EntityKind.NODE, old, new)
        if _renamed(old.key, names) != (None if new.key is None else frozenset(new.key)):
            self.note(
                "OG-MF-108",
                "error",
                f"node type `{new.name}`: the key changes from {_names(old.key)} to "
                f"{_names(new.key)}; load the data into a new type",
                new.name,
            )
        self.plan_embeds(old, new, names)
        self.plan_constraints(
            EntityKind.NODE, old, new, node_constraints(old, names), node_constraints(new, None)
        )
        key = set(new.key or ()) | set(_renamed(old.key, names) or ())
        self.plan_indexes(
            EntityKind.NODE,
            new.name,
            {names.current(name) for name in old.indexed_properties} - key,
            set(new.indexed_properties) - key,
        )
        if _metadata(old) != _metadata(new) or set(old.implements) != set(new.implements):
            self.step(StepKind.UPDATE_METADATA, EntityKind.NODE, new.name)

    def plan_edge(self, old: EdgeType, new: EdgeType, nodes: Renames) -> None:
        ends = (nodes.current(old.from_type), nodes.current(old.to_type))
        if ends != (new.from_type, new.to_type):
            self.note(
                "OG-ED-101",
                "error",
                f"edge type `{new.name}`: the endpoints change from {old.from_type} -> "
                f"{old.to_type} to {new.from_type} -> {new.to_type}; declare a new edge type",
                new.name,
            )
        names = self.plan_properties(EntityKind.EDGE, old, new)
        self.plan_constraints(
            EntityKind.EDGE, old, new, edge_constraints(old, names), edge_constraints(new, None)
        )
        self.plan_indexes(
            EntityKind.EDGE,
            new.name,
            {names.current(name) for row in old.indexes for name in row},
            {name for row in new.indexes for name in row},
        )
        if _metadata(old) != _metadata(new):
            self.step(StepKind.UPDATE_METADATA, EntityKind.EDGE, new.name)

    def plan_properties(
        self, entity: EntityKind, old: NodeType | EdgeType, new: NodeType | EdgeType
    ) -> Renames:
        rows = self.rows(entity, old.name)
        names = match_names(old.properties, new.properties)
        for name, problem in names.refused:
            self.note(
                "OG-RN-101", "error", f"property `{new.name}.{name}`: {problem}", new.name, name
            )
        for before, after in names.renamed:
            self.step(StepKind.RENAME_PROPERTY, entity, new.name, after, details={"from": before})
        for name in names.dropped:
            is_vector = old.properties[name].type.scalar is Scalar.VECTOR
            code = "OG-DS-105" if is_vector else "OG-DS-104"
            # Drops run before renames, so the type still has its old name.
            what = f"property `{old.name}.{name}`"
            self.drop(StepKind.DROP_PROPERTY, code, rows, what, entity, old.name, name)
        for name in names.added:
            self.add_property(entity, new.name, new.properties[name], rows)
        for before, after in names.pairs:
            self.change_property(entity, new.name, old.properties[before], new.properties[after])
        return names

    def add_property(self, entity: EntityKind, type_name: str, item: Property, rows: int) -> None:
        if rows and item.must_be_given:
            takes_default = item.type.is_plain
            remedy = "make it nullable" + (" or give it a `@default`" if takes_default else "")
            self.note(
                "OG-MF-103",
                "error",
                f"property `{type_name}.{item.name}` is required and {rows:,} rows have no value; "
                f"{remedy}",
                type_name,
                item.name,
            )
        is_filled = item.default is not None and not item.type.nullable
        backfill = {"backfill_rows": rows} if is_filled and rows else {}
        self.step(
            StepKind.ADD_PROPERTY,
            entity,
            type_name,
            item.name,
            details={"type": str(item.type), **backfill},
        )

    def change_property(
        self, entity: EntityKind, type_name: str, old: Property, new: Property
    ) -> None:
        place = f"property `{type_name}.{new.name}`"
        was, now = old.type.as_nullable(nullable=False), new.type.as_nullable(nullable=False)
        widened = (
            was.enum_values is not None
            and now.enum_values is not None
            and set(was.enum_values) < set(now.enum_values)
        )
        if widened:
            added = sorted(set(now.enum_values or ()) - set(was.enum_values or ()))
            self.step(StepKind.EXTEND_ENUM, entity, type_name, new.name, details={"values": added})
        elif was != now:
            self.note(
                "OG-MF-106",
                "error",
                f"{place}: the type changes from {was} to {now}; add a new property instead",
                type_name,
                new.name,
            )
        if old.type.nullable and not new.type.nullable:
            self.note(
                "OG-MF-104",
                "error",
                f"{place} becomes required; existing rows may hold null: add a new required "
                "property with a `@default` instead",
                type_name,
                new.name,
            )
        elif new.type.nullable and not old.type.nullable:
            self.drop_constraint(entity, type_name, ("required", new.name, ()))
        if _metadata(old) != _metadata(new):
            self.step(StepKind.UPDATE_METADATA, entity, type_name, new.name)

    def plan_embeds(self, old: NodeType, new: NodeType, names: Renames) -> None:
        for name, embed in old.embeds.items():
            current = names.current(name)
            wanted = new.embeds.get(current)
            if wanted is None or current not in new.properties:
                continue
            if (names.current(embed.source), embed.model) != (wanted.source, wanted.model):
                self.note(
                    "OG-VE-101",
                    "error",
                    f"property `{new.name}.{current}`: the source or model of `@embed` changes; "
                    "stored vectors would no longer mean what it says: add a new vector property",
                    new.name,
                    current,
                )

    def plan_constraints(
        self,
        entity: EntityKind,
        old: NodeType | EdgeType,
        new: NodeType | EdgeType,
        before: frozenset[DeclaredConstraint],
        after: frozenset[DeclaredConstraint],
    ) -> None:
        for constraint in before - after:
            # A constraint over dropped properties alone goes with them.
            if not constrained_properties(constraint) or constrained_properties(
                constraint
            ) & _columns(new):
                self.drop_constraint(entity, new.name, constraint)
        for constraint in after - before:
            is_implied = any(implies(other, constraint) for other in before)
            rows = 0 if is_implied else self.rows(entity, old.name)
            word, name, args = constraint
            if rows:
                self.note(
                    "OG-MF-107",
                    "warn",
                    f"adds `{spell_constraint(constraint)}` to `{new.name}`: {rows:,} rows are "
                    "checked first, and a row that breaks it refuses the plan",
                    new.name,
                    name,
                )
            self.step(
                StepKind.ADD_CONSTRAINT,
                entity,
                new.name,
                name,
                code="OG-MF-107" if rows else None,
                details={
                    "constraint": word,
                    "arguments": list(args),
                    "declared": spell_constraint(constraint),
                },
            )

    def drop_constraint(
        self, entity: EntityKind, type_name: str, constraint: DeclaredConstraint
    ) -> None:
        word, name, args = constraint
        self.note(
            "OG-CD-101",
            "warn",
            f"`{type_name}` no longer guarantees `{spell_constraint(constraint)}`",
            type_name,
            name,
        )
        self.step(
            StepKind.DROP_CONSTRAINT,
            entity,
            type_name,
            name,
            code="OG-CD-101",
            details={
                "constraint": word,
                "arguments": list(args),
                "declared": spell_constraint(constraint),
            },
        )

    def plan_indexes(
        self, entity: EntityKind, type_name: str, before: set[str], after: set[str]
    ) -> None:
        columns = _columns(
            self.desired.node_types[type_name]
            if entity is EntityKind.NODE
            else self.desired.edge_types[type_name]
        )
        for name in before - after:
            if name in columns:
                self.step(StepKind.DROP_INDEX, entity, type_name, name)
        for name in after - before:
            self.step(StepKind.ADD_INDEX, entity, type_name, name)

    def plan_interfaces(self) -> None:
        before, after = self.accepted.interfaces, self.desired.interfaces
        for name in sorted({*before, *after}):
            old, new = before.get(name), after.get(name)
            if old is None or new is None or not _same(old, new):
                self.step(StepKind.UPDATE_METADATA, "interface", name)


def _same(old: InterfaceType, new: InterfaceType) -> bool:
    return canonical(old.describe()) == canonical(new.describe())


def _metadata(item: NodeType | EdgeType | Property) -> str:
    """What may change without touching rows, as JSON text: annotations and the default.

    Text, because Python takes `1`, `1.0` and `true` as equal and the schema hash does not.
    """
    out: dict[str, object] = {
        name: value.to_json()
        for name, value in item.annotations.items()
        if name not in ("rename_from", "embed", "default")
    }
    if isinstance(item, Property):
        out["@embed"] = "embed" in item.annotations
        out["@default"] = None if item.default is None else [item.default.value]
    return json.dumps(out, sort_keys=True)


def _columns(item: NodeType | EdgeType) -> set[str]:
    return {*item.properties, *(("src", "dst") if isinstance(item, EdgeType) else ())}


def _renamed(key: tuple[str, ...] | None, names: Renames) -> frozenset[str] | None:
    return None if key is None else frozenset(names.current(name) for name in key)


def _names(key: tuple[str, ...] | None) -> str:
    return "none" if key is None else f"({', '.join(key)})"
