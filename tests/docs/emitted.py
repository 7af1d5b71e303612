"""Every code and reason that the compilers can emit, read from their source.

A finding is recorded by `add(code, reason, detail, extent)` or `report(code, reason, …)`, and in
the query parser by `report(reason, detail, extent)` with code Q000. Where code or reason is not
written at the call, `COMPUTED` says what it can be; a new call of that kind fails the test until it
is listed there.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.markdown import ROOT

Pair = tuple[str, str]
LANG = ROOT / "src" / "omnigraph" / "lang"
_PLAN_OR_LINT_CODE = re.compile(r"L[0-9]{3}|OG-[A-Z]{2}-[0-9]{3}")
_ERRORS_WITH_REASON = frozenset({"ParameterError", "QuerySelectionError"})

COMPUTED: dict[str, frozenset[Pair]] = {
    "match_check.bind": frozenset(
        {
            ("T25", "anonymous_bound"),
            ("T25", "parameter_rebound"),
            ("T25", "variable_rebound"),
        }
    ),
    "mutation_check._unfit": frozenset({("T3", "assignment_type"), ("T7", "assignment_type")}),
    "schema_constraints.all_fit": frozenset(
        {("S012", "key_type"), ("S013", "unique_type"), ("S013", "index_type")}
    ),
    "schema_constraints.read_range": frozenset({("S014", "range_type"), ("S014", "range_bounds")}),
    "search_calls._check_text": frozenset(
        {
            (code, reason)
            for code in ("T19", "T20")
            for reason in ("search_field_type", "search_query_type")
        }
    ),
}


@dataclass(slots=True)
class Emitted:
    """What the source can emit, and the calls that need a line in `COMPUTED`."""

    pairs: set[Pair] = field(default_factory=set)
    codes: set[str] = field(default_factory=set)
    """Codes that have no reason: those of lint and of the migration planner."""
    details: set[Pair] = field(default_factory=set)
    """Code of an error class, and the `reason` in its details."""
    computed: set[str] = field(default_factory=set)


def collect_emitted() -> Emitted:
    """Walk every module of `lang/`."""
    out = Emitted()
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in _modules()}
    syntax_codes = {
        keyword.value.value
        for tree in trees.values()
        for call in _calls(tree)
        for keyword in call.keywords
        if keyword.arg == "syntax_code"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if _PLAN_OR_LINT_CODE.fullmatch(node.value):
                    out.codes.add(node.value)
            elif isinstance(node, ast.FunctionDef):
                _Calls(out, module, node, syntax_codes).collect()
    return out


def _modules() -> list[Path]:
    return sorted(LANG.rglob("*.py"))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@dataclass(slots=True)
class _Calls:
    out: Emitted
    module: str
    function: ast.FunctionDef
    syntax_codes: set[str]

    def collect(self) -> None:
        for call in _calls(self.function):
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("add", "report"):
                self.finding(call)
            elif isinstance(call.func, ast.Name) and call.func.id in _ERRORS_WITH_REASON:
                self.error(call)

    def finding(self, call: ast.Call) -> None:
        match call.args:
            case [code, reason, _, _]:
                self.pair(code, reason)
            case [_, ast.Starred(), _]:
                self.out.computed.add(self.place)
            case [reason, _, _] if self.module == "query_parser":
                self.pair(ast.Constant("Q000"), reason)

    def pair(self, code: ast.expr, reason: ast.expr) -> None:
        codes, reasons = self.values(code), self.values(reason)
        if codes is not None and reasons is not None:
            self.out.pairs |= {(code, reason) for code in codes for reason in reasons}
        elif not self.forwards(reason):
            self.out.computed.add(self.place)

    @property
    def place(self) -> str:
        return f"{self.module}.{self.function.name}"

    def forwards(self, reason: ast.expr) -> bool:
        """A wrapper that hands its own `reason` on; its callers are collected instead."""
        names = [argument.arg for argument in self.function.args.args]
        return isinstance(reason, ast.Name) and reason.id == "reason" and "reason" in names

    def values(self, expr: ast.expr) -> set[str] | None:
        """The texts an expression can be, when that can be seen from the expression alone."""
        match expr:
            case ast.Constant(value=str() as text):
                return {text}
            case ast.Attribute(attr="syntax_code"):
                return self.syntax_codes
            case ast.IfExp(body=body, orelse=orelse):
                first, second = self.values(body), self.values(orelse)
                return None if first is None or second is None else first | second
            case _:
                return None

    def error(self, call: ast.Call) -> None:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        code = {"ParameterError": "parameter_error", "QuerySelectionError": "query_selection"}[name]
        for keyword in call.keywords:
            if keyword.arg == "reason":
                values = self.values(keyword.value)
                if values is None:
                    raise ValueError(f"{self.place}: the reason of {name} is not written at it")
                self.out.details |= {(code, reason) for reason in values}
