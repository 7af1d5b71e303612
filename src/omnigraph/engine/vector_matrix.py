"""Vectors of a whole table in memory, for queries that look at many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.graph.arrays import flat_vectors, is_given

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.engine.entities import Entities
    from omnigraph.engine.tables import QueryTable
    from omnigraph.graph.arrays import Numbers

MANY_VECTORS = 512
"""From this many on, and one row in so many, it pays to have all of them in memory."""


@dataclass(frozen=True, slots=True)
class VectorMatrix:
    """The vectors of a property of a whole table, in the order of its type index."""

    vectors: NDArray[np.float32]
    """Zero where there is none."""
    scales: NDArray[np.float32]
    """One over the length of each; NaN where there is none."""

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.vectors.nbytes + self.scales.nbytes


def vectors_in_memory(
    entities: Entities, at: Numbers, name: str
) -> tuple[VectorMatrix, Numbers] | None:
    """The vectors of the table, and where those of the entities are; `None`: read them instead."""
    table = entities.table
    key = table.column_key(name)
    matrix = table.caches.vectors.peek(key)
    if matrix is None:
        dimension = table.item.properties[name].type.vector_dim or 1
        is_worth_it = len(at) >= MANY_VECTORS and len(at) * MANY_VECTORS >= table.rows
        if not is_worth_it or 4 * table.rows * (dimension + 1) > table.caches.vectors.most_bytes:
            return None
        matrix = table.caches.vectors.obtain(key, lambda: _matrix(table, name, dimension))
    if entities.type_index is not None:
        return matrix, at
    return matrix, table.type_index().by_row_id.find(entities.row_ids[at])


def _matrix(table: QueryTable, name: str, dimension: int) -> VectorMatrix:
    values = table.take(table.type_index().row_ids, [name])[name]
    vectors = np.zeros((len(values), dimension), np.float32)
    vectors[is_given(values)] = flat_vectors(values).reshape(-1, dimension)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    with np.errstate(divide="ignore", over="ignore"):
        scales = np.where(lengths > 0, 1.0 / lengths, np.nan).astype(np.float32)
    return VectorMatrix(vectors, scales)
