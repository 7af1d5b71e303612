"""Constraints that a schema adds, held against the rows that a graph has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.errors import InternalError, SchemaRefused
from omnigraph.graph.arrays import filled
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.stored_rows import StoredTable, check_stored, find_rule
from omnigraph.lang.schema_plan import StepKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.schema_apply.table_changes import TableChange
    from omnigraph.graph.validation import Findings
    from omnigraph.lang import Catalog, EdgeType, NodeType, SchemaPlan
    from omnigraph.lang.schema_plan import MigrationStep

CODE: Final = "OG-MF-107"
EXAMPLES: Final = 20


def check_added_rules(
    txn: WriteTxn, plan: SchemaPlan, catalog: Catalog, changes: Sequence[TableChange]
) -> None:
    """Refuse a schema whose new constraints the rows of the graph break.

    Raises:
        SchemaRefused: with the number of violations and the first of them, for each constraint.
    """
    by_ref = {change.ref: change for change in changes}
    broken = []
    for step in plan.steps:
        if step.kind is not StepKind.ADD_CONSTRAINT or step.code != CODE:
            continue
        types = catalog.node_types if step.entity == "node" else catalog.edge_types
        item = types[step.type_name]
        findings = _findings(txn, catalog, by_ref[ref_of(item)], item, step)
        if findings.total:
            broken.append(_diagnostic(step, findings))
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise SchemaRefused(
            f"the schema cannot be applied, nothing was changed: {broken[0]['message']}{more}",
            diagnostics=broken,
        )


def _findings(
    txn: WriteTxn,
    catalog: Catalog,
    change: TableChange,
    item: NodeType | EdgeType,
    step: MigrationStep,
) -> Findings:
    word, arguments = str(step.details["constraint"]), step.details["arguments"]
    if not isinstance(arguments, list):
        raise InternalError(f"the step {step.render()} has no arguments; please report it")
    rule = find_rule(catalog, item, word, step.property_name, arguments)
    if rule is None:
        raise InternalError(f"{item.name} has no rule for {step.render()}; please report it")
    txn.read_set.ask(change.ref, AllRows())
    stored = StoredTable(
        item=item,
        row_count=txn.line.pins[change.ref].row_count,
        scan=lambda columns: _scan(txn, change, columns),
    )
    return check_stored(catalog, stored, rule, TxnLookups(txn), limit=EXAMPLES)


def _scan(txn: WriteTxn, change: TableChange, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows as they will be: new properties have their defaults."""
    handle = txn.store.open(change.layout, txn.readable(change.ref).pin)
    for batch in txn.store.scan(handle, columns=columns):
        yield _filled(batch, change.fills)


def _filled(batch: pa.RecordBatch, fills: Mapping[str, pa.Scalar[pa.DataType]]) -> pa.RecordBatch:
    arrays = [
        filled(batch.column(name), fills[name]) if name in fills else batch.column(name)
        for name in batch.schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _diagnostic(step: MigrationStep, findings: Findings) -> dict[str, Any]:
    """What is wrong, in the shape of a plan's diagnostic."""
    first = findings.violations[0]
    rows = "1 violation" if findings.total == 1 else f"{findings.total:,} violations"
    out: dict[str, Any] = {
        "code": CODE,
        "severity": "error",
        "tier": "validated",
        "message": f"[{CODE}] `{step.details['declared']}` of `{step.type_name}` does not hold:"
        f" {rows}, the first is {first.subject.entity_id!r} ({first.message}); correct the rows"
        " first, or leave the constraint out",
        "type_name": step.type_name,
        "count": findings.total,
        "examples": [violation.to_dict() for violation in findings.violations],
    }
    return out if step.property_name is None else out | {"property": step.property_name}
