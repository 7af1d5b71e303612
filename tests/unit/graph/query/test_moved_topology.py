"""A numbering or topology that was moved equals one that is built of all rows anew."""

from __future__ import annotations

from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph.query.moved_topology import (
    Rows,
    distinct_pairs,
    moved_graph_index,
    moved_type_index,
    without_pairs,
)
from omnigraph.graph.query.topology import build_graph_index, build_type_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from omnigraph.graph.arrays import Ids
    from omnigraph.graph.query.moved_topology import Pairs
    from omnigraph.graph.query.topology import Adjacency, GraphIndex, TypeIndex

NAMES = ("", "A", "a", "aa\0b", "ab", "b", "m", "n1", "n2", "z", "zz", "~", "é", "Ω", "😀")
SEEDS = range(40)
Pair = tuple[str, str]


def texts(values: Iterable[str]) -> Ids:
    return pa.array(list(values), pa.string())


def rows_of(rows: Mapping[str, int]) -> Rows:
    return Rows(ids=texts(rows), row_ids=np.array(list(rows.values()), np.uint64))


def built(rows: Mapping[str, int]) -> TypeIndex:
    given = rows_of(rows)
    return build_type_index(given.ids, given.row_ids)


def pairs_of(pairs: Iterable[Pair]) -> Pairs:
    listed = list(pairs)
    return distinct_pairs(texts(src for src, _ in listed), texts(dst for _, dst in listed))


def topology(pairs: Iterable[Pair], *, is_same_type: bool) -> GraphIndex:
    distinct = pairs_of(pairs)
    return build_graph_index(distinct.src, distinct.dst, is_same_type=is_same_type)


def told(adjacency: Adjacency, near: Ids, far: Ids) -> list[Pair]:
    """The pairs of an adjacency, in its order."""
    sources, targets = adjacency.pairs()
    return [
        (str(near[source]), str(far[target]))
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_numbering_is_moved_by_rows_that_came_went_or_were_rewritten(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - seeded
    fresh = iter(range(100, 1_000))
    rows = {name: next(fresh) for name in rng.sample(NAMES, rng.randrange(len(NAMES)))}
    index = built(rows)
    if rng.random() < 0.7:
        assert index.by_row_id is not None
    for _ in range(4):
        before: dict[str, int] = {}
        after: dict[str, int] = {}
        now = dict(rows)
        for name in rng.sample(NAMES, rng.randrange(6)):
            what = rng.choice(("removed", "written", "replaced"))
            if name in now:
                before[name] = now.pop(name)
                if what != "removed":
                    after[name] = now[name] = before[name] if what == "written" else next(fresh)
            else:
                after[name] = now[name] = next(fresh)
        moved = moved_type_index(index, rows_of(before), rows_of(after))
        assert moved is not None
        if now.keys() == rows.keys():
            # What is aligned with these ids stays aligned.
            assert moved.ids is index.ids
        rows, index, wanted = now, moved, built(now)
        assert index.ids.equals(wanted.ids)
        assert index.row_ids.tolist() == wanted.row_ids.tolist()
        asked = np.array([*index.row_ids, 999], np.uint64)
        assert index.by_row_id.find(asked).tolist() == wanted.by_row_id.find(asked).tolist()


@pytest.mark.parametrize(
    ("before", "after"),
    [({"b": 3}, {}), ({"b": 3}, {"a": 4}), ({}, {"a": 4})],
    ids=["gone but never there", "replaced by one that is there", "twice"],
)
def test_rows_that_do_not_fit_a_numbering_move_nothing(
    before: dict[str, int], after: dict[str, int]
) -> None:
    assert moved_type_index(built({"a": 1}), rows_of(before), rows_of(after)) is None


@pytest.mark.parametrize("is_same_type", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_topology_is_moved_by_pairs_that_came_and_went(*, seed: int, is_same_type: bool) -> None:
    rng = Random(seed)  # noqa: S311 - seeded
    far = NAMES if is_same_type else tuple(f"{name}c" for name in NAMES)

    def some(most: int) -> set[Pair]:
        return {(rng.choice(NAMES), rng.choice(far)) for _ in range(rng.randrange(most))}

    pairs = some(12)
    index = topology(pairs, is_same_type=is_same_type)
    if rng.random() < 0.7:
        assert index.into is not None
    if is_same_type and rng.random() < 0.7:
        assert index.both is not None
    for _ in range(4):
        gone = some(4) | set(rng.sample(sorted(pairs), min(len(pairs), rng.randrange(3))))
        came = some(4) - gone
        pairs = (pairs - gone) | came
        index = moved_graph_index(index, pairs_of(gone), pairs_of(came))
        wanted = topology(pairs, is_same_type=is_same_type)
        starts, ends = index.from_ids, index.to_ids
        assert (starts is ends) == is_same_type
        assert starts.to_pylist() == sorted(starts.to_pylist(), key=lambda text: str(text).encode())
        assert told(index.out, starts, ends) == told(wanted.out, wanted.from_ids, wanted.to_ids)
        assert told(index.into, ends, starts) == told(wanted.into, wanted.to_ids, wanted.from_ids)
        if is_same_type:
            either = told(wanted.both, wanted.from_ids, wanted.to_ids)
            assert told(index.both, starts, ends) == either


def test_a_topology_that_nothing_changed_stays_the_same() -> None:
    index = topology([("a", "b")], is_same_type=True)
    assert moved_graph_index(index, pairs_of([]), pairs_of([])) is index
    same = moved_graph_index(index, pairs_of([("b", "a")]), pairs_of([("a", "b")]))
    assert same.from_ids is index.from_ids


def test_pairs_are_told_apart_by_both_ends() -> None:
    rest = without_pairs(pairs_of([("a", "b"), ("ab", ""), ("b", "a")]), pairs_of([("a", "b")]))
    assert list(zip(rest.src.to_pylist(), rest.dst.to_pylist(), strict=True)) == [
        ("ab", ""),
        ("b", "a"),
    ]
