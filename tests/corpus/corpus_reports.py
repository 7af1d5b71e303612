"""What the linter and the migration planner say, as lines that a person can read and compare."""

from collections.abc import Iterator

from tests.corpus.corpus_format import Case, CorpusError
from tests.corpus.corpus_language import query_text, schema_text

from omnigraph.lang import Catalog, LintReport, compile_schema, lint, plan_migration
from omnigraph.lang.schema_plan import SchemaPlan


def lint_case(case: Case) -> LintReport:
    """Lint the query source of a case against its schema."""
    source = query_text(case)
    if source is None:
        raise CorpusError(f"{case.place}: nothing to lint")
    return lint(_catalog(case, "schema"), source.data, path="q.gq", schema_source={"kind": "file"})


def lint_lines(report: LintReport) -> Iterator[str]:
    """A line per query, a line per finding in the order of the report, and the counts."""
    for query in report.results:
        told = [item.code for item in query.diagnostics]
        told += ["hard-coded"] * len(query.warnings)
        yield " ".join((query.kind, query.name, query.status, *told))
    for item in report.findings:
        names = f" in {', '.join(item.query_names)}" if item.query_names else ""
        yield f"{item.severity} {item.code}{_target(item.type_name, item.property)}{names}"
    counts = f"{report.errors} errors, {report.warnings} warnings, {report.infos} infos"
    yield f"{report.status}: {counts}"


def plan_case(case: Case) -> SchemaPlan:
    """Plan the way from the schema of a case to the desired one, over tables with these rows."""
    section = case.section("rows")
    counts: dict[str, int] = {}
    for line in section.text.splitlines() if section is not None else ():
        table, count = line.split()
        counts[table] = int(count)
    return plan_migration(_catalog(case, "schema"), _catalog(case, "desired"), row_counts=counts)


def plan_lines(plan: SchemaPlan) -> Iterator[str]:
    """A line per step in the order of the plan, then a line per diagnostic."""
    for step in plan.steps:
        code = f" {step.code}" if step.code else ""
        yield f"{step.kind} {step.entity}{_target(step.type_name, step.property_name)}{code}"
    for item in plan.diagnostics:
        yield f"{item.severity} {item.code}{_target(item.type_name, item.property_name)}"


def _catalog(case: Case, name: str) -> Catalog:
    section = case.section(name)
    return compile_schema(b"" if section is None else schema_text(section).data)


def _target(type_name: str | None, name: str | None) -> str:
    return "".join((f" {type_name}" if type_name else "", f".{name}" if name else ""))
