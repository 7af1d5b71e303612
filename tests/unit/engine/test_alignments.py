"""Alignments: the same places whether ids are looked up one by one or all at once."""

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.graph.arrays import Ids, Numbers
from omnigraph.graph.query import topology
from omnigraph.graph.query.topology import ABSENT, Alignments


def test_places_are_the_same_before_and_after_all_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = pa.array([f"p{number:04}" for number in range(0, 3_000, 2)])
    other = pa.array([f"p{number:04}" for number in range(0, 3_000, 3)])
    numbers = np.arange(0, 3_000, 2)
    wanted = np.where(numbers % 3, ABSENT, numbers // 3)
    alignments = Alignments()
    looked_up: list[int] = []
    find = topology.find_ids

    def counted(among: Ids, texts: Ids) -> Numbers:
        looked_up.append(len(texts))
        return find(among, texts)

    monkeypatch.setattr(topology, "find_ids", counted)
    for start in range(0, 60, 6):
        at = np.arange(start, start + 6)
        assert alignments.find(ids, other, at).tolist() == wanted[at].tolist()
    # A few at a time, until that has cost as much as all of them; then never again.
    assert looked_up == [6, 6, 6, len(ids)]
    assert alignments.between(ids, other).tolist() == wanted.tolist()
    assert alignments.find(ids, other, np.array([1_499, 0])).tolist() == wanted[[1_499, 0]].tolist()
    assert looked_up == [6, 6, 6, len(ids)]
