"""The schema of a graph's main line, and the plan from it to a desired one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import SchemaRefused
from omnigraph.graph.manifest.table_refs import CatalogTables, key_of
from omnigraph.ids import MAIN_BRANCH_ID
from omnigraph.lang import compile_schema, plan_migration

if TYPE_CHECKING:
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.schemas import Schemas
    from omnigraph.lang import AcceptedSchema, Catalog, SchemaPlan


def accepted_on(schemas: Schemas, line: ManifestLine) -> AcceptedSchema:
    """The accepted schema of a line, with the counters of the line.

    What is stored under a hash has the counters of the first time that it was accepted; a schema
    that comes back after a type was added and dropped must not give its ids again.
    """
    row = line.schema
    return replace(
        schemas.load(row.schema_hash),
        next_type_id=row.next_type_id,
        next_property_id=row.next_property_id,
    )


def plan_change(
    accepted: AcceptedSchema,
    line: ManifestLine,
    desired: Catalog,
    source: str,
    *,
    allow_data_loss: bool,
) -> SchemaPlan:
    """The plan from the schema of a line to a desired one, with the rows that its tables have."""
    types = CatalogTables(accepted.catalog).types
    counts = {key_of(item): line.pins[ref].row_count for ref, item in types.items()}
    plan = plan_migration(
        accepted.catalog, desired, row_counts=counts, allow_data_loss=allow_data_loss
    )
    return replace(
        plan,
        source=source,
        schema_from=line.schema.schema_hash,
        allow_data_loss=allow_data_loss,
    )


def plan_schema(graph: GraphCoordinator, source: str, *, allow_data_loss: bool) -> SchemaPlan:
    """What it would take to get from the schema of `main` to this one; nothing is written.

    Raises:
        SchemaInvalid: the desired schema does not compile.
    """
    desired = compile_schema(source)
    line = graph.lines.read(MAIN_BRANCH_ID)
    accepted = accepted_on(graph.schemas, line)
    return plan_change(accepted, line, desired, source, allow_data_loss=allow_data_loss)


def refuse_unsupported(plan: SchemaPlan) -> None:
    """Refuse a plan with a step that cannot be done, as a whole.

    Raises:
        SchemaRefused: with every reason.
    """
    errors = [item for item in plan.diagnostics if item.severity == "error"]
    if not errors:
        return
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    told: list[Any] = [item.to_dict() for item in errors]  # Any: JSON
    raise SchemaRefused(
        f"the schema cannot be applied, nothing was changed: {errors[0].message}{more}",
        diagnostics=told,
    )
