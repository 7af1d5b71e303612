"""Lint of a query file against a catalog: errors, warnings and the descriptor of each query."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.lang import ir
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import AnnotationValue, Catalog, EdgeType, NodeType
from omnigraph.lang.checked import Block, CheckedRead
from omnigraph.lang.compiler import CompiledQuery, compile_parsed
from omnigraph.lang.descriptor import Operation
from omnigraph.lang.diagnostics import Diagnostic, Findings, join_names, render_excerpt
from omnigraph.lang.foreign_syntax import suggest_annotation
from omnigraph.lang.grammar import QUERY_LANGUAGE, read_source
from omnigraph.lang.ir_parts import variables_of
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source, Span
from omnigraph.lang.variable_groups import BoundNames, Groups

_NO_PARAMETERS = (
    "mutation declares no parameters; hard-coded mutations are easy to miss, "
    "pass values as parameters"
)


class Severity(StrEnum):
    """How bad a lint finding is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_RANK = {severity: position for position, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One finding about the file as a whole or about a type."""

    severity: Severity
    code: str
    message: str
    reason: str | None = None
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()
    span: Span | None = None

    def to_dict(self) -> dict[str, object]:
        """The JSON form; absent fields are left out."""
        out: dict[str, object] = {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
        }
        if self.reason is not None:
            out["reason"] = self.reason
        if self.type_name is not None:
            out["type_name"] = self.type_name
        if self.property is not None:
            out["property"] = self.property
        if self.query_names:
            out["query_names"] = list(self.query_names)
        if self.span is not None:
            out["span"] = self.span.to_dict()
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLint:
    """What lint says of one query."""

    name: str
    kind: str
    warnings: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    operation: Operation | None = None

    @property
    def status(self) -> str:
        """`ok`, or `error` when the query cannot run."""
        return "error" if self.diagnostics else "ok"

    def to_dict(self) -> dict[str, object]:
        """The JSON form; absent fields are left out."""
        out: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
            "warnings": list(self.warnings),
        }
        if self.diagnostics:
            out["error"] = "\n".join(item.message for item in self.diagnostics)
            out["diagnostics"] = [item.to_dict() for item in self.diagnostics]
        if self.operation is not None:
            out["operation"] = self.operation.to_dict()
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """Everything lint found in one query file."""

    results: tuple[QueryLint, ...]
    findings: tuple[LintFinding, ...]
    source: Source
    schema_source: Mapping[str, str] | None = None

    @property
    def errors(self) -> int:
        """Failed queries and error findings."""
        failed = sum(bool(result.diagnostics) for result in self.results)
        return failed + self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        """Warnings of queries and warning findings."""
        return sum(len(item.warnings) for item in self.results) + self._count(Severity.WARNING)

    @property
    def infos(self) -> int:
        """Info findings."""
        return self._count(Severity.INFO)

    @property
    def status(self) -> str:
        """`error` when something cannot run, else `ok`."""
        return "error" if self.errors else "ok"

    def _count(self, severity: Severity) -> int:
        return sum(item.severity is severity for item in self.findings)

    def to_dict(self) -> dict[str, object]:
        """The JSON form of the contract."""
        out: dict[str, object] = {"status": self.status}
        if self.schema_source is not None:
            out["schema_source"] = dict(self.schema_source)
        if self.source.path is not None:
            out["query_path"] = self.source.path
        return out | {
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [item.to_dict() for item in self.results],
            "findings": [item.to_dict() for item in self.findings],
        }

    def render(self) -> str:
        """The report for people: findings with their source lines, then a summary."""
        blocks: list[str] = []
        for result in self.results:
            blocks += [self._block("error", item.message, item.span) for item in result.diagnostics]
            blocks += [f"warning: query `{result.name}`: {text}" for text in result.warnings]
        for item in self.findings:
            text = (
                item.message
                if item.message.startswith(item.code)
                else f"{item.code}: {item.message}"
            )
            blocks.append(self._block(item.severity.value, text, item.span))
        counts = (
            (len(self.results), "query", "queries"),
            (self.errors, "error", "errors"),
            (self.warnings, "warning", "warnings"),
            (self.infos, "info", "infos"),
        )
        summary = ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in counts)
        return "\n".join((*blocks, summary))

    def _block(self, severity: str, text: str, span: Span | None) -> str:
        head = f"{severity}: {text}"
        return head if span is None else f"{head}\n{render_excerpt(self.source, span)}"


def lint(
    catalog: Catalog,
    source: str | bytes,
    *,
    path: str | None = None,
    schema_source: Mapping[str, str] | None = None,
) -> LintReport:
    """Check every query of a source against a catalog. Never raises for what the source says."""
    findings = read_source(source, path, QUERY_LANGUAGE)
    queries = parse_queries(findings)
    if findings:
        return _unparsed(findings, schema_source)
    compiled: list[CompiledQuery] = []
    results: list[QueryLint] = []
    for query in queries:
        own = Findings(findings.source)
        compiled_query = compile_parsed(catalog, query, own)
        results.append(_query_lint(query, compiled_query, own))
        if compiled_query is not None:
            compiled.append(compiled_query)
    notes = (
        *_unset_properties(catalog, compiled),
        *_default_keys(catalog),
        *_odd_annotations(catalog),
        *(note for item in compiled for note in _query_notes(catalog, item, findings.source)),
    )
    return LintReport(
        results=tuple(results),
        findings=tuple(sorted(notes, key=_finding_order)),
        source=findings.source,
        schema_source=schema_source,
    )


def _unparsed(findings: Findings, schema_source: Mapping[str, str] | None) -> LintReport:
    return LintReport(
        results=(),
        findings=tuple(
            LintFinding(
                severity=Severity.ERROR,
                code=item.code,
                reason=item.reason,
                message=item.message,
                span=item.span,
            )
            for item in findings.sorted()
        ),
        source=findings.source,
        schema_source=schema_source,
    )


def _query_lint(query: ast.Query, compiled: CompiledQuery | None, own: Findings) -> QueryLint:
    hard_coded = query.is_mutation and not query.params
    return QueryLint(
        name=query.name,
        kind="mutation" if query.is_mutation else "read",
        warnings=(_NO_PARAMETERS,) if hard_coded else (),
        diagnostics=own.sorted(),
        operation=None if compiled is None else compiled.operation,
    )


def _finding_order(item: LintFinding) -> tuple[int, str, str, str, int]:
    at = item.span.start if item.span is not None else 0
    return _RANK[item.severity], item.type_name or "", item.property or "", item.message, at


def _unset_properties(catalog: Catalog, compiled: Iterable[CompiledQuery]) -> Iterator[LintFinding]:
    """L201: a property of an updated type that no update of the file sets."""
    updates: dict[str, dict[str, set[str]]] = {}
    for item in compiled:
        if isinstance(item.ir, ir.MutationIR):
            for op in item.ir.ops:
                if isinstance(op, ir.Update) and op.kind is ir.EntityKind.NODE:
                    names = {assign.property for assign in op.assignments}
                    updates.setdefault(op.type, {}).setdefault(item.query.name, set()).update(names)
    for type_name, by_query in updates.items():
        node = catalog.node_types[type_name]
        touched = set().union(*by_query.values())
        for name, declared in node.properties.items():
            is_candidate = declared.type.nullable and name not in (node.key or ())
            if is_candidate and name not in node.embeds and name not in touched:
                yield LintFinding(
                    severity=Severity.WARNING,
                    code="L201",
                    message=f"no update of `{type_name}` sets its property `{name}`",
                    type_name=type_name,
                    property=name,
                    query_names=tuple(sorted(by_query)),
                )


def _default_keys(catalog: Catalog) -> Iterator[LintFinding]:
    """L204: a default on a key property."""
    for type_name, node in catalog.node_types.items():
        for name in node.key or ():
            if node.properties[name].default is not None:
                yield LintFinding(
                    severity=Severity.WARNING,
                    code="L204",
                    message=f"`@default` on the key property `{type_name}.{name}`: "
                    "every row that leaves it out gets the same key",
                    type_name=type_name,
                    property=name,
                )


def _odd_annotations(catalog: Catalog) -> Iterator[LintFinding]:
    """L207: an annotation that changes nothing and looks like one that would."""
    types: list[NodeType | EdgeType] = [*catalog.node_types.values(), *catalog.edge_types.values()]
    for item in types:
        places: list[tuple[str | None, Mapping[str, AnnotationValue]]] = [(None, item.annotations)]
        places += [(name, declared.annotations) for name, declared in item.properties.items()]
        for property_name, annotations in places:
            for name, value in annotations.items():
                meant = None if value.is_quoted else suggest_annotation(name)
                if meant is not None:
                    yield LintFinding(
                        severity=Severity.WARNING,
                        code="L207",
                        message=f"annotation `@{name}` of "
                        f"`{'.'.join(filter(None, (item.name, property_name)))}` is not known and "
                        f"changes nothing; did you mean {meant}?",
                        type_name=item.name,
                        property=property_name,
                    )


def _query_notes(catalog: Catalog, item: CompiledQuery, source: Source) -> Iterator[LintFinding]:
    """L202, L203, L205, L206 and L208 of one query."""
    names = (item.query.name,)
    checked = item.checked
    for param in item.query.params:
        if param.name not in checked.used_params:
            yield LintFinding(
                severity=Severity.INFO,
                code="L206",
                message=f"query `{item.query.name}` never uses its parameter `${param.name}`",
                query_names=names,
                span=source.span(param.extent),
            )
    if not isinstance(checked, CheckedRead):
        return
    for use in checked.searches:
        # `fuzzy` scans whether or not there is an index, so none is missing.
        is_indexed = use.property in catalog.node_types[use.type_name].indexed_properties
        if use.function != ast.Function.FUZZY and not is_indexed:
            yield LintFinding(
                severity=Severity.WARNING,
                code="L202",
                message=f"`{use.function}` on `{use.type_name}.{use.property}`, which has no "
                "`@index`: the query scans every row",
                type_name=use.type_name,
                property=use.property,
                query_names=names,
                span=source.span(use.extent),
            )
    for alias, extent in checked.worst_first:
        yield LintFinding(
            severity=Severity.WARNING,
            code="L203",
            message=f"query `{item.query.name}` orders by the score `{alias}` ascending: "
            "the worst match comes first; write `desc`",
            query_names=names,
            span=source.span(extent),
        )
    for extent in checked.null_negations:
        yield LintFinding(
            severity=Severity.WARNING,
            code="L208",
            message=f"query `{item.query.name}`: `contains`, `starts_with` and text searches are "
            "false for null, so the negation keeps rows without a value; add `and … is not null` "
            "to drop them",
            query_names=names,
            span=source.span(extent),
        )
    parts = [(checked.block, BoundNames(None))]
    parts += [(block, BoundNames(None, block.outer_vars)) for block in checked.counted]
    for roots, block in (each for part in parts for each in _cross_products(*part)):
        yield LintFinding(
            severity=Severity.WARNING,
            code="L205",
            message=f"query `{item.query.name}`: nothing connects "
            f"{join_names(f'${root.split()[0]}' for root in roots)}: every combination is built",
            query_names=names,
            span=source.span(block.extent),
        )


def _cross_products(block: Block, outer: BoundNames) -> Iterator[tuple[list[str], Block]]:
    """Clause lists whose variables fall apart, with one variable of each part.

    What is bound outside a negation holds together there.
    """
    groups = Groups()
    names = [node.var for node in block.nodes]
    for position, walk in enumerate(block.walks):
        ends = [name for name in (walk.left, walk.right) if name != ast.ANONYMOUS]
        ends = ends or [f"{ast.ANONYMOUS} {walk.edge} {position}"]
        names += ends
        told = [name for name in (walk.edge_var, walk.walk_var) if name is not None]
        groups.join_all([*ends, *told])
    for item in block.filters:
        if isinstance(item, ir.Filter) and item.op is ir.FilterOp.EQ:
            groups.join_all(sorted(variables_of([item])))
    groups.join_all([name for name in block.outer_vars if name in outer])
    roots: dict[str, str] = {}
    for name in names:
        roots.setdefault(groups.find(name), name)
    if len(roots) > 1:
        yield list(roots.values()), block
    visible = BoundNames(outer, (*names, *(walk.edge_var for walk in block.walks if walk.edge_var)))
    for inner in block.inner:
        yield from _cross_products(inner, visible)
