"""Stored queries: named queries of files that are checked as a whole before any of them runs.

Names are unique over all files. Every error of every file is told at once, each with its file, line
and column; whoever holds a `StoredQueries` knows that all of it compiled against one schema, and
asks `errors_with` before that schema changes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import QueryInvalid
from omnigraph.lang.compiler import compile_parsed
from omnigraph.lang.diagnostics import Findings, FindingsFull, render_all
from omnigraph.lang.grammar import QUERY_LANGUAGE, read_source
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.lang import query_ast as ast
    from omnigraph.lang.catalog import Catalog
    from omnigraph.lang.descriptor import StoredQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFile:
    """One `.gq` file: where it lies and what it holds, or why it cannot be read."""

    path: str
    data: bytes = b""
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinition:
    """What is run when a stored query is invoked."""

    entry: StoredQuery
    source: str
    """The text of its file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQueries:
    """The stored queries of an open graph, by name."""

    files: tuple[QueryFile, ...] = ()
    definitions: Mapping[str, StoredDefinition]

    def errors_with(self, catalog: Catalog) -> QueryInvalid | None:
        """What would be wrong with them under another schema; `None` if all would still run."""
        return _compiled(catalog, self.files).error


NO_STORED_QUERIES = StoredQueries(definitions={})


def compile_stored_queries(catalog: Catalog, files: Sequence[QueryFile]) -> StoredQueries:
    """All queries of all files, checked against a schema.

    Raises:
        QueryInvalid: with every error of every file; details `diagnostics`, each with its `path`.
    """
    compiled = _compiled(catalog, files)
    if compiled.error is not None:
        raise compiled.error
    return StoredQueries(files=tuple(files), definitions=compiled.definitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    definitions: dict[str, StoredDefinition]
    error: QueryInvalid | None


def _compiled(catalog: Catalog, files: Sequence[QueryFile]) -> _Compiled:
    definitions: dict[str, StoredDefinition] = {}
    reports: list[Findings] = []
    places: dict[str, str] = {}
    for file in files:
        queries, findings = _parse(file)
        reports.append(findings)
        for query in queries:
            first = places.setdefault(query.name, file.path)
            if first != file.path:
                _report_duplicate(query, first, findings)
                continue
            compiled = compile_parsed(catalog, query, findings)
            if compiled is not None:
                definitions[query.name] = StoredDefinition(
                    entry=compiled.stored(), source=findings.source.text
                )
    return _Compiled(definitions=definitions, error=_error_of(reports))


def _report_duplicate(query: ast.Query, first: str, findings: Findings) -> None:
    text = f"query `{query.name}` is declared in {first} already"
    with suppress(FindingsFull):
        findings.add("Q000", "duplicate_query", text, query.extent)


def _parse(file: QueryFile) -> tuple[tuple[ast.Query, ...], Findings]:
    """The queries of one file; none if it does not parse, for a half-read file misleads."""
    if file.problem is not None:
        findings = Findings(Source("", file.path))
        findings.add("Q000", "unreadable", file.problem, (0, 0))
        return (), findings
    findings = read_source(file.data, file.path, QUERY_LANGUAGE)
    queries = parse_queries(findings)
    return (() if findings else queries), findings


def _error_of(reports: Sequence[Findings]) -> QueryInvalid | None:
    broken = [findings for findings in reports if findings]
    if not broken:
        return None
    diagnostics: list[JsonValue] = [
        diagnostic.to_dict() | {"path": findings.source.path}
        for findings in broken
        for diagnostic in findings.sorted()
    ]
    return QueryInvalid(
        "\n".join(render_all(findings) for findings in broken),
        diagnostics=diagnostics,
        total=len(diagnostics),
    )
