"""Key columns of rows, as the checks across rows compare them: text, and nothing else.

Besides `id` (and `src` and `dst` of an edge) there is one column for each `@unique`: the canonical
spelling of the tuple, null where a member is. Text compares in Spark as it does here, byte by byte,
and Spark lacks some of the types of a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.graph.arrays import one_array
from omnigraph.graph.validation.spelling import render_ids
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.lang.types import STRING

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACE: Final = "place"
"""Where a row stands in the input: the split in the upper bits, the line within it below."""

LINE_BITS: Final = 40


def unique_tuples(item: NodeType | EdgeType) -> list[tuple[str, ...]]:
    """The `@unique` constraints that the id does not stand for, in their order."""
    key = item.key if isinstance(item, NodeType) else None
    return [tuple(names) for names in item.unique if tuple(names) != key]


def tuple_column(number: int) -> str:
    """The column of a `@unique`, counted from 0."""
    return f"unique_{number}"


def key_schema(item: NodeType | EdgeType) -> pa.Schema:
    """The key columns of a type, with the place."""
    names = ["id", *(("src", "dst") if isinstance(item, EdgeType) else ())]
    names += [tuple_column(number) for number in range(len(unique_tuples(item)))]
    kinds: dict[str, pa.DataType] = dict.fromkeys(names, pa.string())
    return pa.schema({**kinds, PLACE: pa.int64()})


def stored_names(item: NodeType | EdgeType) -> list[str]:
    """The columns of a table that checks across rows look at."""
    names = ["id", *(("src", "dst") if isinstance(item, EdgeType) else ())]
    names += (item.key if isinstance(item, NodeType) else None) or ()
    for members in unique_tuples(item):
        names += [name for name in members if name not in names]
    return names


def key_batch(item: NodeType | EdgeType, rows: pa.Table) -> pa.RecordBatch:
    """The key columns of rows that have the stored ones and their places."""
    columns: list[pa.Array[Any]] = [  # Any: texts and one column of numbers
        _tuple(item, rows, (name,))
        for name in ("id", *(("src", "dst") if isinstance(item, EdgeType) else ()))
    ]
    columns += [_tuple(item, rows, names) for names in unique_tuples(item)]
    columns.append(one_array(rows[PLACE]))
    return pa.RecordBatch.from_arrays(columns, schema=key_schema(item))


def _tuple(
    item: NodeType | EdgeType, rows: pa.Table, names: Sequence[str]
) -> pa.Array[Any]:  # Any: as above
    kinds = [item.properties[name].type if name in item.properties else STRING for name in names]
    return render_ids([one_array(rows[name]) for name in names], kinds)
