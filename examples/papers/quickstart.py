"""Compiles the sample schema, lints the sample queries and prints what the compiler understood.

Needs no graph and writes nothing; `store.py` beside it runs queries. The last part is the plan of
one query as the compiler gives it: how it runs on a graph is what `Graph.explain` tells.

    python examples/papers/quickstart.py
    python examples/papers/quickstart.py --query hybrid_search
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from omnigraph import Catalog, LintReport, compile_schema, lint
from omnigraph.lang import EdgeType, NodeType, compile_query

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.pg"
QUERIES = HERE / "queries.gq"


def summarise_node(node: NodeType) -> str:
    """Returns one line: name, key and the number of properties."""
    key = ", ".join(node.key or ()) or "a generated id"
    return f"  {node.name:<14} {len(node.properties):>2} properties, key: {key}"


def summarise_edge(edge: EdgeType) -> str:
    """Returns one line: name, ends, how many per source, and the properties."""
    low, high = edge.card
    count = f"{low}..{'' if high is None else high}"
    properties = ", ".join(edge.properties) or "none"
    ends = f"{edge.from_type} -> {edge.to_type}"
    return f"  {edge.name:<14} {ends:<22} {count:<5} per source, properties: {properties}"


def summarise_schema(catalog: Catalog) -> Iterator[str]:
    """Yields the types of the schema, one per line."""
    yield f"Schema {SCHEMA.name} ({catalog.schema_hash[:12]})"
    yield from (summarise_node(node) for node in catalog.node_types.values())
    yield from (summarise_edge(edge) for edge in catalog.edge_types.values())


def summarise_lint(report: LintReport) -> Iterator[str]:
    """Yields the verdict, then each query, then each finding."""
    yield (
        f"Queries {QUERIES.name}: {report.status}, {len(report.results)} processed, "
        f"{report.errors} errors, {report.warnings} warnings, {report.infos} infos"
    )
    for result in report.results:
        yield f"  {result.kind:<8} {result.name}"
        yield from (f"    warning: {warning}" for warning in result.warnings)
    for finding in report.findings:
        yield f"  {finding.severity} {finding.code}: {finding.message}"


def show(value: object) -> str:
    """Returns a part of a plan as one line, without types and empty lists."""
    match value:
        case {"node": name, **fields}:
            parts = (
                f"{key}={show(field)}"
                for key, field in fields.items()
                if field not in ([], ()) and not (key == "type" and isinstance(field, dict))
            )
            return f"{name}({', '.join(parts)})"
        case list():
            return f"[{', '.join(show(item) for item in value)}]"
        case _:
            return str(value)


def summarise_plan(catalog: Catalog, source: str, name: str) -> Iterator[str]:
    """Yields the operators of a query in the order they run, then what follows them."""
    plan = compile_query(catalog, source, name=name).ir.to_dict()
    yield f"Plan of {name}"
    for part in ("ops", "returns", "order", "limit"):
        value = plan.get(part)
        items = value if isinstance(value, list) else [value]
        for item in items:
            if item is not None:
                yield f"  {part:<8} {show(item)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the summary; an invalid schema or query raises with the place marked."""
    parser = argparse.ArgumentParser(description="Compile and lint the sample domain.")
    parser.add_argument("--query", default="suggest_collaborators", help="whose plan to print")
    options = parser.parse_args(arguments)
    source = QUERIES.read_text(encoding="utf-8")
    catalog = compile_schema(SCHEMA.read_text(encoding="utf-8"))
    report = lint(catalog, source, path=QUERIES.name)
    for part in (
        summarise_schema(catalog),
        summarise_lint(report),
        summarise_plan(catalog, source, options.query),
    ):
        print("\n".join(part), end="\n\n")


if __name__ == "__main__":
    main()
