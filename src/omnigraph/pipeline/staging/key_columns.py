"""Key columns of rows, as the checks across rows compare them: text, and nothing else.

Besides `id` (and `src` and `dst` of an edge) there is one column for each `@unique`: the canonical
spelling of the tuple, null where a member is. Text compares in Spark as it does here, byte by byte,
and Spark lacks some of the types of a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from omnigraph.graph.arrays import one_array
from omnigraph.graph.validation.relation_rules import ENDPOINTS, member_kinds, unique_rules
from omnigraph.graph.validation.spelling import render_ids
from omnigraph.lang.catalog import EdgeType

if TYPE_CHECKING:
    from omnigraph.graph.validation.relation_rules import UniqueRule
    from omnigraph.lang.catalog import NodeType

PLACE: Final = "place"
"""The column of the packed `InputPlace` of each row."""

NO_PLACE: Final = -1
"""What stands there for a committed row."""


def key_column(rule: UniqueRule) -> str:
    """The column that holds the tuples of a rule."""
    return "id" if rule.is_identity else f"unique_{rule.place}"


def key_schema(item: NodeType | EdgeType) -> pa.Schema:
    """The key columns of a type, with the place."""
    kinds: dict[str, pa.DataType] = dict.fromkeys(_tuples(item), pa.string())
    return pa.schema({**kinds, PLACE: pa.int64()})


def key_batch(item: NodeType | EdgeType, rows: pa.Table) -> pa.RecordBatch:
    """The key columns of rows that have the stored ones and their places."""
    columns: list[pa.Array[Any]] = [  # Any: texts and one column of numbers
        render_ids([one_array(rows[name]) for name in names], member_kinds(item, names))
        for names in _tuples(item).values()
    ]
    columns.append(one_array(rows[PLACE]))
    return pa.RecordBatch.from_arrays(columns, schema=key_schema(item))


def _tuples(item: NodeType | EdgeType) -> dict[str, tuple[str, ...]]:
    """The key columns of a type but the place, and which stored columns each is made of."""
    names = ("id", *(ENDPOINTS if isinstance(item, EdgeType) else ()))
    declared = [rule for rule in unique_rules(item) if not rule.is_identity]
    return {
        **{name: (name,) for name in names},
        **{key_column(rule): rule.names for rule in declared},
    }
