"""Binding of parameters: what is accepted, and that nothing else is."""

import json
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from omnigraph.errors import ParameterError
from omnigraph.lang import PropType, Scalar, bind_params
from omnigraph.lang.ir import Param
from omnigraph.limits import MAX_LIST_PARAMETER


def _param(
    scalar: Scalar, *, is_list: bool = False, nullable: bool = False, dim: int | None = None
) -> Param:
    kind = PropType(scalar=scalar, is_list=is_list, nullable=nullable, vector_dim=dim)
    return Param("p", kind)


def _bind(value: object, param: Param) -> object:
    return bind_params({"p": value}, [param])["p"]


def _reason(given: dict[str, object] | None, *params: Param) -> object:
    with pytest.raises(ParameterError) as caught:
        bind_params(given, params)
    return caught.value.details["reason"]


ACCEPTED: list[tuple[Param, object, object]] = [
    (_param(Scalar.STRING), "", ""),
    (_param(Scalar.BOOL), False, False),
    (_param(Scalar.I32), -(2**31), -(2**31)),
    (_param(Scalar.I32), "-7", -7),
    (_param(Scalar.U64), 2**64 - 1, 2**64 - 1),
    (_param(Scalar.U64), "18446744073709551615", 2**64 - 1),
    (_param(Scalar.I64), np.int64(5), 5),
    (_param(Scalar.F64), 1, 1.0),
    (_param(Scalar.F32), 0.1, 0.10000000149011612),
    (_param(Scalar.F64), np.float32(0.5), 0.5),
    (_param(Scalar.DATE), "1970-01-02", 1),
    (_param(Scalar.DATE), date(1970, 1, 2), 1),
    (_param(Scalar.DATETIME), "1970-01-01", 0),
    (_param(Scalar.DATETIME), "1970-01-01T01:00:00.9999+01:00", 999),
    (_param(Scalar.DATETIME), datetime(1970, 1, 1, 0, 0, 1), 1000),  # noqa: DTZ001
    (_param(Scalar.DATETIME), datetime(1970, 1, 1, tzinfo=UTC), 0),
    (_param(Scalar.DATETIME), datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
    (_param(Scalar.BLOB), "base64:AA==", "base64:AA=="),
    (_param(Scalar.BLOB), b"\x00", b"\x00"),
    (_param(Scalar.I64, is_list=True), [1, "2"], [1, 2]),
    (_param(Scalar.I64, is_list=True), np.array([1, 2]), [1, 2]),
    (_param(Scalar.STRING, is_list=True), pa.array(["a"]), ["a"]),
    (_param(Scalar.DATE, is_list=True), (date(1970, 1, 2), "1970-01-03"), [1, 2]),
    (_param(Scalar.VECTOR, dim=2), [1, 0.5], [1.0, 0.5]),
    (_param(Scalar.VECTOR, dim=2), np.array([1, 0.5], dtype=np.float32), [1.0, 0.5]),
    (_param(Scalar.VECTOR, dim=2), [np.float32(1), pa.scalar(0.5)], [1.0, 0.5]),
    (_param(Scalar.DATETIME), np.datetime64("1970-01-01T00:00:01", "ns"), 1000),
    (_param(Scalar.DATE), np.datetime64("1970-01-02"), 1),
    (_param(Scalar.DATETIME, nullable=True), pd.NaT, None),
    (_param(Scalar.STRING, nullable=True), None, None),
    (_param(Scalar.STRING), pa.scalar("x"), "x"),
]


@pytest.mark.parametrize(("param", "given", "bound"), ACCEPTED)
def test_a_fitting_value_is_bound_as_its_type_holds_it(
    param: Param, given: object, bound: object
) -> None:
    value = _bind(given, param)
    assert value == bound
    assert type(value) is type(bound)


REFUSED: list[tuple[Param, object]] = [
    (_param(Scalar.STRING), 1),
    (_param(Scalar.BOOL), 1),
    (_param(Scalar.BOOL), "true"),
    (_param(Scalar.I32), 1.0),
    (_param(Scalar.I32), True),
    (_param(Scalar.I32), 2**31),
    (_param(Scalar.I32), "1.0"),
    (_param(Scalar.I32), "٣"),
    (_param(Scalar.U32), -1),
    (_param(Scalar.U64), 2**64),
    (_param(Scalar.I64), 10**5000),
    (_param(Scalar.F64), "1.5"),
    (_param(Scalar.F64), float("nan")),
    (_param(Scalar.F64), float("inf")),
    (_param(Scalar.F64), 10**400),
    (_param(Scalar.F32), 1e39),
    (_param(Scalar.DATE), "2024-02-30"),
    (_param(Scalar.DATE), 5),
    (_param(Scalar.DATE), datetime(2024, 1, 1, tzinfo=UTC)),
    (_param(Scalar.DATETIME), date(2024, 1, 1)),
    (_param(Scalar.DATETIME), "2024-01-01T25:00:00Z"),
    (_param(Scalar.DATETIME), 5),
    (_param(Scalar.BLOB), 5),
    (_param(Scalar.STRING, is_list=True), "abc"),
    (_param(Scalar.I64, is_list=True), [1, None]),
    (_param(Scalar.I64, is_list=True), [1, 1.5]),
    (_param(Scalar.VECTOR, dim=2), [1.0]),
    (_param(Scalar.VECTOR, dim=2), [1.0, None]),
    (_param(Scalar.VECTOR, dim=2), [1.0, "2"]),
    (_param(Scalar.VECTOR, dim=2), [1.0, float("nan")]),
    (_param(Scalar.STRING), {"a": 1}),
    (_param(Scalar.STRING), "\ud800"),
    (_param(Scalar.DATETIME), datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))),
    (_param(Scalar.DATETIME), datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
]


@pytest.mark.parametrize(("param", "given"), REFUSED, ids=lambda value: type(value).__name__)
def test_a_value_of_the_wrong_kind_or_range_names_the_parameter_and_both_types(
    param: Param, given: object
) -> None:
    with pytest.raises(ParameterError) as caught:
        _bind(given, param)
    details = caught.value.details
    assert details["reason"] == "parameter_type"
    assert "`$p`" in caught.value.message
    assert details["expected"] == str(param.type)
    assert len(caught.value.message) < 300
    json.dumps(details)


def test_missing_null_unknown_and_reserved_have_their_own_reason() -> None:
    required = _param(Scalar.STRING)
    assert _reason(None, required) == "parameter_missing"
    assert _reason({"p": None}, required) == "parameter_null"
    assert _reason({"p": "x", "q": 1}, required) == "parameter_unknown"
    assert _reason({"__now": "x"}) == "reserved_parameter"
    assert _reason({"$__now": "x"}) == "reserved_parameter"


def test_an_optional_parameter_may_be_left_out() -> None:
    assert bind_params(None, [_param(Scalar.I32, nullable=True)]) == {"p": None}


def test_keys_may_carry_the_dollar_sign_but_not_twice() -> None:
    assert bind_params({"$p": "x"}, [_param(Scalar.STRING)]) == {"p": "x"}
    assert _reason({"$p": "x", "p": "y"}, _param(Scalar.STRING)) == "parameter_unknown"


def test_a_typo_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(ParameterError, match=r"did you mean `p`|the query declares: `p`"):
        bind_params({"pp": 1}, [_param(Scalar.I32)])


def test_a_list_of_too_many_values_is_refused() -> None:
    declared = [Param("ids", PropType(scalar=Scalar.I64, is_list=True))]
    bind_params({"ids": [1] * MAX_LIST_PARAMETER}, declared)
    with pytest.raises(ParameterError, match="100,001 values, more than 100,000") as caught:
        bind_params({"ids": [1] * (MAX_LIST_PARAMETER + 1)}, declared)
    assert caught.value.details["reason"] == "parameter_type"
    assert caught.value.details["parameter"] == "ids"
