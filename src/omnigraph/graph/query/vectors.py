"""Cosine distance of stored vectors to a query vector, exactly, row by row.

The distance of a row depends on its vector alone, not on its neighbours in memory: two rows with
equal vectors get equal distances to the last bit, so that ties are ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph.errors import InvalidQueryVector
from omnigraph.graph.arrays import flat_vectors, is_given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from omnigraph.graph.arrays import Floats, Values

_ROWS_AT_ONCE = 16_384


def query_vector(parts: Sequence[float], where: str) -> Floats:
    """A query vector that has a direction.

    Raises:
        InvalidQueryVector: it is zero or not finite.
    """
    vector = np.asarray(parts, np.float64)
    if not np.isfinite(vector).all():
        raise InvalidQueryVector(
            f"the query vector of nearest({where}) has a part that is no finite number",
            property=where,
        )
    if not vector.any():
        raise InvalidQueryVector(
            f"the query vector of nearest({where}) is zero and has no direction", property=where
        )
    return vector


def cosine_distances(vectors: Values, query: Floats) -> Floats:
    """The distance of each vector, 0 to 2; NaN where there is none, or a zero one."""
    out = np.full(len(vectors), np.nan)
    matrix = flat_vectors(vectors).reshape(-1, len(query))
    out[is_given(vectors)] = matrix_distances(matrix, query)
    return out


def matrix_distances(matrix: NDArray[np.float32], query: Floats) -> Floats:
    """The distance of each row of a matrix."""
    unit = query / np.sqrt(np.dot(query, query))
    out = np.empty(len(matrix))
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = matrix[start : start + _ROWS_AT_ONCE].astype(np.float64)
        # einsum adds each row by itself; a matrix product would add in blocks that depend on
        # where the row stands.
        dots = np.einsum("ij,j->i", rows, unit)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        with np.errstate(invalid="ignore", divide="ignore"):
            out[start : start + _ROWS_AT_ONCE] = 1.0 - dots / norms
    return np.clip(out, 0.0, 2.0)


def approximate_distances(
    matrix: NDArray[np.float32], scales: NDArray[np.float32], query: Floats
) -> NDArray[np.float32]:
    """The same in single precision, fast: what is far for sure need not be computed exactly."""
    unit = (query / np.sqrt(np.dot(query, query))).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        rough: NDArray[np.float32] = 1.0 - (matrix @ unit) * scales
    return rough
