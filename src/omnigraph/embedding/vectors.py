"""What every vector must be before it leaves the package, whoever made it.

One vector per text, of the property's dimension, finite, not zero, of length 1. The check is made
once, here. What breaks it is `EmbeddingInvalid` with the position of the text in the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.errors import EmbeddingInvalid

if TYPE_CHECKING:
    import numpy.typing as npt

_NUMBERS: Final = "fiu"
_MATRIX_AXES: Final = 2
_UNIT_TOLERANCE: Final = 1e-6


def to_vectors(
    rows: object, *, count: int, dimension: int, first: int = 0
) -> npt.NDArray[np.float32]:
    """The rows as vectors of length 1, in a new array.

    A row whose length is 1 up to the rounding of float32 stays as it is to the last bit.

    Args:
        rows: a matrix, or anything that gives one list of numbers after another.
        count: how many rows there must be.
        dimension: how many values each row must have.
        first: the position of the first row in the call, for errors.

    Raises:
        EmbeddingInvalid: a rule above is broken; details `position`.
    """
    with np.errstate(over="ignore", under="ignore"):
        return _normalised(_matrix(rows, count, dimension, first), first)


def _normalised(matrix: npt.NDArray[np.float64], first: int) -> npt.NDArray[np.float32]:
    _refuse(~np.isfinite(matrix), first, "is not finite")
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    _refuse(largest == 0, first, "is zero, so it has no direction")
    # Squares of the values as they come would overflow, or vanish, far inside the range of float64.
    scaled = matrix / largest
    norms = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    is_unit = np.abs(largest * norms - 1) <= _UNIT_TOLERANCE
    return np.where(is_unit, matrix, scaled / norms).astype(np.float32)


def _matrix(rows: object, count: int, dimension: int, first: int) -> npt.NDArray[np.float64]:
    if (
        isinstance(rows, np.ndarray)
        and rows.shape == (count, dimension)
        and rows.dtype.kind in _NUMBERS
    ):
        return rows.astype(np.float64)
    vectors = _rows(rows, first)
    if len(vectors) != count:
        raise EmbeddingInvalid(
            f"the embedder returned {len(vectors)} vectors for {count} texts;"
            " it must return one for each",
            position=first + min(len(vectors), count),
        )
    matrix = np.empty((count, dimension), dtype=np.float64)
    for at, row in enumerate(vectors):
        matrix[at] = _row(row, dimension, first + at)
    return matrix


def _rows(rows: object, first: int) -> list[object]:
    if isinstance(rows, np.ndarray) and rows.ndim == _MATRIX_AXES:
        return list(rows)
    if isinstance(rows, list | tuple):
        return list(rows)
    kind = f"array of {rows.ndim} axes" if isinstance(rows, np.ndarray) else type(rows).__name__
    raise EmbeddingInvalid(
        f"the embedder returned an object of type {kind}; it must return an array with one row per"
        " text",
        position=first,
    )


def _row(row: object, dimension: int, position: int) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(row)
    except (ValueError, OverflowError):  # Lists of several lengths; numbers of no machine type.
        values = np.empty(0, dtype=object)
    if values.ndim != 1 or values.dtype.kind not in _NUMBERS:
        raise EmbeddingInvalid(
            f"the vector of text {position} is no list of numbers", position=position
        )
    if len(values) != dimension:
        raise EmbeddingInvalid(
            f"the vector of text {position} has {len(values)} values and the property has"
            f" {dimension}; choose a model that offers this dimension",
            position=position,
            expected=dimension,
            actual=len(values),
        )
    return values.astype(np.float64)


def _refuse(is_bad: npt.NDArray[np.bool_], first: int, fault: str) -> None:
    if is_bad.any():
        position = first + int(np.argmax(is_bad.any(axis=1)))
        raise EmbeddingInvalid(
            f"the vector of text {position} {fault}; the embedder must return another",
            position=position,
        )
