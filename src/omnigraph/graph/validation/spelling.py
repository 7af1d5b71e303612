"""Canonical spellings of whole columns, ids of keyed nodes, and values as messages show them.

Equal, value by value, to `omnigraph.lang.keys`; only faster.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import texts
from omnigraph.graph.validation.violation import Shown, cut_value, shown
from omnigraph.lang.keys import spell_key
from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import format_date, format_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.errors import JsonValue
    from omnigraph.graph.arrays import Column

_ESCAPED: Final = r'["\\\x00-\x1f]'


def spell_column(values: Column, kind: PropType) -> Column:
    """The canonical spelling of each value of a stored column; null stays null."""
    match kind.scalar:
        case Scalar.STRING:
            return values
        case Scalar.DATE:
            return values.view(pa.int32()).cast(pa.utf8())
        case Scalar.DATETIME:
            return values.view(pa.int64()).cast(pa.utf8())
        case Scalar.F32 | Scalar.F64:
            return _spell_distinct(values, kind)
        case _:
            return values.cast(pa.utf8())


def _spell_distinct(values: Column, kind: PropType) -> Column:
    known = values.unique()
    spelled = texts(None if one is None else spell_key(one, kind) for one in known.to_pylist())
    return spelled.take(pc.index_in(values, value_set=known))


def render_ids(members: Sequence[Column], kinds: Sequence[PropType]) -> Column:
    """The id of each keyed node; null where a member is."""
    spelled = [spell_column(member, kind) for member, kind in zip(members, kinds, strict=True)]
    if len(spelled) == 1:
        return spelled[0]
    pieces: list[Column | pa.StringScalar] = []
    for member in spelled:
        pieces += [pa.scalar('","' if pieces else '["'), _json_escaped(member)]
    # The last argument is the separator.
    joined: Column = pc.call_function(
        "binary_join_element_wise", [*pieces, pa.scalar('"]'), pa.scalar("")]
    )
    return joined


def _json_escaped(values: Column) -> Column:
    needs = pc.match_substring_regex(values, _ESCAPED)
    if not pc.any(needs).as_py():
        return values
    return texts(
        None if one is None else json.dumps(one, ensure_ascii=False)[1:-1]
        for one in values.to_pylist()
    )


StoredValue: TypeAlias = bool | int | float | str


def stored_value(values: Column, at: int, kind: PropType) -> StoredValue:
    """One value of a stored column as `lang` holds it: epoch numbers for Date and DateTime."""
    if kind.scalar is Scalar.DATE:
        values = values.view(pa.int32())
    elif kind.scalar is Scalar.DATETIME:
        values = values.view(pa.int64())
    return cast("StoredValue", values[at].as_py())  # cast: the column has the type of `kind`


def show_value(value: StoredValue, kind: PropType) -> Shown:
    """A stored value, as the canonical spelling and as its JSON form."""
    return Shown(text=shown(spell_key(value, kind)), json=_json_value(value, kind))


def _json_value(value: StoredValue, kind: PropType) -> JsonValue:
    if isinstance(value, str):
        return cut_value(value)
    if kind.scalar is Scalar.DATE:
        return format_date(int(value))
    if kind.scalar is Scalar.DATETIME:
        return format_datetime(int(value))
    return value
