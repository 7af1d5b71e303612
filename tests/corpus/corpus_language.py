"""What the sections of a language case mean: the sources to compile and the findings to expect.

A `body` is the inside of one query `q`; a `match` is the inside of its match block, returning a
constant. Both are wrapped so that columns stay as written, and lines are counted from the first
line of the section; the line of a parameter list is 0.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.corpus_format import Case, CorpusError, Section

from omnigraph.errors import QueryInvalid, QuerySelectionError, SchemaInvalid
from omnigraph.lang import Catalog, CompiledQuery, compile_query, compile_schema, parse_query_file

SCHEMAS = Path(__file__).parent / "schemas"

_ERROR = re.compile(
    r"error (?P<code>[A-Z][A-Z0-9-]*)(?: (?P<reason>(?!at |contains )[a-z0-9_]+))?"
    r"(?: at (?P<line>[0-9]+):(?P<column>[0-9]+))?(?P<contains>(?: contains \"[^\"]+\")*)"
)
_SELECTION = re.compile(r"selection (?P<reason>[a-z_]+)(?P<contains>(?: contains \"[^\"]+\")*)")
_CONTAINS = re.compile(r" contains \"([^\"]+)\"")
_PARAMS = re.compile(r"\((.*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One `expect error` or `expect selection`; a part that is not written is not compared."""

    code: str
    reason: str | None
    place: tuple[int, int] | None
    contains: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One finding of a compiler, its line counted as the case counts it."""

    code: str
    reason: str
    message: str
    line: int
    column: int
    start: int
    end: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.code} {self.reason} at {self.line}:{self.column} — {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A source to compile and how many lines the runner put before it."""

    data: bytes
    lines_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What compiling a case gave: findings of one source, or everything that was compiled."""

    source: Text
    found: tuple[Found, ...] = ()
    catalog: Catalog | None = None
    queries: tuple[CompiledQuery, ...] = ()


def expectations(case: Case) -> tuple[Expected, ...]:
    """The findings that the case expects; empty when it is accepted.

    Raises:
        CorpusError: an expectation that is not one.
    """
    sections = case.all("expect")
    if [item.argument for item in sections] == ["accepted"]:
        return ()
    return tuple(_expected(case, item) for item in sections)


def _expected(case: Case, section: Section) -> Expected:
    error = _ERROR.fullmatch(section.argument)
    if error is not None:
        place = (int(error["line"]), int(error["column"])) if error["line"] else None
        return Expected(
            code=error["code"],
            reason=error["reason"],
            place=place,
            contains=tuple(_CONTAINS.findall(error["contains"])),
        )
    selection = _SELECTION.fullmatch(section.argument)
    if selection is None:
        raise CorpusError(f"{case.path}:{section.line}: unreadable `expect {section.argument}`")
    return Expected(
        code="selection",
        reason=selection["reason"],
        place=None,
        contains=tuple(_CONTAINS.findall(selection["contains"])),
    )


def schema_text(section: Section) -> Text:
    """The schema of a section, inline or by reference."""
    if section.reference:
        return Text(data=(SCHEMAS / f"{section.argument}.pg").read_bytes())
    return Text(data=section.source())


def query_text(case: Case) -> Text | None:
    """The query source of a case, wrapped if the case gives only a part of it."""
    whole, body, clauses = (case.section(name) for name in ("query", "body", "match"))
    if sum(item is not None for item in (whole, body, clauses)) > 1:
        raise CorpusError(f"{case.place}: give one of `query`, `body` and `match`")
    if whole is not None:
        return Text(data=whole.source())
    if body is not None:
        return _wrapped(case, body, "query q({}) {{\n", "\n}")
    if clauses is not None:
        return _wrapped(case, clauses, "query q({}) {{ match {{\n", "\n} return { 1 as one } }")
    return None


def _wrapped(case: Case, section: Section, before: str, after: str) -> Text:
    params = _PARAMS.fullmatch(section.argument or "()")
    if params is None:
        raise CorpusError(f"{case.path}:{section.line}: parameters are written `($a: String)`")
    return Text(data=(before.format(params[1]) + section.text + after).encode(), lines_before=1)


def compile_case(case: Case) -> Outcome:
    """Compile the schema of the case, then every query of it, or the selected one."""
    section = case.section("schema")
    schema = Text(data=b"") if section is None else schema_text(section)
    query = query_text(case)
    try:
        catalog = compile_schema(schema.data)
    except SchemaInvalid as error:
        return Outcome(source=schema, found=_findings(error, schema))
    if query is None:
        return Outcome(source=schema, catalog=catalog)
    return _compile_queries(case, catalog, query)


def _compile_queries(case: Case, catalog: Catalog, source: Text) -> Outcome:
    select = case.section("select")
    try:
        if select is not None:
            names = [None if select.argument == "(none)" else select.argument]
        else:
            names = [query.name for query in parse_query_file(source.data)]
    except QueryInvalid as error:
        return Outcome(source=source, found=_findings(error, source))
    found: list[Found] = []
    compiled: list[CompiledQuery] = []
    for name in names:
        try:
            compiled.append(compile_query(catalog, source.data, name))
        except QueryInvalid as error:
            found += _findings(error, source)
        except QuerySelectionError as error:
            found.append(_selection(error))
    return Outcome(source=source, found=tuple(found), catalog=catalog, queries=tuple(compiled))


def _selection(error: QuerySelectionError) -> Found:
    return Found(
        code="selection",
        reason=str(error.details["reason"]),
        message=f"selection: {error}",
        line=1,
        column=1,
        start=0,
        end=1,
        end_line=1,
        end_column=2,
    )


def _findings(error: SchemaInvalid | QueryInvalid, source: Text) -> tuple[Found, ...]:
    rows = error.details["diagnostics"]
    assert isinstance(rows, list)
    assert error.details["total"] == len(rows)
    return tuple(_finding(row, source) for row in rows)


def _finding(row: object, source: Text) -> Found:
    assert isinstance(row, dict)
    assert set(row) == {"code", "reason", "message", "span"}
    span = row["span"]
    assert isinstance(span, dict)
    return Found(
        code=str(row["code"]),
        reason=str(row["reason"]),
        message=str(row["message"]),
        line=int(span["line"]) - source.lines_before,
        column=int(span["column"]),
        start=int(span["start"]),
        end=int(span["end"]),
        end_line=int(span["end_line"]) - source.lines_before,
        end_column=int(span["end_column"]),
    )
