"""One Arrow column to a property type: nothing changes silently."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph.arrays import Column
from omnigraph.graph.validation.cells import why_unfit
from omnigraph.graph.validation.columns import STORED_BLOB, fit_column, unpacked
from omnigraph.lang import PropType, Scalar
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.types import INTEGER_RANGES
from omnigraph.storage.blobs import STORED_BLOB as STORAGE_FORM

_DAY_MS = 86_400_000
_MAX_DAY, _MIN_DAY = 2_932_896, -719_162
_LIST = PropType(scalar=Scalar.I32, is_list=True)
_VECTOR = PropType(scalar=Scalar.VECTOR, vector_dim=2)


def _kind(scalar: Scalar) -> PropType:
    return PropType(scalar=scalar)


def _fitted(given: Column, kind: PropType) -> tuple[list[object], list[bool]]:
    fitted = fit_column(given, kind)
    assert fitted.values.type == arrow_type(kind)
    fitted.values.validate(full=True)
    assert not [
        value
        for value, unfit in zip(fitted.values.to_pylist(), fitted.unfit, strict=True)
        if unfit and value is not None
    ]
    return fitted.values.to_pylist(), fitted.unfit.tolist()


@pytest.mark.parametrize(
    "given",
    [
        pa.array(["a", None, "\0é"]),
        pa.array(["a", None, "\0é"], pa.large_string()),
        pa.array(["a", None, "\0é"], pa.string_view()),
        pa.array(["a", None, "\0é"]).dictionary_encode(),
        pa.array(["x", "a", None, "\0é"]).slice(1),
    ],
    ids=lambda given: str(given.type),
)
def test_text_in_any_layout_is_text(given: Column) -> None:
    assert _fitted(given, _kind(Scalar.STRING)) == (["a", None, "\0é"], [False] * 3)


def test_runs_and_extensions_are_unpacked() -> None:
    runs: Column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array(["a", "b"]))
    assert _fitted(runs, _kind(Scalar.STRING))[0] == ["a", "a", "b"]
    json_text = pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), pa.array(["1"]))
    assert _fitted(json_text, _kind(Scalar.STRING))[0] == ["1"]


def test_bytes_that_are_no_text_are_refused_one_by_one() -> None:
    offsets = pa.array([0, 1, 2, 2], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.utf8(), 3, [None, offsets, pa.py_buffer(b"\xffa")])
    assert _fitted(broken, _kind(Scalar.STRING)) == ([None, "a", ""], [True, False, False])
    assert why_unfit(broken[0], _kind(Scalar.STRING)) == (
        "expected String, got text that is not UTF-8"
    )


@pytest.mark.parametrize("scalar", list(INTEGER_RANGES))
def test_integers_fit_by_value_and_not_by_width(scalar: Scalar) -> None:
    low, high = INTEGER_RANGES[scalar]
    for source in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        bits = source.bit_width
        least, most = (
            (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            if pa.types.is_signed_integer(source)
            else (0, 2**bits - 1)
        )
        values = [
            one for one in (least, low, low - 1, 7, high, high + 1, most) if least <= one <= most
        ]
        kept, unfit = _fitted(pa.array([*values, None], source), _kind(scalar))
        assert kept == [one if low <= one <= high else None for one in values] + [None]
        assert unfit == [not low <= one <= high for one in values] + [False]


def test_whole_decimals_fit_integers_by_value() -> None:
    """The form that unsigned integers have in Spark."""
    given = pa.array([Decimal(each) for each in (0, 2**64 - 1, 2**64, -1)], pa.decimal128(21, 0))
    kept, unfit = _fitted(given, _kind(Scalar.U64))
    assert (kept, unfit) == ([0, 2**64 - 1, None, None], [False, False, True, True])
    kept, unfit = _fitted(given, _kind(Scalar.I32))
    assert (kept, unfit) == ([0, None, None, -1], [False, True, True, False])


@pytest.mark.parametrize(
    ("given", "scalar"),
    [
        (pa.array([1.0]), Scalar.I32),
        (pa.array(["7"]), Scalar.I64),
        (pa.array([True]), Scalar.I32),
        (pa.array([Decimal("7.5")]), Scalar.U64),
        (pa.array(["1.5"]), Scalar.F64),
        (pa.array([True]), Scalar.F32),
        (pa.array([1]), Scalar.BOOL),
        (pa.array([1]), Scalar.STRING),
        (pa.array([b"x"]), Scalar.STRING),
        (pa.array(["x"]), Scalar.BLOB),
        (pa.array([1]), Scalar.DATE),
        (pa.array([1], pa.timestamp("ms")), Scalar.DATE),
        (pa.array(["2024-01-01"]), Scalar.DATETIME),
        (pa.array([[1]]), Scalar.I32),
    ],
    ids=str,
)
def test_other_types_do_not_fit(given: Column, scalar: Scalar) -> None:
    assert _fitted(given, _kind(scalar)) == ([None], [True])
    assert why_unfit(unpacked(given)[0], _kind(scalar)).startswith(f"expected {scalar}")


def test_floats_round_to_the_nearest_and_are_finite() -> None:
    given = pa.array([0.1, -0.0, None, math.nan, math.inf, 1e39])
    kept, unfit = _fitted(given, _kind(Scalar.F32))
    assert kept == [float(np.float32(0.1)), 0.0, None, None, None, None]
    assert math.copysign(1, kept[1]) == 1  # type: ignore[arg-type]  # a float, as compared above
    assert unfit == [False, False, False, True, True, True]
    assert _fitted(given, _kind(Scalar.F64))[1] == [False, False, False, True, True, False]


def test_integers_are_floats_rounded_once() -> None:
    exact = 2**60 + 2**36 + 1
    assert _fitted(pa.array([exact]), _kind(Scalar.F32))[0] == [float(2**60 + 2**37)]
    assert _fitted(pa.array([2**64 - 1], pa.uint64()), _kind(Scalar.F64))[0] == [float(2**64)]
    half = pa.array(np.array([1.5], np.float16))
    assert _fitted(half, _kind(Scalar.F32))[0] == [1.5]


@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [
        ("s", [-1, 2], [-1000, 2000]),
        ("ms", [-1, 2], [-1, 2]),
        ("us", [-1, 1999], [-1, 1]),
        ("ns", [-1, 1_999_999], [-1, 1]),
    ],
)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_moments_are_milliseconds_in_utc_and_finer_digits_are_cut(
    unit: str, given: list[int], expected: list[int], zone: str | None
) -> None:
    column = pa.array([*given, None], pa.int64()).cast(pa.timestamp(unit, zone))
    fitted = fit_column(column, _kind(Scalar.DATETIME))
    assert fitted.values.view(pa.int64()).to_pylist() == [*expected, None]
    assert not fitted.unfit.any()


def test_dates_are_whole_days_and_midnights() -> None:
    days = pa.array([0, None, _MAX_DAY], pa.date32())
    fitted = fit_column(days, _kind(Scalar.DATE))
    assert fitted.values.view(pa.int32()).to_pylist() == [0, None, _MAX_DAY]
    midnights = fit_column(days, _kind(Scalar.DATETIME))
    assert midnights.values.view(pa.int64()).to_pylist() == [0, None, _MAX_DAY * _DAY_MS]
    fine = pa.array([_DAY_MS, _DAY_MS + 1, None], pa.int64()).view(pa.date64())
    assert fit_column(fine, _kind(Scalar.DATE)).unfit.tolist() == [False, True, False]
    assert not fit_column(fine, _kind(Scalar.DATETIME)).unfit.any()


def test_moments_stay_within_four_digit_years() -> None:
    days = pa.array([_MIN_DAY - 1, _MIN_DAY, _MAX_DAY, _MAX_DAY + 1], pa.date32())
    for scalar in (Scalar.DATE, Scalar.DATETIME):
        assert fit_column(days, _kind(scalar)).unfit.tolist() == [True, False, False, True]
    edges = [_MIN_DAY * _DAY_MS - 1, _MIN_DAY * _DAY_MS, (_MAX_DAY + 1) * _DAY_MS - 1]
    edges += [(_MAX_DAY + 1) * _DAY_MS, 2**63 - 1, -(2**63)]
    moments = pa.array(edges, pa.int64()).view(pa.timestamp("ms"))
    fitted = fit_column(moments, _kind(Scalar.DATETIME))
    assert fitted.unfit.tolist() == [True, False, False, True, True, True]
    seconds = pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("s"))
    assert fit_column(seconds, _kind(Scalar.DATETIME)).unfit.tolist() == [True]
    assert why_unfit(moments[3], _kind(Scalar.DATETIME)) == (
        "expected DateTime of the years 0001 to 9999, got timestamp[ms] 253402300800000"
    )


@pytest.mark.parametrize(
    "layout",
    [
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_view(pa.int64()),
        pa.large_list_view(pa.int64()),
        pa.list_(pa.dictionary(pa.int32(), pa.int64())),
    ],
    ids=str,
)
def test_lists_of_any_layout_are_fitted_item_by_item(layout: pa.DataType) -> None:
    values = [[1, None], [], None, [2**31], [5]]
    given = pa.array([[0], *values], layout).slice(1)
    assert _fitted(given, _LIST) == (
        [[1, None], [], None, None, [5]],
        [False, False, False, True, False],
    )


def test_floats_in_lists_have_no_negative_zero_and_no_nan() -> None:
    given = pa.array([[-0.0, 1.0], [math.nan]])
    kept, unfit = _fitted(given, PropType(scalar=Scalar.F64, is_list=True))
    assert str(kept) == "[[0.0, 1.0], None]"
    assert unfit == [False, True]


def test_fixed_size_lists_are_lists() -> None:
    given = pa.array([[1, 2], None, [3, 2**40]], pa.list_(pa.int64(), 2))
    assert _fitted(given, _LIST) == ([[1, 2], None, None], [False, False, True])


@pytest.mark.parametrize(
    "layout",
    [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_view(pa.float32())],
    ids=str,
)
def test_vectors_have_their_length_and_finite_parts(layout: pa.DataType) -> None:
    values = [[1.5, -0.0], None, [1.0], [1.0, 2.0, 3.0], [1.0, None], [math.inf, 0.0], []]
    kept, unfit = _fitted(pa.array(values, layout), _VECTOR)
    assert str(kept) == "[[1.5, -0.0], None, None, None, None, None, None]"
    assert unfit == [False, False, True, True, True, True, True]


def test_a_vector_of_the_stored_type_is_taken_as_it_is() -> None:
    given = pa.array([[9.0, 9.0], [1.0, 2.0], None], arrow_type(_VECTOR)).slice(1)
    assert _fitted(given, _VECTOR) == ([[1.0, 2.0], None], [False, False])
    broken = pa.array([[1.0, math.nan], None, [1.0, 2.0]], arrow_type(_VECTOR))
    assert _fitted(broken, _VECTOR) == ([None, None, [1.0, 2.0]], [True, False, False])
    longer = pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3))
    assert _fitted(longer, _VECTOR) == ([None], [True])
    assert why_unfit(longer[0], _VECTOR) == "expected Vector(2), got a list of 3"


def test_vectors_of_integers_are_vectors_and_texts_are_not() -> None:
    assert _fitted(pa.array([[1, 2]]), _VECTOR) == ([[1.0, 2.0]], [False])
    assert _fitted(pa.array([["1", "2"]]), _VECTOR) == ([None], [True])
    assert _fitted(pa.array(["x"]), _VECTOR) == ([None], [True])
    assert _fitted(pa.array([3]), _LIST) == ([None], [True])


def test_blobs_are_bytes_or_the_form_of_the_storage_layer() -> None:
    for layout in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)):
        assert _fitted(pa.array([b"x", None], layout), _kind(Scalar.BLOB))[0] == [b"x", None]
    stored = pa.array([{"data": b"x", "uri": None}, {"data": None, "uri": "s3://x"}], STORED_BLOB)
    assert fit_column(stored, _kind(Scalar.BLOB)).values is stored


def test_blobs_in_the_form_of_the_storage_layer_take_its_type() -> None:
    for given in (
        pa.array([{"uri": "s3://x"}, None]),
        pa.array([{"data": None, "uri": "s3://x"}, None]),
        pa.array([{"data": None, "uri": "s3://x", "position": None, "size": None}, None]),
    ):
        fitted = fit_column(given, _kind(Scalar.BLOB))
        assert fitted.values.type == STORED_BLOB == STORAGE_FORM
        assert fitted.values.to_pylist() == [{"data": None, "uri": "s3://x"}, None]
        assert not fitted.unfit.any()


@pytest.mark.parametrize(
    "cell",
    [
        {"data": b"x", "uri": "s3://x"},
        {"data": None, "uri": None},
        {"data": None, "uri": "s3://x", "position": 1, "size": 2},
        {"data": "text", "uri": None},
        {"data": None, "uri": 7},
        {"other": 1},
        {},
    ],
    ids=str,
)
def test_a_blob_that_is_not_bytes_or_one_whole_address_is_unfit(cell: dict[str, object]) -> None:
    fitted = fit_column(pa.array([cell, None]), _kind(Scalar.BLOB))
    assert fitted.values.to_pylist() == [None, None]
    assert fitted.unfit.tolist() == [True, False]


def test_a_blob_whose_address_is_no_text_is_unfit() -> None:
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    cells = pa.StructArray.from_arrays([broken], names=["uri"])
    fitted = fit_column(cells, _kind(Scalar.BLOB))
    assert (fitted.values.to_pylist(), fitted.unfit.tolist()) == ([None], [True])


@pytest.mark.parametrize(
    "kind", [_LIST, _VECTOR, *map(_kind, sorted(set(Scalar) - {Scalar.VECTOR}))], ids=str
)
def test_nothing_and_nulls_fit_every_type(kind: PropType) -> None:
    assert _fitted(pa.array([None, None]), kind) == ([None, None], [False, False])
    assert _fitted(pa.array([], arrow_type(kind)), kind) == ([], [])


@pytest.mark.parametrize(
    ("given", "kind", "reason"),
    [
        (
            pa.scalar(2**31),
            _kind(Scalar.I32),
            "2147483648 is out of range for I32 (-2147483648 to 2147483647)",
        ),
        (pa.scalar("7"), _kind(Scalar.I32), 'expected I32, got string "7"'),
        (pa.scalar(1.0), _kind(Scalar.I32), "expected I32, got number 1.0"),
        (pa.scalar(math.nan), _kind(Scalar.F64), "nan is not a finite number"),
        (pa.scalar(1e39), _kind(Scalar.F32), "1e+39 is too large for F32"),
        (pa.scalar(b"x"), _kind(Scalar.STRING), "expected String, got bytes"),
        (pa.scalar("x"), _VECTOR, 'expected Vector(2), got string "x"'),
        (pa.scalar(1), _kind(Scalar.DATE), "expected Date, got number 1"),
        (pa.scalar({"a": 1}), _kind(Scalar.BOOL), "expected Bool, got object"),
    ],
)
def test_the_reason_is_told_in_the_words_of_json_input(
    given: "pa.Scalar[pa.DataType]", kind: PropType, reason: str
) -> None:
    assert why_unfit(given, kind) == reason
