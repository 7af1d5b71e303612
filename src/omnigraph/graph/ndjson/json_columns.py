"""The values of a column as JSON texts, written by Arrow where it spells what JSON does.

The texts are those that the encoder of JSON gives for the values one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.results.values import json_values
from omnigraph.lang.types import Scalar

if TYPE_CHECKING:
    from omnigraph.graph.results.values import ColumnValues
    from omnigraph.lang.types import PropType

JsonTexts: TypeAlias = "pa.Array[Any]"  # Any: texts, which Arrow's types call a scalar

_ENCODER: Final = msgspec.json.Encoder()
_QUOTE: Final = pa.scalar('"')
_NOTHING: Final = pa.scalar("")
_IS_ESCAPED: Final = np.array([byte < 0x20 or byte in b'"\\' for byte in range(256)])
"""Which bytes JSON cannot write into a text as they are."""


def json_texts(values: ColumnValues, kind: PropType) -> JsonTexts:
    """Each value as JSON; null as null."""
    if kind.is_list:
        return _encoded(values, kind)
    match kind.scalar:
        case Scalar.BOOL | Scalar.I32 | Scalar.U32 | Scalar.I64 | Scalar.U64:
            return _as_texts(values)
        case Scalar.STRING:
            texts = _as_texts(values)
            return _encoded(values, kind) if _needs_escapes(texts) else _quoted(texts)
        case Scalar.DATE:
            return _quoted(_as_texts(values))
        case Scalar.DATETIME:
            # Without the zone Arrow writes the same digits, thirty times faster.
            texts = _as_texts(values.cast(pa.timestamp("ms")))
            return _join(_QUOTE, pc.replace_substring(texts, " ", "T"), pa.scalar('Z"'))
        case _:
            return _encoded(values, kind)


def joined(*texts: str | JsonTexts) -> bytes:
    """Rows of texts end to end; one text stands for the same in every row, and null is `null`."""
    parts = [pa.scalar(text) if isinstance(text, str) else text for text in texts]
    return _content(_join(*parts, null="null")).to_pybytes()


def _join(*parts: pa.Scalar[Any] | JsonTexts, null: str | None = None) -> JsonTexts:  # Any: texts
    """The parts of each row end to end; a row with a null is null, unless `null` stands for it."""
    # Any: the stubs know one of the two words
    handling: Any = "emit_null" if null is None else "replace"
    options = pc.JoinOptions(handling, null or "")
    rows: JsonTexts = pc.call_function("binary_join_element_wise", [*parts, _NOTHING], options)
    return rows


def _as_texts(values: ColumnValues) -> JsonTexts:
    return values.cast(pa.utf8()).combine_chunks()


def _quoted(texts: JsonTexts) -> JsonTexts:
    return _join(_QUOTE, texts, _QUOTE)


def _encoded(values: ColumnValues, kind: PropType) -> JsonTexts:
    texts = _ENCODER.encode_lines(json_values(values, kind)).decode().split("\n")
    texts.pop()
    return pa.array(texts, pa.utf8())


def _needs_escapes(texts: JsonTexts) -> bool:
    return bool(_IS_ESCAPED[np.frombuffer(memoryview(_content(texts)), np.uint8)].any())


def _content(texts: JsonTexts) -> pa.Buffer:
    """The bytes of all texts, end to end."""
    _, offsets, content = texts.buffers()
    if not len(texts) or offsets is None or content is None:
        return pa.py_buffer(b"")
    bounds = np.frombuffer(memoryview(offsets), np.int32)
    start, end = int(bounds[texts.offset]), int(bounds[texts.offset + len(texts)])
    return content.slice(start, end - start)
