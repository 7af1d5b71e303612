"""What search calls are asked with: query vectors, edits, texts of a property without an index.

Both executors take them from here, so a call that one refuses is refused by the other alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from omnigraph.errors import InvalidArgument
from omnigraph.graph.arrays import text_array
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.graph.query.vectors import query_vector
from omnigraph.lang.search_calls import DEFAULT_MAX_EDITS
from omnigraph.storage.reading import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.arrays import Floats, Ids
    from omnigraph.lang import EdgeType, NodeType, ir

    EmbedQuery: TypeAlias = Callable[[NodeType | EdgeType, str, str], Floats]

MAX_FUZZY_EDITS = 2


def asked_vector(
    call: ir.Nearest,
    item: NodeType | EdgeType,
    params: Mapping[str, object],
    embed: EmbedQuery,
) -> Floats | None:
    """The query vector of a call, a text embedded; `None`: the query is null.

    Raises:
        InvalidQueryVector: it has no direction.
    """
    query = constant_value(call.query, params)
    where = f"{item.name}.{call.property}"
    if query is None:
        return None
    if isinstance(query, str):
        return query_vector(embed(item, call.property, query).tolist(), where)
    return query_vector(query, where)  # type: ignore[arg-type]  # checked


def asked_edits(call: ir.Fuzzy, params: Mapping[str, object]) -> int:
    """How many edits a call allows.

    Raises:
        InvalidArgument: too many, or fewer than none.
    """
    edits = constant_value(call.max_edits, params)
    edits = DEFAULT_MAX_EDITS if edits is None else edits
    if not isinstance(edits, int) or not 0 <= edits <= MAX_FUZZY_EDITS:
        raise InvalidArgument(
            f"fuzzy allows 0 to {MAX_FUZZY_EDITS} edits, not {edits}", argument="max_edits"
        )
    return edits


def asked_k(call: ir.Rrf, params: Mapping[str, object]) -> float:
    """The constant of a fusion.

    Raises:
        InvalidArgument: it is no number above 0.
    """
    k = constant_value(call.k, params)
    if not isinstance(k, int | float) or k <= 0:
        raise InvalidArgument(f"the k of rrf is a number above 0, not {k!r}", argument="k")
    return k


def texts_to_index(rows: pa.Table, name: str) -> tuple[Ids, Ids]:
    """Of rows with row ids, those with a text: the row ids, as texts, and the texts."""
    given = rows.filter(rows[name].is_valid())
    return text_array(given[ROW_ID].cast(pa.string())), text_array(given[name])
