"""The way from `.gq` source to something that can run: select, check, lower, describe."""

from dataclasses import dataclass

from omnigraph.errors import QueryInvalid, QuerySelectionError
from omnigraph.lang import query_ast as ast
from omnigraph.lang.catalog import Catalog
from omnigraph.lang.checked import CheckedQuery
from omnigraph.lang.descriptor import Operation, StoredQuery, describe_operation, stored_query
from omnigraph.lang.diagnostics import Findings, join_names, raise_findings
from omnigraph.lang.grammar import QUERY_LANGUAGE, read_source
from omnigraph.lang.ir import MutationIR, Param, QueryIR
from omnigraph.lang.lowering import lower_query
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.suggest import did_you_mean
from omnigraph.lang.typecheck import typecheck_query


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledQuery:
    """A query that can run: its syntax tree, its checked form, its IR and its descriptor."""

    query: ast.Query
    checked: CheckedQuery
    ir: QueryIR | MutationIR
    operation: Operation

    @property
    def params(self) -> tuple[Param, ...]:
        """Declared parameters with their types."""
        return self.checked.params

    def stored(self, *, tool_name: str | None = None) -> StoredQuery:
        """The stored-query catalog entry."""
        return stored_query(self.query, self.params, tool_name=tool_name)


def parse_query_file(source: str | bytes, *, path: str | None = None) -> tuple[ast.Query, ...]:
    """The queries of a file.

    Raises:
        QueryInvalid: the source does not parse.
    """
    return _parse(source, path)[0]


def select_query(
    source: str | bytes, name: str | None = None, *, path: str | None = None
) -> ast.Query:
    """The query of that name, or the only one.

    Raises:
        QueryInvalid: the source does not parse.
        QuerySelectionError: no such name, or no name and not exactly one query.
    """
    return _select(_parse(source, path)[0], name)


def select_read(source: str, name: str | None = None) -> ast.Query:
    """The same, of a read query.

    Raises:
        QueryInvalid, QuerySelectionError: as above, or it is a mutation.
    """
    query = select_query(source, name)
    if query.is_mutation:
        raise _wrong_entry(query)
    return query


def compile_query(
    catalog: Catalog,
    source: str | bytes,
    name: str | None = None,
    *,
    path: str | None = None,
    expect_mutation: bool | None = None,
) -> CompiledQuery:
    """Compile one query of a source.

    Args:
        catalog: the schema in force.
        source: `.gq` text.
        name: which query; may be left out when there is one.
        path: where the source came from, for messages.
        expect_mutation: True or False when the entry point runs only mutations or only reads.

    Raises:
        QueryInvalid: the source does not parse, or the query does not check.
        QuerySelectionError: no such query, or it belongs to the other entry point.
    """
    queries, findings = _parse(source, path)
    query = _select(queries, name)
    if expect_mutation is not None and query.is_mutation is not expect_mutation:
        raise _wrong_entry(query)
    compiled = compile_parsed(catalog, query, findings)
    if compiled is None:
        raise_findings(QueryInvalid, findings)
    return compiled


def compile_parsed(catalog: Catalog, query: ast.Query, findings: Findings) -> CompiledQuery | None:
    """Check, lower and describe a parsed query; None with its errors in `findings`."""
    checked = typecheck_query(catalog, query, findings)
    if checked is None:
        return None
    lowered = lower_query(checked)
    return CompiledQuery(
        query=query,
        checked=checked,
        ir=lowered,
        operation=describe_operation(catalog, lowered),
    )


def _parse(source: str | bytes, path: str | None) -> tuple[tuple[ast.Query, ...], Findings]:
    findings = read_source(source, path, QUERY_LANGUAGE)
    queries = parse_queries(findings)
    if findings:
        raise_findings(QueryInvalid, findings)
    return queries, findings


def _select(queries: tuple[ast.Query, ...], name: str | None) -> ast.Query:
    names = [query.name for query in queries]
    if name is None:
        if len(queries) == 1:
            return queries[0]
        have = f"the source has {join_names(names)}" if names else "the source has no query"
        raise QuerySelectionError(
            f"name the query to run; {have}", reason="query_name_required", names=names
        )
    for query in queries:
        if query.name == name:
            return query
    raise QuerySelectionError(
        f"no query `{name}` in the source{did_you_mean(name, names, otherwise='it has')}",
        reason="query_not_found",
        name=name,
        names=names,
    )


def _wrong_entry(query: ast.Query) -> QuerySelectionError:
    if query.is_mutation:
        return QuerySelectionError(
            f"`{query.name}` is a mutation; run it with `mutate`",
            reason="use_mutate",
            name=query.name,
        )
    return QuerySelectionError(
        f"`{query.name}` is a read query; run it with `query`", reason="use_query", name=query.name
    )
