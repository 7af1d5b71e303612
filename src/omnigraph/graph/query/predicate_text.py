"""A condition of the query language as text: what a raw scan filters by."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InvalidArgument, QueryInvalid, QuerySelectionError
from omnigraph.graph.query.pushdown import ALWAYS, NEVER, push_filters
from omnigraph.lang import compile_query, ir
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.ir_parts import operands_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.errors import JsonValue
    from omnigraph.lang import Catalog, EdgeType
    from omnigraph.storage.predicates import Predicate

_QUERY: Final = "filter"
_OWNED: Final = re.compile(r"(\$?\w+)\s*\.\s*(\w+)")
"""A property behind a type or a variable."""
_WORDS: Final = {
    "cannot stand in a mutation": "cannot stand in a filter",
    "; there is no `where` in `match`; write the condition alone": "",
    "`where` compares": "a filter compares",
    "`where` of a mutation takes no": "a filter takes no",
    "`where` of a mutation looks at": "a filter looks at",
    "is no declared parameter; a value here is a literal, a parameter or `now()`": (
        "is a parameter, and a filter has none; write the value"
    ),
    "in `where`": "in a filter",
}
"""Words of diagnostics that speak of the statement around a filter, which nobody wrote."""
_STATEMENT_ENDS: Final = re.compile(r"; expected one of [^;]*`delete`.*", re.DOTALL)
"""Of what might follow the statement, none might follow a filter."""


def compile_predicate(catalog: Catalog, item: NodeType | EdgeType, text: str) -> Predicate:
    """The predicate that a text such as `age > 30` means for a type.

    It is checked as the `where` of a `delete` is: a condition on properties and `id`, of an edge
    also on `from` and `to`, each compared with literals.

    Raises:
        QueryInvalid: it does not parse or check.
        InvalidArgument: it is no such condition, or compares two properties.
    """
    _require_text(text)
    before = f"query {_QUERY}() {{ delete {item.name} where "
    try:
        compiled = compile_query(catalog, f"{before}{text} }}", path=_QUERY)
    except QueryInvalid as error:
        raise _told_of_filter(error, text, len(before)) from error
    except QuerySelectionError as error:
        raise _not_one(text) from error
    kind = ir.EntityKind.NODE if isinstance(item, NodeType) else ir.EntityKind.EDGE
    match compiled.ir:
        case ir.MutationIR(ops=(ir.Delete(where=where) as op,)) if op.kind is kind:
            if any(isinstance(expr, ir.Param) for expr in operands_of(where)):
                # A scan has no request whose time it could be.
                raise InvalidArgument(
                    f"the filter {text!r} has `now()`, and a filter compares with values: write the"
                    ' time, as datetime("2024-05-31T09:30:00Z")',
                    argument="filter",
                )
            pushed = push_filters([where], {})
            if pushed.rest:
                raise _not_one(text)
            return NEVER if pushed.is_never else pushed.predicate or ALWAYS
        case _:
            raise _not_one(text)


def _require_text(text: object) -> None:
    """Refuse what is no text, and a text of nothing.

    Raises:
        InvalidArgument: with what to do instead.
    """
    if not isinstance(text, str):
        raise InvalidArgument(
            f"a filter is a condition as text, as 'age > 30', and not a {type(text).__name__}; a"
            " column of Spark filters the frame: `.where(…)`",
            argument="filter",
        )
    if not text.strip():
        raise InvalidArgument(
            "the filter is empty; leave it out to have every row", argument="filter"
        )


def _told_of_filter(error: QueryInvalid, text: str, before: int) -> QueryInvalid | InvalidArgument:
    """The error as one of the filter: nobody wrote the statement around it."""
    known = error.details.get("diagnostics")
    listed = [each for each in known if isinstance(each, dict)] if isinstance(known, list) else []
    told = [_shifted(each, text, before) for each in listed]
    if any("the end of the file" in str(each["message"]) for each in told):
        return _not_one(text)
    messages = "; ".join(str(each["message"]) for each in told)
    diagnostics: list[JsonValue] = [*told]
    details = {**error.details, "diagnostics": diagnostics}
    return QueryInvalid(f"the filter {text!r}: {messages}", **details)


def _shifted(diagnostic: Mapping[str, JsonValue], text: str, before: int) -> dict[str, JsonValue]:
    """A diagnostic with the place that it has in the filter."""
    span, message = diagnostic.get("span"), str(diagnostic.get("message"))
    if not isinstance(span, dict):
        return {**diagnostic, "message": message}
    start, end = (
        min(max(int(str(span[name])) - before, 0), len(text)) for name in ("start", "end")
    )
    if start == len(text):
        message = message.replace("unexpected `}`", "it ends too early")
    for words, ours in _WORDS.items():
        message = message.replace(words, ours)
    message = _STATEMENT_ENDS.sub("; the condition ends before it", message)
    owned = (each for each in _OWNED.finditer(text) if each.start() <= start < each.end())
    for each in owned:
        message = f"unexpected `{each[1]}`; a property stands alone: `{each[2]}`"
    return {**diagnostic, "message": message, "span": {"start": start, "end": end}}


def _not_one(text: str) -> InvalidArgument:
    return InvalidArgument(
        "a filter is a condition that compares properties with values, as `age > 30`;"
        f" {text!r} is something else",
        argument="filter",
    )
