"""Every pair of writes, one overtaken by the other: the result is that of one of their orders."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest
from tests.race.operations import OPERATIONS
from tests.race.serial_orders import PLACES, Arenas, Place, require_serial

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = list(combinations_with_replacement(OPERATIONS, 2))

SHARP = [
    # Two deletes that each leave an edge, and together none.
    ("delete_edge_k5", "delete_edge_k6"),
    ("merge_moves_k6", "delete_edge_k5"),
    # Two edges that each fit, and together do not.
    ("append_edge_p1", "insert_edge_p1_p4"),
    # One value, one pair of values, one key for two.
    ("insert_q1_same_email", "update_p1_email"),
    ("update_p5_desk", "insert_q2_same_desk"),
    ("write_append_q1", "append_q1"),
    # An edge to a node that goes, and a node that goes with an edge too few.
    ("insert_edge_p1_p5", "delete_p5"),
    ("delete_p5", "insert_node_with_edge"),
    ("overwrite_people", "insert_edge_p5_p6"),
    ("indexes", "update_old"),
    # A row that keeps what another one changes, that goes, or that takes what another one has.
    ("update_load_p5", "upsert_p5"),
    ("update_load_p5", "delete_p5"),
    ("update_load_p5", "insert_q1_same_email"),
    ("update_load_moves_k6", "delete_edge_k5"),
]
"""Staged, and made meanwhile: the conflicts that a read set must not miss."""

SHARPEST = [SHARP[0], SHARP[2], SHARP[4], SHARP[6]]
"""One of each kind, and one at least at every place."""

UNRELATED = [
    ("update_p1_age", "insert_node"),
    ("update_p1_age", "upsert_p5"),
    ("update_p1_email", "insert_q2_same_desk"),
    ("delete_p5", "insert_edge_p1_p4"),
    ("write_delete_k5", "append_member"),
    ("write_overwrite_leads", "update_p1_age"),
    ("update_load_p5", "insert_edge_p1_p4"),
    ("update_load_moves_l2", "update_p1_email"),
]
"""Staged, and made meanwhile: nothing that one asks or writes is written by the other."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arenas")


@pytest.mark.parametrize(
    ("pair", "place"),
    [
        pytest.param(
            pair,
            PLACES[number % len(PLACES)],
            marks=() if pair in SHARPEST else pytest.mark.extended,
        )
        for number, pair in enumerate(SHARP)
    ],
    ids=lambda given: given if isinstance(given, str) else "-".join(given),
)
def test_a_write_that_is_overtaken_comes_before_or_after_the_other(
    pair: tuple[str, str], place: Place, shared: Path
) -> None:
    staged, faster = (OPERATIONS[each] for each in pair)
    arenas = Arenas(shared, place)
    found = arenas.overtaking(staged, faster)
    require_serial(found, arenas.in_order(staged, faster), arenas.in_order(faster, staged))


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(pair, marks=() if number % 2 == 0 else pytest.mark.extended)
        for number, pair in enumerate(UNRELATED)
    ],
    ids="-".join,
)
def test_a_write_that_another_does_not_concern_is_not_refused(
    pair: tuple[str, str], shared: Path
) -> None:
    staged, faster = (OPERATIONS[each] for each in pair)
    found = Arenas(shared, "main").overtaking(staged, faster)
    assert (found.staged.refusal, found.faster.refusal) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_of_any_two_writes_one_order_explains_both(
    pair: tuple[str, str], place: Place, shared: Path
) -> None:
    one, other = (OPERATIONS[each] for each in pair)
    arenas = Arenas(shared, place)
    straight, turned = arenas.in_order(one, other), arenas.in_order(other, one)
    assert {straight.one.refusal, turned.one.refusal} == {()}, "each is accepted where it is alone"
    require_serial(arenas.overtaking(one, other), straight, turned)
    if one is not other:
        require_serial(arenas.overtaking(other, one), turned, straight)
