"""The schema and query languages: source text in, typed catalog, IR and diagnostics out.

Pure: no I/O, no storage, no engine. What is listed in `__all__` is for the layers above.
"""

from omnigraph.lang.accepted import AcceptedSchema, accept_schema, restore_schema
from omnigraph.lang.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.lang.compiler import (
    CompiledQuery,
    compile_parsed,
    compile_query,
    parse_query_file,
    select_query,
    select_read,
)
from omnigraph.lang.descriptor import Operation, StoredQuery, describe_operation, stored_query
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.ir import MutationIR, QueryIR
from omnigraph.lang.keys import render_key
from omnigraph.lang.linter import LintReport, lint
from omnigraph.lang.literals import fit_literal, fit_members
from omnigraph.lang.lowering import lower_query
from omnigraph.lang.migration import plan_migration
from omnigraph.lang.params import bind_params
from omnigraph.lang.schema_compiler import compile_schema, require_meant_annotations
from omnigraph.lang.schema_plan import SchemaPlan
from omnigraph.lang.source import Span
from omnigraph.lang.stored_queries import (
    NO_STORED_QUERIES,
    QueryFile,
    StoredQueries,
    compile_stored_queries,
)
from omnigraph.lang.typecheck import typecheck_query
from omnigraph.lang.types import PropType, Scalar

__all__ = [
    "NO_STORED_QUERIES",
    "AcceptedSchema",
    "Catalog",
    "CompiledQuery",
    "Diagnostic",
    "EdgeType",
    "LintReport",
    "MutationIR",
    "NodeType",
    "Operation",
    "PropType",
    "Property",
    "QueryFile",
    "QueryIR",
    "Scalar",
    "SchemaPlan",
    "Span",
    "StoredQueries",
    "StoredQuery",
    "accept_schema",
    "bind_params",
    "compile_parsed",
    "compile_query",
    "compile_schema",
    "compile_stored_queries",
    "describe_operation",
    "fit_literal",
    "fit_members",
    "lint",
    "lower_query",
    "parse_query_file",
    "plan_migration",
    "render_key",
    "require_meant_annotations",
    "restore_schema",
    "select_query",
    "select_read",
    "stored_query",
    "typecheck_query",
]
