"""The validator of writes: rows fitted to their types, seven checks, one order of reporting.

Pure functions over Arrow tables. Committed rows are reached through `CommittedRows` only.
"""

from omnigraph.graph.validation.committed import LOOKUP_KEYS, CommittedRows, Endpoint
from omnigraph.graph.validation.delta import TableDelta
from omnigraph.graph.validation.evaluator import validate
from omnigraph.graph.validation.findings import (
    ALL_ROWS,
    REPORTED_VIOLATIONS,
    Findings,
    gather,
)
from omnigraph.graph.validation.fitting import (
    ArrowRows,
    FitBlobs,
    FittedRows,
    arrow_table,
    check_columns,
    fit_json_rows,
    fit_rows,
    follow_respelled,
)
from omnigraph.graph.validation.json_columns import JsonRows, JsonValues
from omnigraph.graph.validation.rejection import refuse_load, refuse_mutation
from omnigraph.graph.validation.row_rules import check_rows
from omnigraph.graph.validation.violation import (
    ROW_RULES,
    Code,
    EntityKind,
    Shown,
    Subject,
    Violation,
    cardinality_violation,
    key_conflict,
    orphan_edge,
    unique_violation,
)

__all__ = [
    "ALL_ROWS",
    "LOOKUP_KEYS",
    "REPORTED_VIOLATIONS",
    "ROW_RULES",
    "ArrowRows",
    "Code",
    "CommittedRows",
    "Endpoint",
    "EntityKind",
    "Findings",
    "FitBlobs",
    "FittedRows",
    "JsonRows",
    "JsonValues",
    "Shown",
    "Subject",
    "TableDelta",
    "Violation",
    "arrow_table",
    "cardinality_violation",
    "check_columns",
    "check_rows",
    "fit_json_rows",
    "fit_rows",
    "follow_respelled",
    "gather",
    "key_conflict",
    "orphan_edge",
    "refuse_load",
    "refuse_mutation",
    "unique_violation",
    "validate",
]
