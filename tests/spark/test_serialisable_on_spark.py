"""Loads on Spark that overtake others or are overtaken: one order of both explains the result.

What the orders give is found out without Spark: a load gives the same in both lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.race.operations import OPERATIONS, Load
from tests.race.serial_orders import PLACES, Arenas, require_serial
from tests.race.spark_operations import LANES, SparkOperation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.race.serial_orders import Overtaking

    from omnigraph.pipeline.spark.session import PipelineSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

APPENDS = [
    ("append_q1", "insert_q2_same_email"),
    ("append_edge_p1", "insert_edge_p1_p4"),
    ("append_q1", "upsert_q1"),
    ("append_q1", "update_p1_email"),
    ("append_edge_p1", "delete_p5"),
    ("append_member", "delete_members_of_t0"),
    ("append_q1", "write_append_q1"),
    ("append_q1", "append_q1"),
    ("append_edge_p1", "merge_moves_k6"),
    ("append_member", "overwrite_members"),
    ("append_q1", "indexes"),
]
MERGES = [
    ("merge_p5", "insert_q1_same_email"),
    ("merge_moves_k6", "insert_edge_p1_p4"),
    ("merge_q1", "upsert_q1"),
    ("merge_p5", "update_p1_email"),
    ("merge_moves_k6", "delete_p1"),
    ("merge_moves_k6", "delete_edge_k5"),
    ("merge_moves_l2", "delete_edge_l1"),
    ("merge_moves_k6", "write_delete_k5"),
    ("merge_q1", "append_q1"),
    ("merge_moves_k6", "merge_moves_k6"),
    ("merge_p5", "overwrite_people"),
    ("merge_p5", "indexes"),
]
UPDATES = [
    ("update_load_p5", "insert_q1_same_email"),
    ("update_load_moves_k6", "insert_edge_p1_p4"),
    ("update_load_people", "upsert_p5"),
    ("update_load_p5", "update_p1_email"),
    ("update_load_people", "update_old"),
    ("update_load_people", "delete_p1"),
    ("update_load_moves_l2", "delete_edge_l1"),
    ("update_load_moves_k6", "write_delete_k5"),
    ("update_load_p5", "append_q1"),
    ("update_load_p5", "merge_p5"),
    ("update_load_people", "update_load_people"),
    ("update_load_p5", "overwrite_people"),
    ("update_load_p5", "indexes"),
]
OVERWRITES = [
    ("overwrite_people", "insert_node"),
    ("overwrite_people", "insert_edge_p5_p6"),
    ("overwrite_people", "upsert_q1"),
    ("overwrite_people", "update_old"),
    ("overwrite_members", "delete_p5"),
    ("overwrite_knows", "delete_edge_k6"),
    ("overwrite_knows", "write_move_k6"),
    ("overwrite_members", "append_member"),
    ("overwrite_people", "merge_q1"),
    ("overwrite_people", "overwrite_people"),
    ("overwrite_knows", "indexes"),
]
PAIRS = [*APPENDS, *MERGES, *UPDATES, *OVERWRITES]
"""Each mode beside each kind of write, where they meet."""

STAGED = [
    *((pair, lane) for lane in ("driver", "whole", "joins") for pair in PAIRS),
    *((pair, "executors") for pair in [*MERGES, *UPDATES]),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arenas")


@pytest.fixture
def on_spark(session: PipelineSession) -> Callable[[str, str], SparkOperation]:
    """A load of `OPERATIONS` on Spark, in a lane of `LANES`."""
    session.require_alive()

    def made(name: str, lane: str) -> SparkOperation:
        load = OPERATIONS[name]
        assert isinstance(load, Load)
        return SparkOperation(load, LANES[lane], session)

    return made


def arenas_for(shared: Path, pair: tuple[str, str], lane: str) -> Arenas:
    """The places take turns."""
    number = PAIRS.index(pair) + list(LANES).index(lane)
    return Arenas(shared, PLACES[number % len(PLACES)])


def judge(arenas: Arenas, found: Overtaking, staged: str, faster: str) -> None:
    one, other = OPERATIONS[staged], OPERATIONS[faster]
    require_serial(found, arenas.in_order(one, other), arenas.in_order(other, one))


@pytest.mark.parametrize(
    ("pair", "lane"),
    STAGED,
    ids=lambda given: given if isinstance(given, str) else "-".join(given),
)
def test_a_load_on_spark_that_is_overtaken_comes_before_or_after_the_other(
    pair: tuple[str, str],
    lane: str,
    shared: Path,
    on_spark: Callable[[str, str], SparkOperation],
) -> None:
    load, other = pair
    arenas = arenas_for(shared, pair, lane)
    judge(arenas, arenas.overtaking(on_spark(load, lane), OPERATIONS[other]), load, other)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_write_that_a_load_on_spark_overtakes_comes_before_or_after_it(
    pair: tuple[str, str], shared: Path, on_spark: Callable[[str, str], SparkOperation]
) -> None:
    load, other = pair
    arenas = arenas_for(shared, pair, "driver")
    judge(arenas, arenas.overtaking(OPERATIONS[other], on_spark(load, "driver")), other, load)


@pytest.mark.parametrize("name", ["append_q1", "merge_moves_k6", "overwrite_people"])
def test_of_two_loads_on_spark_one_comes_before_the_other(
    name: str, shared: Path, on_spark: Callable[[str, str], SparkOperation]
) -> None:
    arenas = Arenas(shared, "main")
    staged, faster = on_spark(name, "driver"), on_spark(name, "driver")
    judge(arenas, arenas.overtaking(staged, faster), name, name)
