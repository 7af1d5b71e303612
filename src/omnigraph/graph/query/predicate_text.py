"""One predicate of the query language as text: what a raw scan filters by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument, QuerySelectionError
from omnigraph.graph.query.pushdown import predicate_of
from omnigraph.lang import compile_query, ir
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import STRING

if TYPE_CHECKING:
    from omnigraph.lang import Catalog, EdgeType
    from omnigraph.storage.predicates import Predicate

_QUERY = "filter"


def compile_predicate(catalog: Catalog, item: NodeType | EdgeType, text: str) -> Predicate:
    """The predicate that a text such as `age > 30` means for a type.

    It is checked as the predicate of a `delete` is: one comparison of a property with a literal; of
    an edge also `from` and `to`.

    Raises:
        QueryInvalid: it does not parse or check.
        InvalidArgument: it is more than one predicate.
    """
    source = f"query {_QUERY}() {{ delete {item.name} where {text} }}"
    try:
        compiled = compile_query(catalog, source, path=_QUERY)
    except QuerySelectionError as error:
        raise _not_one(text) from error
    kind = ir.EntityKind.NODE if isinstance(item, NodeType) else ir.EntityKind.EDGE
    match compiled.ir:
        case ir.MutationIR(ops=(ir.Delete(pred=pred) as op,)) if op.kind is kind:
            declared = item.properties.get(pred.property)
            return predicate_of(pred, STRING if declared is None else declared.type)
        case _:
            raise _not_one(text)


def _not_one(text: str) -> InvalidArgument:
    return InvalidArgument(
        f"a filter is one comparison of a property with a value, as `age > 30`; {text!r} is"
        " something else",
        argument="filter",
    )
