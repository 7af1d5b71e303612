"""Sums by group: whole numbers exactly, floats with compensation. The same on every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omnigraph.graph.arrays import Floats, Numbers

EXACT_IN_FLOAT = 2**53


def sum_integers(
    values: NDArray[Any], groups: Numbers, size: int, weights: Numbers | None
) -> Floats:
    """The exact sum of each group, converted to float once."""
    if not len(values):
        return np.zeros(size)
    largest = max(abs(int(values.min())), abs(int(values.max())))
    count = len(values) if weights is None else int(weights.sum())
    if largest * count < EXACT_IN_FLOAT:
        # Every partial sum is a whole number that a float holds.
        floats = values.astype(np.float64)
        parts = floats if weights is None else floats * weights
        return np.asarray(np.bincount(groups, parts, minlength=size), np.float64)
    exact = np.zeros(size, object)
    wide = values.astype(object)
    np.add.at(exact, groups, wide if weights is None else wide * weights.astype(object))
    return exact.astype(np.float64)


def sum_floats(values: NDArray[Any], groups: Numbers, size: int, weights: Numbers | None) -> Floats:
    """The compensated sum of each group.

    Neighbours are added pairwise, and what each addition loses is added up beside; the result is as
    if the sum had been taken with twice the digits and rounded once.
    """
    order = np.argsort(groups, kind="stable")
    with np.errstate(over="ignore", invalid="ignore"):
        totals = _compensated(values, groups, order, size, weights)
        if np.isfinite(totals).all():
            return totals
        # A sum may be finite where a part of it is not: added in a smaller scale, it is.
        return _compensated(values * _SMALLER, groups, order, size, weights) / _SMALLER


_SMALLER = 2.0**-64


def _compensated(
    values: NDArray[Any], groups: Numbers, order: Numbers, size: int, weights: Numbers | None
) -> Floats:
    sums = values.astype(np.float64)[order]
    lost = np.zeros(len(sums))
    if weights is not None:
        sums, lost = _products(sums, weights[order].astype(np.float64))
    group = groups[order]
    while True:
        place = _place_in_group(group)
        pair = np.flatnonzero(place % 2 == 1)
        if not len(pair):
            break
        left = pair - 1
        total, error = _two_sum(sums[left], sums[pair])
        sums[left] = total
        lost[left] += lost[pair] + error
        keep = place % 2 == 0
        sums, lost, group = sums[keep], lost[keep], group[keep]
    out = np.zeros(size)
    out[group] = sums + lost
    return out


def _place_in_group(group: Numbers) -> Numbers:
    """For ascending groups the place of each element in its own."""
    if not len(group):
        return group
    starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    sizes = np.diff(np.append(starts, len(group)))
    return np.arange(len(group)) - np.repeat(starts, sizes)


def _two_sum(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The rounded sum, and exactly what the rounding lost."""
    total = first + second
    part = total - first
    with np.errstate(invalid="ignore"):
        lost = (first - (total - part)) + (second - part)
    return total, np.where(np.isfinite(total), lost, 0.0)


_SPLIT = float(2**27 + 1)


def _products(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The rounded products, and what the rounding lost (nothing where that would overflow)."""
    product = first * second
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = first * _SPLIT
        high = scaled - (scaled - first)
        low = first - high
        scaled = second * _SPLIT
        other_high = scaled - (scaled - second)
        other_low = second - other_high
        lost = low * other_low - (
            ((product - high * other_high) - low * other_high) - high * other_low
        )
    return product, np.where(np.isfinite(lost), lost, 0.0)
