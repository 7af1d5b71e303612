"""How often rows count: whole numbers that are exact or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph.errors import NumericOverflow

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Numbers

LARGEST_COUNT = 2**63 - 1


def product(first: Numbers, second: Numbers) -> Numbers:
    """How often rows count that count by both.

    Raises:
        NumericOverflow: that is more often than a count can say.
    """
    if not len(first) or int(first.max()) * int(second.max()) <= LARGEST_COUNT:
        return first * second
    exact = first.astype(object) * second.astype(object)
    if max(exact.tolist()) > LARGEST_COUNT:
        raise too_many_rows()
    counts: Numbers = exact.astype(np.int64)
    return counts


def count_rows(groups: Numbers, size: int, weights: Numbers | None) -> Numbers:
    """How many rows each group has.

    Raises:
        NumericOverflow: all of them together have more than a count can say.
    """
    if weights is None:
        return np.bincount(groups, minlength=size)
    may_overflow = len(weights) * int(weights.max(initial=0)) > LARGEST_COUNT
    if may_overflow and sum(weights.tolist()) > LARGEST_COUNT:
        raise too_many_rows()
    counts = np.zeros(size, np.int64)
    np.add.at(counts, groups, weights)
    return counts


def count_between(starts: Numbers, weights: Numbers) -> Numbers:
    """How much `weights[starts[i]:starts[i + 1]]` is in sum, for each i.

    Raises:
        NumericOverflow: one of them is more than a count can say.
    """
    most = int(np.diff(starts).max(initial=0)) * int(weights.max(initial=0))
    # A running sum may pass the largest number; the differences are right as long as they fit.
    running = np.zeros(len(weights) + 1, object if most > LARGEST_COUNT else np.int64)
    np.cumsum(weights, out=running[1:])
    counts = running[starts[1:]] - running[starts[:-1]]
    if most <= LARGEST_COUNT:
        return counts
    if max(counts.tolist()) > LARGEST_COUNT:
        raise too_many_rows()
    return counts.astype(np.int64)


def too_many_rows() -> NumericOverflow:
    """The error of a count that I64 cannot hold."""
    return NumericOverflow(
        "the query counts more rows than a 64-bit number holds; connect the parts of the match, or"
        " filter more"
    )
