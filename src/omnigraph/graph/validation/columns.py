"""Fitting of one Arrow column to a property type: the stored type, or no value at all.

Nothing changes silently. Allowed are another layout of the same values (dictionaries, views, large
offsets, other units of time), integers of another width that hold the value, also as decimals
without digits behind the point, integers and floats
to the nearest float of the stored width, digits below the millisecond cut, and a date as the
midnight that begins it. Text is never read as a number or a date. What does not fit becomes null
and is marked, so that the reason can be told for that cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import filled, is_given, mask_of, nulled, nulls
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.types import INTEGER_RANGES, PropType, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.arrays import Column, Mask

_DAY_MS: Final = 86_400_000
_DAYS: Final = (-719_162, 2_932_896)
_MS: Final = (_DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1)
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INT64: Final = INTEGER_RANGES[Scalar.I64]
_BLOB_PARTS: Final[dict[str, pa.DataType]] = {
    "data": pa.large_binary(),
    "uri": pa.string(),
    "position": pa.uint64(),
    "size": pa.uint64(),
}
STORED_BLOB: Final = pa.struct([(name, _BLOB_PARTS[name]) for name in ("data", "uri")])
"""A blob that may lie outside the graph: bytes, or an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedColumn:
    """Values in the stored type; `unfit` marks given values that it cannot hold, null here."""

    values: Column
    unfit: Mask


def fit_column(given: Column, kind: PropType) -> FittedColumn:
    """The column in the Arrow type of `kind`; never fails."""
    plain = unpacked(given)
    if pa.types.is_null(plain.type):
        return _all_fit(nulls(len(plain), arrow_type(kind)))
    if kind.is_list:
        return _fit_list(plain, kind)
    if kind.scalar is Scalar.VECTOR:
        return _fit_vector(plain, kind)
    return _FITTERS[kind.scalar](plain, kind.scalar)


def unpacked(given: Column) -> Column:
    """The values without dictionary, run-length or extension wrapping."""
    if isinstance(given, pa.ExtensionArray):
        return unpacked(given.storage)
    if isinstance(given, pa.DictionaryArray):
        return unpacked(given.dictionary_decode())
    if isinstance(given, pa.RunEndEncodedArray):
        return unpacked(pc.call_function("run_end_decode", [given]))
    return given


def _all_fit(values: Column) -> FittedColumn:
    return FittedColumn(values=values, unfit=np.zeros(len(values), np.bool_))


def _none_fits(given: Column, kind: PropType) -> FittedColumn:
    return FittedColumn(values=nulls(len(given), arrow_type(kind)), unfit=is_given(given))


def _fit_text(given: Column, scalar: Scalar) -> FittedColumn:
    if not (
        pa.types.is_string(given.type)
        or pa.types.is_large_string(given.type)
        or pa.types.is_string_view(given.type)
    ):
        return _none_fits(given, PropType(scalar=scalar))
    try:
        # Arrow trusts the producer of a stream; bytes that are no UTF-8 would reach storage.
        given.validate(full=True)
    except pa.ArrowInvalid:
        broken = _broken_text(given)
        whole = cast("Column", given.cast(pa.large_binary()))  # cast: the stubs keep the input type
        return FittedColumn(values=nulled(whole, broken).cast(pa.utf8()), unfit=broken)
    return _all_fit(given if pa.types.is_string(given.type) else given.cast(pa.utf8()))


def _broken_text(given: Column) -> Mask:
    broken = np.zeros(len(given), np.bool_)
    for at, value in enumerate(given.cast(pa.large_binary()).to_pylist()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            broken[at] = True
    return broken


def _fit_blob(given: Column, scalar: Scalar) -> FittedColumn:
    kind = given.type
    if _is_binary(kind):
        return _all_fit(given.cast(pa.large_binary()))
    parts = _blob_parts(given) if isinstance(kind, pa.StructType) else None
    if parts is None:
        return _none_fits(given, PropType(scalar=scalar))
    data, uri = parts["data"], _fit_text(parts["uri"], Scalar.STRING)
    is_one = is_given(data) ^ is_given(uri.values)
    is_slice = is_given(parts["position"]) | is_given(parts["size"])
    unfit = is_given(given) & (~is_one | is_slice | uri.unfit)
    if kind == STORED_BLOB and not unfit.any():
        return _all_fit(given)
    values = pa.StructArray.from_arrays(
        [data, uri.values], fields=list(STORED_BLOB), mask=pa.array(~is_given(given) | unfit)
    )
    return FittedColumn(values=values, unfit=unfit)


def _blob_parts(given: Column) -> dict[str, Column] | None:
    """The members of blobs in the storage layer's own form, or None for other structs."""
    kinds = {part.name: part.type for part in given.type}
    if not kinds.keys() <= _BLOB_PARTS.keys() or len(kinds) != given.type.num_fields:
        return None
    if not _is_binary(kinds.get("data", pa.binary())):
        return None
    parts = {name: nulls(len(given), kind) for name, kind in _BLOB_PARTS.items()}
    for name in kinds:
        parts[name] = pc.struct_field(given, name)
    parts["data"] = parts["data"].cast(pa.large_binary())
    return parts


def _is_binary(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
    )


def _fit_bool(given: Column, scalar: Scalar) -> FittedColumn:
    return (
        _all_fit(given)
        if pa.types.is_boolean(given.type)
        else _none_fits(given, PropType(scalar=scalar))
    )


def _fit_integer(given: Column, scalar: Scalar) -> FittedColumn:
    kind = PropType(scalar=scalar)
    if pa.types.is_decimal(given.type) and given.type.scale == 0:
        return _fit_whole_decimal(given, scalar)
    if not pa.types.is_integer(given.type):
        return _none_fits(given, kind)
    width = given.type.bit_width
    is_signed = pa.types.is_signed_integer(given.type)
    least, most = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    )
    low, high = INTEGER_RANGES[scalar]
    unfit = np.zeros(len(given), np.bool_)
    if least < low:
        unfit |= mask_of(pc.less(given, pa.scalar(low, given.type)))
    if most > high:
        unfit |= mask_of(pc.greater(given, pa.scalar(high, given.type)))
    return FittedColumn(values=nulled(given, unfit).cast(arrow_type(kind)), unfit=unfit)


def _fit_whole_decimal(given: Column, scalar: Scalar) -> FittedColumn:
    """Integers in the form of those that have none of 64 bits without a sign."""
    low, high = INTEGER_RANGES[scalar]
    # Enough digits for the bounds as well as for the values.
    wide = given.cast(pa.decimal128(38, 0)) if given.type.precision <= 38 else given
    unfit = mask_of(pc.less(wide, pa.scalar(low).cast(wide.type)))
    unfit |= mask_of(pc.greater(wide, pa.scalar(high, pa.uint64()).cast(wide.type)))
    stored = arrow_type(PropType(scalar=scalar))
    return FittedColumn(values=nulled(wide, unfit).cast(stored), unfit=unfit)


def _fit_float(given: Column, scalar: Scalar) -> FittedColumn:
    fitted = _nearest_float(given, scalar)
    # Adding zero turns -0.0 into 0.0 and changes nothing else.
    zero = pa.scalar(0.0, fitted.values.type)
    return FittedColumn(values=pc.add(fitted.values, zero), unfit=fitted.unfit)


def _nearest_float(given: Column, scalar: Scalar) -> FittedColumn:
    kind = PropType(scalar=scalar)
    if not (pa.types.is_floating(given.type) or pa.types.is_integer(given.type)):
        return _none_fits(given, kind)
    # Not a safe cast: rounding to the nearest float is the one that is allowed.
    values = cast("Column", given.cast(arrow_type(kind), safe=False))  # cast: as in _fit_text
    unfit = is_given(given) & ~mask_of(pc.is_finite(values))
    return FittedColumn(values=nulled(values, unfit), unfit=unfit)


def _fit_date(given: Column, scalar: Scalar) -> FittedColumn:
    valid = is_given(given)
    if pa.types.is_date32(given.type):
        days = _integers(given.view(pa.int32()))
        unfit = valid & ~_within(days, _DAYS)
    elif pa.types.is_date64(given.type):
        days, rest_ms = np.divmod(_integers(given.view(pa.int64())), _DAY_MS)
        unfit = valid & (~_within(days, _DAYS) | (rest_ms != 0))
    else:
        return _none_fits(given, PropType(scalar=scalar))
    if pa.types.is_date32(given.type) and not unfit.any():
        return _all_fit(given)
    kept = pa.array(np.where(unfit, 0, days).astype(np.int32), mask=~valid | unfit)
    return FittedColumn(values=kept.view(pa.date32()), unfit=unfit)


def _fit_datetime(given: Column, scalar: Scalar) -> FittedColumn:
    kind = PropType(scalar=scalar)
    if pa.types.is_date32(given.type):
        raw, per_second, bounds = _integers(given.view(pa.int32())), None, _DAYS
    elif pa.types.is_date64(given.type):
        raw, per_second, bounds = _integers(given.view(pa.int64())), 1_000, _MS
    elif pa.types.is_timestamp(given.type):
        per_second = _PER_SECOND[given.type.unit]
        raw = _integers(given.view(pa.int64()))
        bounds = (_MS[0] * per_second // 1_000, (_MS[1] + 1) * per_second // 1_000 - 1)
    else:
        return _none_fits(given, kind)
    valid = is_given(given)
    unfit = valid & ~_within(raw, bounds)
    at_ms = np.where(unfit, 0, raw)
    if per_second is None:
        at_ms = at_ms * _DAY_MS
    elif per_second < 1_000:
        at_ms = at_ms * (1_000 // per_second)
    else:
        at_ms = at_ms // (per_second // 1_000)
    kept = pa.array(at_ms, pa.int64(), mask=~valid | unfit)
    return FittedColumn(values=kept.view(arrow_type(kind)), unfit=unfit)


def _integers(values: Column) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return filled(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False).astype(np.int64)


def _within(
    values: np.ndarray[tuple[int, ...], np.dtype[np.int64]], bounds: tuple[int, int]
) -> Mask:
    low, high = max(bounds[0], _INT64[0]), min(bounds[1], _INT64[1])
    return (values >= low) & (values <= high)


_FITTERS: Final[dict[Scalar, Callable[[Column, Scalar], FittedColumn]]] = {
    Scalar.STRING: _fit_text,
    Scalar.BLOB: _fit_blob,
    Scalar.BOOL: _fit_bool,
    Scalar.I32: _fit_integer,
    Scalar.I64: _fit_integer,
    Scalar.U32: _fit_integer,
    Scalar.U64: _fit_integer,
    Scalar.F32: _fit_float,
    Scalar.F64: _fit_float,
    Scalar.DATE: _fit_date,
    Scalar.DATETIME: _fit_datetime,
}


def _as_lists(given: Column) -> Column | None:
    """The lists with 32-bit offsets, or None for a column of something else."""
    kind = given.type
    if pa.types.is_list(kind):
        return given
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return given.cast(pa.list_(kind.value_type))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        # Arrow's own cast of a view with nulls gives an invalid array.
        return pa.array(given.to_pylist(), pa.list_(kind.value_type))
    return None


def _lengths(lists: Column) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return _integers(pc.list_value_length(lists))


def _fit_list(given: Column, kind: PropType) -> FittedColumn:
    lists = _as_lists(given)
    if lists is None:
        return _none_fits(given, kind)
    lengths, valid = _lengths(lists), is_given(lists)
    items = fit_column(pc.list_flatten(lists), kind.item)
    unfit = np.zeros(len(lists), np.bool_)
    unfit[np.repeat(np.arange(len(lists)), lengths)[items.unfit]] = True
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    values = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), items.values, mask=pa.array(~valid | unfit, pa.bool_())
    )
    return FittedColumn(values=values, unfit=unfit)


def _fit_vector(given: Column, kind: PropType) -> FittedColumn:
    size = kind.vector_dim or 0
    valid = is_given(given)
    if pa.types.is_fixed_size_list(given.type) and given.type.list_size == size:
        fits, flat_parts = valid.copy(), pc.list_flatten(given)
    else:
        lists = _as_lists(given)
        if lists is None:
            return _none_fits(given, kind)
        fits = valid & (_lengths(lists) == size)
        flat_parts = pc.list_flatten(lists.filter(pa.array(fits)))
    parts = _nearest_float(unpacked(flat_parts), Scalar.F32)
    is_whole = is_given(parts.values).reshape(-1, size).all(axis=1)
    if given.type == arrow_type(kind) and is_whole.all():
        return _all_fit(given)
    at = np.flatnonzero(fits)
    fits[at[~is_whole]] = False
    flat = np.zeros((len(given), size), np.float32)
    whole = filled(parts.values, pa.scalar(0.0, pa.float32()))
    flat[at] = whole.to_numpy(zero_copy_only=False).reshape(-1, size)
    values = pa.FixedSizeListArray.from_arrays(
        pa.array(flat.reshape(-1), pa.float32()), size, mask=pa.array(~fits, pa.bool_())
    )
    return FittedColumn(values=values, unfit=valid & ~fits)
