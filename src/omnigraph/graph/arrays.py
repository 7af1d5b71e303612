"""Arrow columns as NumPy numbers and back: the few conversions that walks and groups need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]
    RowIds: TypeAlias = NDArray[np.uint64]
    Mask: TypeAlias = NDArray[np.bool_]
    Floats: TypeAlias = NDArray[np.float64]
    Values: TypeAlias = pa.Array[pa.Scalar[pa.DataType]]
    Ids: TypeAlias = pa.Array[pa.StringScalar]


def one_array(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Values:
    """A column of any type as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        found: Any = column.chunk(0)  # Any: the stubs take a chunk for a chunked array
    else:
        found = pa.concat_arrays([pa.array([], column.type), *column.chunks])
    return cast("Values", found)


def text_array(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Ids:
    """A column of texts as one array."""
    return pa.array(one_array(column), pa.string())


def row_ids_of(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> RowIds:
    """A column of row ids, none of which is null."""
    return np.asarray(one_array(column).to_numpy(zero_copy_only=False), np.uint64)


def mask_of(truths: Any) -> Mask:  # noqa: ANN401 - what any kernel returned: booleans and nulls
    """Whether each is true; null is not."""
    filled = pc.fill_null(truths, False)  # noqa: FBT003 - the value that null becomes
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def is_given(values: Values) -> Mask:
    """Whether each is not null."""
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def encode(values: Values) -> tuple[Values, Numbers]:
    """The distinct values, and for each given one its place among them; -1 for null."""
    encoded: Any = pc.dictionary_encode(values)  # Any: a dictionary array, whatever it holds
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    return encoded.dictionary, np.asarray(codes, np.int64)


def places_in(values: Values, among: Values) -> Numbers:
    """For each value its place among distinct ones, or -1."""
    found: Any = pc.index_in(values, value_set=among)  # Any: an array of places and nulls
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def ascending(values: Values) -> Numbers:
    """The places of the values from the smallest to the largest; nulls last."""
    return np.asarray(pc.sort_indices(values).to_numpy(), np.int64)


def flat_vectors(vectors: Values) -> NDArray[np.float32]:
    """The parts of all vectors that are not null, one after the other."""
    parts: Any = vectors  # Any: a fixed-size list array
    return np.asarray(parts.flatten().to_numpy(zero_copy_only=False), np.float32)
