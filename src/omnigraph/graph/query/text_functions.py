"""Functions of texts, one meaning for both executors: letter by letter, as Arrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.lang.ir import ValueFunc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SHARP_S: Final = "\u00df"


def _upper(texts: Any) -> Any:  # noqa: ANN401 - an array of texts
    """Capitals, letter by letter: what has no single one stays as it is.

    Arrow takes the capital that the German sharp s was given later for its mapping, Unicode none.
    """
    if not pc.any(pc.match_substring(texts, _SHARP_S), min_count=0).as_py():
        return pc.utf8_upper(texts)
    parts: Any = pc.split_pattern(texts, _SHARP_S)  # Any: lists of texts
    capitals = pa.ListArray.from_arrays(
        parts.offsets, pc.utf8_upper(parts.values), mask=parts.is_null()
    )
    return pc.binary_join(capitals, _SHARP_S)


TEXT_FUNCTIONS: Final[Mapping[ValueFunc, Callable[[Any], Any]]] = {  # Any: arrays of texts
    ValueFunc.LOWER: pc.utf8_lower,
    ValueFunc.UPPER: _upper,
    ValueFunc.TRIM: pc.utf8_trim_whitespace,
}
