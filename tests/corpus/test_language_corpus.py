"""Every case of `language/`: accepted as described, or rejected with exactly these findings."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.corpus.corpus_format import Case, Section, read_cases
from tests.corpus.corpus_language import (
    Expected,
    Found,
    Outcome,
    Text,
    compile_case,
    expectations,
)
from tests.corpus.corpus_outline import expands, outline
from tests.corpus.corpus_reports import lint_case, lint_lines, plan_case, plan_lines

from omnigraph.lang import Catalog, CompiledQuery, QueryIR, compile_schema, lint
from omnigraph.lang import query_ast as ast

ROOT = Path(__file__).parent / "language"
_CASES = tuple(read_cases(ROOT))
_SLUG = re.compile(r"[a-z][a-z0-9_]*")
_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"")
_WORD = re.compile(r"[A-Za-z0-9_]+")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in _CASES])
def test_language_case(case: Case) -> None:
    if case.section("expect") is not None:
        assert_compiles_as_expected(case)
    if (section := case.section("lint")) is not None:
        assert_lints_as_expected(case, section)
    if (section := case.section("plan")) is not None:
        assert_plans_as_expected(case, section)


def test_lint_report_has_the_fields_of_the_contract() -> None:
    catalog = compile_schema("node A { a: String? }")
    report = lint(
        catalog,
        'query q() { update A set { a: "x" } where a = "y" } query r($p: I32) { match { $x: B } '
        "return { $x } } query s($p: I32) { match { $x: A } return { $x } }",
        path="q.gq",
        schema_source={"kind": "file", "path": "s.pg"},
    ).to_dict()
    assert set(report) == {
        "status",
        "schema_source",
        "query_path",
        "queries_processed",
        "errors",
        "warnings",
        "infos",
        "results",
        "findings",
    }
    results, findings = report["results"], report["findings"]
    assert isinstance(results, list)
    assert isinstance(findings, list)
    told = {"name", "kind", "status", "warnings"}
    failed = {"error", "diagnostics"}
    assert [set(item) - told for item in results] == [{"operation"}, failed, {"operation"}]
    assert [set(item["span"]) for item in findings if "span" in item] == [
        {"line", "column", "end_line", "end_column", "start", "end"}
    ]


def test_corpus_expects_every_code_of_the_language() -> None:
    expected = [item for case in _CASES if case.section("expect") for item in expectations(case)]
    codes = {item.code for item in expected}
    schema = {f"S{number:03}" for number in range(24)} - {"S009", "S018", "S019"}
    assert codes == schema | {"Q000", "selection"} | {f"T{number}" for number in range(1, 40)}
    assert {item.reason for item in expected if item.code == "Q000" and item.reason} == {
        "syntax",
        "bad_escape",
        "integer_range",
        "bad_date",
        "duplicate_annotation",
        "duplicate_query",
        "duplicate_parameter",
        "nearest_direction",
        "unknown_function",
        "argument_count",
    }


def test_corpus_expects_every_code_of_the_linter_and_the_planner() -> None:
    reports = [case.section(name) for case in _CASES for name in ("lint", "plan")]
    text = "\n".join(section.text for section in reports if section is not None)
    assert set(re.findall(r"\b(?:L2[0-9]{2}|OG-[A-Z]{2}-[0-9]{3})\b", text)) == {
        *(f"L20{number}" for number in range(1, 9)),
        *(f"OG-DS-{number}" for number in (102, 103, 104, 105)),
        *(f"OG-MF-{number}" for number in (103, 104, 106, 107, 108)),
        "OG-CD-101",
        "OG-VE-101",
        "OG-ED-101",
        "OG-RN-101",
    }


def assert_lints_as_expected(case: Case, section: Section) -> None:
    report = lint_case(case)
    assert "\n".join(lint_lines(report)) == section.text, case.place
    json.dumps(report.to_dict(), allow_nan=False)
    for item in report.findings:
        for name in (item.type_name, item.property):
            assert name is None or name in item.message


def assert_plans_as_expected(case: Case, section: Section) -> None:
    plan = plan_case(case)
    assert "\n".join(plan_lines(plan)) == section.text, case.place
    assert section.argument in ("supported", "refused")
    assert plan.supported is (section.argument == "supported")
    json.dumps(plan.to_dict(), allow_nan=False)
    for item in plan.diagnostics:
        assert item.message.startswith(f"[{item.code}] ")
        assert item.type_name in item.message


def assert_compiles_as_expected(case: Case) -> None:
    outcome = compile_case(case)
    wanted = expectations(case)
    assert_findings(case, wanted, outcome.found)
    for found in outcome.found:
        assert_well_formed(found, outcome.source)
    assert_sorted(outcome.found)
    if not wanted:
        assert_meaning(case, outcome)


def assert_findings(case: Case, wanted: tuple[Expected, ...], found: tuple[Found, ...]) -> None:
    shown = "\n".join(f"  {item}" for item in found) or "  accepted"
    assert [item.code for item in found] == [item.code for item in wanted], (
        f"{case.place}\nfound:\n{shown}"
    )
    for want, have in zip(wanted, found, strict=True):
        assert want.reason in (None, have.reason), f"{case.place}\nfound: {have}"
        assert want.place in (None, (have.line, have.column)), f"{case.place}\nfound: {have}"
        for text in want.contains:
            assert text in have.message, f"{case.place}\nno `{text}` in: {have.message}"


def assert_well_formed(found: Found, source: Text) -> None:
    """Code first in the message, a slug, something of the source named, a span in the source."""
    assert found.message.startswith(f"{found.code}: ")
    assert _SLUG.fullmatch(found.reason)
    if found.code == "selection":
        return
    text = source.data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    lines = text.split("\n")
    line = found.line + source.lines_before
    end_line = found.end_line + source.lines_before
    assert 1 <= line <= len(lines)
    assert 1 <= found.column <= len(lines[line - 1]) + 1
    assert line <= end_line <= len(lines)
    assert 1 <= found.end_column <= len(lines[end_line - 1]) + 2
    assert (line, found.column) < (end_line, found.end_column)
    assert 0 <= found.start <= len(source.data)
    assert found.start < found.end <= len(source.data) + 1
    before = (
        "".join(f"{item}\n" for item in lines[: line - 1]) + lines[line - 1][: found.column - 1]
    )
    mark = b"\xef\xbb\xbf" if source.data.startswith(b"\xef\xbb\xbf") else b""
    assert found.start == len(mark + before.encode())
    if found.code.startswith("T") and found.code != "T32":  # a column may have a derived name
        assert names_something(found.message, text), f"names nothing: {found.message}"


def names_something(message: str, text: str) -> bool:
    """True when something quoted in the message, or a word of it, stands in the source."""
    quoted = [first or second for first, second in _QUOTED.findall(message)]
    written = set(_WORD.findall(text))
    return any(item in text or written & set(_WORD.findall(item)) for item in quoted)


def assert_sorted(found: tuple[Found, ...]) -> None:
    places = [(item.line, item.column) for item in found]
    assert places == sorted(places)


def assert_meaning(case: Case, outcome: Outcome) -> None:
    assert outcome.catalog is not None
    for query in outcome.queries:
        json.dumps(query.ir.to_dict(), allow_nan=False)
        json.dumps(query.operation.to_dict(), allow_nan=False)
        assert_every_traversal_lowered(outcome.catalog, query)
    if (section := case.section("catalog")) is not None:
        for line in section.text.splitlines():
            path, value = line.split(" = ", 1)
            assert described(outcome.catalog, path) == json.loads(value), path
    for name in ("columns", "reads", "writes", "ir", "stored"):
        if (section := case.section(name)) is not None:
            (query,) = outcome.queries
            wanted = section.text or section.argument
            assert shown(name, query) == (
                json.loads(wanted) if name == "stored" else wanted.rstrip()
            )


def assert_every_traversal_lowered(catalog: Catalog, query: CompiledQuery) -> None:
    if not isinstance(query.ir, QueryIR):
        return
    assert isinstance(query.query.body, ast.ReadBody)
    written = Counter(
        catalog.edge_by_word[walk.edge_word.casefold()]
        for walk in traversals(query.query.body.clauses)
        if not {walk.left, walk.right} & {param.name for param in query.query.params}
    )
    assert Counter(op.edge for op in expands(query.ir.ops)) == written


def traversals(clauses: tuple[ast.Clause, ...]) -> Iterator[ast.Traversal]:
    for clause in clauses:
        if isinstance(clause, ast.Traversal):
            yield clause
        elif isinstance(clause, ast.InnerBlock):
            yield from traversals(clause.clauses)


def shown(section: str, query: CompiledQuery) -> object:
    """What a section of an accepted case is compared with."""
    operation = query.operation
    match section:
        case "columns":
            rows = operation.to_dict()["result"]
            assert isinstance(rows, list)
            return "\n".join(column(row) for row in rows) or "none"
        case "reads" | "writes":
            refs = operation.reads if section == "reads" else operation.writes
            return ", ".join(f"{kind.value} {name}" for kind, name in refs) or "none"
        case "ir":
            return outline(query.ir)
        case _:
            return query.stored().to_dict()


def column(row: dict[str, object]) -> str:
    """`name: kind nullable`, with the kind of a list's items or the size of a vector."""
    kind = str(row["kind"])
    if "item_kind" in row:
        kind += f"<{row['item_kind']}>"
    if "vector_dim" in row:
        kind += f"({row['vector_dim']})"
    return f"{row['name']}: {kind}{' nullable' if row['nullable'] else ''}"


def described(catalog: Catalog, path: str) -> object:
    """The value at a path of the described catalog; items of a list are found by their name."""
    value: object = catalog.describe()
    for step in path.split("."):
        if isinstance(value, list):
            value = next((item for item in value if item["name"] == step), None)
        elif isinstance(value, dict):
            value = value.get(step)
        else:
            raise AssertionError(f"nothing at `{path}`")
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return [item["name"] for item in value]
    return value
