"""`Bindings`: the rows of a match, each variable a column of numbers into its entities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph.engine.counts import count_rows, product
from omnigraph.engine.entities import distinct

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from omnigraph.engine.entities import Entities
    from omnigraph.graph.arrays import Numbers


@dataclass(frozen=True, slots=True)
class Bound:
    """One variable: for each row the number of its entity."""

    entities: Entities
    at: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """The rows of a match, in no order. Without variables there is one row that binds nothing."""

    rows: int
    columns: Mapping[str, Bound] = field(default_factory=dict)
    weights: Numbers | None = None
    """How often each row counts, where an aggregate needs no more of a walk than its number."""
    tags: Mapping[str, Numbers] = field(default_factory=dict)
    """By the name of a negation around this match: the outer row that each row belongs to."""

    @property
    def nbytes(self) -> int:
        """Memory of the numbers."""
        return 8 * self.rows * (len(self.columns) + (self.weights is not None))

    def keep(self, chosen: NDArray[Any]) -> Bindings:
        """Rows by mask or by position; a position may come more than once."""
        count = int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
        if count == self.rows and chosen.dtype == bool:
            return self
        return Bindings(
            rows=count,
            columns={
                name: Bound(bound.entities, bound.at[chosen])
                for name, bound in self.columns.items()
            },
            weights=None if self.weights is None else self.weights[chosen],
            tags={name: rows[chosen] for name, rows in self.tags.items()},
        )

    def bind(self, columns: Mapping[str, Bound]) -> Bindings:
        """The same rows with more variables."""
        return replace(self, columns={**self.columns, **columns})

    def weigh(self, counts: Numbers) -> Bindings:
        """The rows that count at all, each as often as given, and as before."""
        weights = counts if self.weights is None else product(self.weights, counts)
        has = counts > 0
        return replace(self.keep(has), weights=weights[has])

    def fold(self, live: AbstractSet[str]) -> Bindings:
        """The same rows without variables that nothing looks at any more.

        If one variable is left, rows of one node become one row that counts as often as they did.
        """
        if self.tags or live >= self.columns.keys():
            return self
        columns = {name: bound for name, bound in self.columns.items() if name in live}
        if len(columns) != 1:
            return replace(self, columns=columns)
        ((name, bound),) = columns.items()
        used, places = distinct(bound.at, bound.entities)
        if len(used) == self.rows:
            return replace(self, columns=columns)
        return Bindings(
            rows=len(used),
            columns={name: Bound(bound.entities, used)},
            weights=count_rows(places, len(used), self.weights),
        )

    def pair(self, rows: Numbers, other: Bindings, other_rows: Numbers) -> Bindings:
        """Rows of this match beside rows of another one that shares no variable."""
        left, right = self.keep(rows), other.keep(other_rows)
        weights = left.weights
        if right.weights is not None:
            weights = right.weights if weights is None else product(weights, right.weights)
        return Bindings(
            rows=left.rows,
            columns={**left.columns, **right.columns},
            weights=weights,
            tags={**left.tags, **right.tags},
        )


NOTHING = Bindings(rows=1)
"""Where every match begins."""
