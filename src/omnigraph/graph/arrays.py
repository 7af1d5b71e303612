"""Arrow columns and NumPy numbers and masks: conversions, and the few operations on sets of values.

A mask is never null: unknown counts as false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Numbers: TypeAlias = npt.NDArray[np.int64]
Positions: TypeAlias = npt.NDArray[np.int64]
RowIds: TypeAlias = npt.NDArray[np.uint64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Values: TypeAlias = "pa.Array[pa.Scalar[pa.DataType]]"
Ids: TypeAlias = "pa.Array[pa.StringScalar]"
_TRIED: Final = 1_000

Column: TypeAlias = "pa.Array[Any]"  # Any: the type of a column is known at run time only
Columns: TypeAlias = "pa.ChunkedArray[Any]"  # Any: as above


def one_array(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> Values:
    """A column of any type as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        array: Any = column.chunk(0)  # Any: the stubs take a chunk for a chunked array
    else:
        array = pa.concat_arrays([pa.array([], column.type), *column.chunks])
    return cast("Values", array)


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


def is_given(values: Column) -> Mask:
    """Whether each is not null."""
    if values.null_count == 0:
        return np.ones(len(values), np.bool_)
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def encode(values: Values) -> tuple[Values, Numbers]:
    """The distinct values, and for each given one its place among them; -1 for null."""
    encoded: Any = pc.dictionary_encode(values)  # Any: a dictionary array, whatever it holds
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    return encoded.dictionary, np.asarray(codes, np.int64)


def equality_codes(values: Values) -> Numbers:
    """Numbers that are equal where the values are; -1 for null.

    Lists and vectors are equal item by item; a null item equals another one, zero minus zero.
    """
    kind = values.type
    if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)):
        return encode(values)[1]
    lists: Any = values  # Any: an array of lists
    # A list is the bytes of the numbers of its items.
    numbers = encode(plus_zero(pc.list_flatten(lists)))[1]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), ends]) * numbers.itemsize
    spelt = pa.Array.from_buffers(
        pa.large_binary(),
        len(values),
        [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(numbers.tobytes())],
    )
    return np.where(is_given(values), encode(spelt)[1], -1)


def plus_zero(values: Column) -> Column:
    """The values with one zero: Arrow, and a table, compare floats by their bits."""
    if not pa.types.is_floating(values.type):
        return values
    zero: Any = pa.scalar(0.0, values.type)  # Any: the stubs list each kind of float by itself
    return cast("Column", pc.add(values, zero))


def places_in(values: Values, among: Values) -> Numbers:
    """For each value its place among distinct ones, or -1."""
    places: Any = pc.index_in(values, value_set=among)  # Any: an array of places and nulls
    return np.asarray(pc.fill_null(places, -1).to_numpy(), np.int64)


def ascending(values: Values) -> Numbers:
    """The places of the values from the smallest to the largest; nulls last."""
    return np.asarray(pc.sort_indices(values).to_numpy(), np.int64)


def ascending_union(parts: Iterable[Ids]) -> Ids:
    """The ids that stand in any of the arrays, each once, from the smallest to the largest."""
    ids = pa.concat_arrays([no_texts(), *parts]).unique()
    return ids.take(pa.array(ascending(ids), pa.int64()))


def flat_vectors(vectors: Values) -> npt.NDArray[np.float32]:
    """The parts of all vectors that are not null, one after the other."""
    parts: Any = vectors  # Any: a fixed-size list array
    return np.asarray(parts.flatten().to_numpy(zero_copy_only=False), np.float32)


def column(table: pa.Table, name: str) -> Column:
    """A column of a table as one array."""
    return one_array(table.column(name))


def texts(values: Iterable[str | None]) -> Column:
    """A text array."""
    return pa.array(list(values), pa.utf8())


def no_texts() -> Column:
    """The empty text array."""
    return texts(())


def filled(values: Column, value: pa.Scalar[Any]) -> Column:  # Any: as above
    """The values with `value` in place of null."""
    # cast: the stubs give the union of arrays and scalars.
    return cast("Column", pc.coalesce(values, value))


def nulls(count: int, kind: pa.DataType) -> Column:
    """A column of nulls."""
    return pa.array([], kind) if count == 0 else pa.nulls(count, kind)  # type: ignore[call-overload]  # the stubs list each type by itself


def contained(values: Column, pool: Column) -> Mask:
    """Where a value is one of `pool`; null is in no pool."""
    if len(pool) == 0 or len(values) == 0:
        return np.zeros(len(values), np.bool_)
    return mask_of(pc.is_in(values, value_set=pool)) & is_given(values)


def chosen(values: Column, where: Mask) -> Column:
    """The values under a mask."""
    return values if where.all() else values.filter(pa.array(where))


def taken(values: Column, at: Positions) -> Column:
    """The values at these positions."""
    return values.take(pa.array(at, pa.int64()))


def nulled(values: Column, where: Mask) -> Column:
    """The values with null under the mask."""
    if not where.any():
        return values
    # cast: the stubs give the union of arrays and scalars.
    return cast("Column", pc.if_else(pa.array(where), pa.scalar(None, values.type), values))


def distinct(values: Column) -> Column:
    """The distinct values that are not null."""
    return values.drop_null().unique()


def group_codes(members: Sequence[Column]) -> Positions:
    """A number per row, equal for equal tuples; the members have no nulls."""
    codes = _codes(members[0])
    for member in members[1:]:
        other = _codes(member)
        span = int(other.max(initial=0)) + 1
        # Renumbered at each step: the plain product of several columns would overflow.
        codes = np.unique(codes * span + other, return_inverse=True)[1].astype(np.int64)
    return codes


def among(tuples: Sequence[Column], others: Sequence[Column]) -> Mask:
    """Which tuples, that have no nulls, are among some others; those with a null are none."""
    whole = np.flatnonzero(np.logical_and.reduce([is_given(other) for other in others]))
    pairs = zip(tuples, others, strict=True)
    codes = group_codes([pa.concat_arrays([own, taken(other, whole)]) for own, other in pairs])
    count = len(tuples[0])
    return np.isin(codes[:count], codes[count:])


def _codes(values: Column) -> Positions:
    return values.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)


def last_of_each(values: Column) -> Positions:
    """Positions of the last occurrence of each value, ascending; the values have no nulls."""
    if _ascends(values):
        return np.arange(len(values))
    codes = _codes(values)
    if codes[-1] == len(codes) - 1:
        # Values are numbered as they are met first: the last one is new, and so were all of them.
        return np.arange(len(codes))
    last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    return np.sort(last)


def _ascends(values: Column) -> bool:
    """Whether each value is greater than the one before; tried on the first of them first."""
    return all(
        pc.all(pc.less(each.slice(0, len(each) - 1), each.slice(1))).as_py()
        for each in (values.slice(0, _TRIED), values)
        if len(each) > 1
    )


def order_of(ids: Column) -> Positions:
    """Positions in code-point order of the ids, null first, equal ones as they stand."""
    ranked = pc.array_sort_indices(ids, null_placement="at_start")
    return ranked.to_numpy(zero_copy_only=False).astype(np.int64)
