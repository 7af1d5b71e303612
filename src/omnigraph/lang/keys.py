"""Ids of keyed nodes: the one renderer of key values to text, for every write path."""

import json
import math
from collections.abc import Sequence

from omnigraph.lang.types import PropType, Scalar
from omnigraph.lang.values import UnfitValue, positional


def spell_key(value: object, kind: PropType) -> str:
    """The canonical spelling of one typed key value.

    Raises:
        UnfitValue: null, a non-finite float, or a value that its type does not hold.
    """
    match value:
        case None:
            raise UnfitValue(f"a key value of type {kind} is null")
        case bool():
            if kind.scalar is Scalar.BOOL:
                return "true" if value else "false"
            raise UnfitValue(f"a key value of type {kind} cannot be a boolean")
        case str() if kind.scalar is Scalar.STRING:
            return value
        case float() | int() if kind.scalar.is_float:
            if not math.isfinite(value):
                raise UnfitValue(f"{value} cannot be a key; it is not finite")
            return positional(float(value), single=kind.scalar is Scalar.F32)
        case int() if kind.scalar.is_integer or kind.scalar in (Scalar.DATE, Scalar.DATETIME):
            return str(value)
        case _:
            raise UnfitValue(f"a key value of type {kind} cannot be {type(value).__name__}")


def render_key(values: Sequence[object], kinds: Sequence[PropType]) -> str:
    """The id of a node from its key values, members in stable order.

    One member is its spelling; several are a compact JSON array of the spellings.

    Raises:
        UnfitValue: a member is null or not finite.
    """
    spellings = [spell_key(value, kind) for value, kind in zip(values, kinds, strict=True)]
    if len(spellings) == 1:
        return spellings[0]
    return json.dumps(spellings, ensure_ascii=False, separators=(",", ":"))
