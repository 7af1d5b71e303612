"""What a task gives back that is no rows: one row with one pickled value of ours.

Only what our own tasks pickled is ever read.
"""

from __future__ import annotations

import pickle
from typing import Final, TypeVar

import pyarrow as pa

from omnigraph.errors import InternalError

RESULT: Final = pa.schema([pa.field("result", pa.binary(), nullable=False)])
RESULT_DDL: Final = "result binary"

_T = TypeVar("_T")


def result_row(value: object) -> pa.RecordBatch:
    """The row of a value."""
    return pa.record_batch([pa.array([pickle.dumps(value)], pa.binary())], schema=RESULT)


def read_result(rows: pa.RecordBatch | pa.Table, kind: type[_T], otherwise: str) -> _T:
    """The value of the only row.

    Raises:
        InternalError: it is of another kind; `otherwise` tells that, with `{}` for its name.
    """
    (value,) = read_results(rows, kind, otherwise)
    return value


def read_results(rows: pa.RecordBatch | pa.Table, kind: type[_T], otherwise: str) -> list[_T]:
    """The values of all rows.

    Raises:
        InternalError: as `read_result` does.
    """
    values: list[_T] = []
    for data in rows.column(0).to_pylist():
        value = pickle.loads(data or b"")  # noqa: S301 - our own task pickled it
        if not isinstance(value, kind):
            raise InternalError(otherwise.format(type(value).__name__))
        values.append(value)
    return values
