"""What whoever watches a job is told of its stages: shares while tasks run, then exact figures."""

import pyarrow as pa

from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.jobs.stage_teller import Amount, StageTeller
from omnigraph.pipeline.spark.lanes import LocalLane

NUMBERS = pa.schema({"number": pa.int64()})


def test_a_stage_of_several_inputs_adds_up_their_bytes_and_ends_with_exact_figures() -> None:
    told: list[StageProgress] = []
    teller = StageTeller(told.append)
    teller.enter("intake", Amount(size_bytes=300))
    teller.tell_tasks("intake", 1, 2, Amount(size_bytes=100), spark_stages=1)
    teller.tell_tasks("intake", 2, 2, Amount(size_bytes=100), spark_stages=0)
    teller.reach(Amount(rows=7, size_bytes=100))
    teller.tell_tasks("intake", 1, 4, Amount(size_bytes=200), spark_stages=1)
    teller.reach(Amount(rows=9, size_bytes=300))
    assert [(each.bytes, each.rows) for each in told] == [
        (None, None),
        (50, None),
        (100, None),
        (100, 7),
        (150, 7),
        (300, 9),
    ]
    assert {each.total_bytes for each in told} == {300}


def test_an_action_of_another_stage_is_told_by_itself_and_changes_nothing() -> None:
    told: list[StageProgress] = []
    teller = StageTeller(told.append)
    teller.enter("check", Amount(rows=10))
    teller.tell_tasks("intake", 1, 2, Amount(rows=4))
    teller.tell_tasks("check", 3, 8, spark_stages=2)
    assert told[1:] == [
        StageProgress(stage="intake", done=1, total=2, rows=2, total_rows=4),
        StageProgress(stage="check", done=3, total=8, total_rows=10, spark_stages=2),
    ]


def test_a_new_stage_starts_from_nothing() -> None:
    told: list[StageProgress] = []
    teller = StageTeller(told.append)
    teller.enter("intake")
    teller.reach(Amount(rows=5, size_bytes=50))
    teller.enter("resolve", Amount(rows=5))
    assert told[-1] == StageProgress(stage="resolve", total_rows=5)


def test_tasks_in_this_process_are_told_one_by_one() -> None:
    told: list[StageProgress] = []
    lane = LocalLane(teller=StageTeller(told.append))
    lane.run("embed", [1, 2], lambda _: [], NUMBERS, work=Amount(rows=6))
    assert [(each.done, each.total, each.rows) for each in told] == [
        (0, 2, 0),
        (1, 2, 3),
        (2, 2, 6),
    ]
    assert {each.spark_stages for each in told} == {None}
    told.clear()
    LocalLane(teller=StageTeller(told.append)).run("intake", [1], lambda _: [], NUMBERS)
    assert [(each.stage, each.done, each.total) for each in told] == [
        ("intake", 0, 1),
        ("intake", 1, 1),
    ]


def test_a_stage_without_tasks_tells_nothing() -> None:
    told: list[StageProgress] = []
    assert LocalLane(teller=StageTeller(told.append)).run("embed", [], lambda _: [], NUMBERS) == []
    assert told == []
