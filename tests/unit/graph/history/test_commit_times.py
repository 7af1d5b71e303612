"""Commits have a time of their own, and are found by it without their history being read."""

import bisect
from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    killed_at,
    merge_rows,
    state,
    upsert,
)

from omnigraph import Graph
from omnigraph.clock import ManualClock
from omnigraph.errors import CommitNotFound, InvalidArgument
from omnigraph.graph.history.commit_times import newest_until
from omnigraph.graph.history.target_texts import (
    TargetKind,
    kind_of,
    microseconds_of,
    parse_time,
    time_text,
)
from omnigraph.graph.manifest.rows import CommitRow, HeadRow
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID, CommitId, OperationId

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
NOON_US = microseconds_of(NOON)


def times(graph: Graph, branch: str = "main") -> list[int]:
    return [each.committed_at for each in graph.commits.list(branch=branch, all=True)][::-1]


def at(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def test_every_commit_is_later_than_the_one_before_whatever_the_clock_does(graphs: Opened) -> None:
    start = graphs.init().commits.get(0)
    assert start.committed_at == start.created_at
    clock = ManualClock(now_us=start.committed_at + 1_000)
    graph = graphs.coordinated(clock=clock)
    made = [upsert(graph, "a"), upsert(graph, "b")]
    clock.jump_to(now_us=start.committed_at - 5_000)
    made.append(upsert(graph, "c"))
    offsets = [commit.committed_at - start.committed_at for commit in made]
    assert offsets == [1_000, 1_001, 1_002]
    assert made[2].created_at == start.committed_at - 5_000
    assert times(graphs.open()) == [start.committed_at, *(each.committed_at for each in made)]
    table = graph.system("graph_commits")
    assert {each.as_py() for each in table["committed_at"]} == set(map(at, times(graph)))


def test_a_commit_that_a_recovery_publishes_has_the_time_of_the_recovery(graphs: Opened) -> None:
    graph = graphs.init()
    start = graph.snapshot().graph_commit_id
    clock = ManualClock(now_us=graph.commits.get(start).committed_at + 10)
    with killed_at("mutation.post_table_commit"), pytest.raises(Killed):
        upsert(graphs.coordinated(clock=clock), "a")
    clock.advance(us=3_600_000_000)
    later = graphs.coordinated(clock=clock)
    (commit, _) = later.commits
    assert commit.recovered
    assert commit.committed_at == clock.now_us()
    assert commit.created_at < commit.committed_at - 3_000_000_000


def test_a_time_is_the_newest_commit_that_is_not_after_it(graphs: Opened) -> None:
    graph = graphs.init()
    for name in "abc":
        upsert(graph, name)
    first, *_, last = moments = times(graph)
    for seq, moment in enumerate(moments):
        for target in (at(moment), at(moment).replace(tzinfo=None), time_text(moment)):
            assert graph.snapshot(target).seq == seq
    assert graph.snapshot(at(moments[2] - 1)).seq == 1
    assert graph.snapshot(at(last).astimezone(timezone(timedelta(hours=5, minutes=30)))).seq == 3
    assert graph.snapshot(datetime(9999, 1, 1, tzinfo=UTC)).seq == 3
    named = time_text(moments[1])
    assert graph.commits.get(named).graph_manifest_version == 1
    assert [change.id for change in graph.diff(at(moments[1]), named.lower())] == []
    assert len(graph.changes.poll(start=f"after:{named}").blocks) == 2
    assert graph.tags.create("then", at(moments[1])).graph_manifest_version == 1
    whole = f"its commits go from {time_text(first)} to {time_text(last)}"
    for before in (at(first - 1), "1969-07-20", "0001-01-01T00:00+14:00"):
        for read in (graph.snapshot, lambda target: graph.diff(target, "main")):
            with pytest.raises(CommitNotFound, match=whole):
                read(before)


def test_a_branch_has_the_times_that_it_inherited_and_a_merge_keeps_those_that_it_copies(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    own = upsert(graph, "b", branch="rev")
    main = upsert(graph, "c")
    assert graph.snapshot(at(own.committed_at), branch="rev").graph_commit_id == own.graph_commit_id
    assert graph.snapshot(at(own.committed_at - 1), branch="rev").seq == 1
    assert graph.snapshot(at(own.committed_at)).seq == 1
    assert state(graph.snapshot(at(main.committed_at)))["Person"].keys() == {"a", "c"}
    graph.branches.merge("rev", delete_branch=True)
    assert graph.commits.get(own.graph_commit_id).committed_at == own.committed_at


def test_few_reads_find_a_time_in_a_long_history(graphs: Opened) -> None:
    genesis = graphs.init().commits.get(0)
    count = 5_000
    known = [genesis.committed_at + 10 * seq for seq in range(count + 1)]
    commits = [
        CommitRow(
            commit_id=CommitId(f"01J{seq:023d}"),
            seq=seq,
            kind="mutation",
            schema_hash=genesis.schema_hash,
            operation_id=OperationId(f"01K{seq:023d}"),
            authored_at=1,
            committed_at=known[seq],
            authored_branch=MAIN_BRANCH,
        )
        for seq in range(1, count + 1)
    ]
    head = HeadRow(commit_id=commits[-1].commit_id, seq=count, branch_id=MAIN_BRANCH_ID)
    merge_rows(graphs.storage(), [*commits, head])
    watcher = Watcher()
    line = graphs.coordinated(observer=watcher)._graph.lines.read(MAIN_BRANCH_ID)
    for offset in (0, 5, 9, 10, 11, 7_777, 25_003, 49_980, 49_999):
        watcher.calls.clear()
        found = newest_until(line, genesis.committed_at + offset)
        assert found is not None
        assert found.seq == bisect.bisect_right(known, genesis.committed_at + offset) - 1
        assert [call.operation for call in watcher.calls].count("scan") <= 3
    watcher.calls.clear()
    assert newest_until(line, known[-1]) == line.head_commit
    assert newest_until(line, known[0] - 1) is None
    assert [call.operation for call in watcher.calls].count("scan") <= 3


def test_the_missing_time_of_a_data_frame_names_no_commit(graphs: Opened) -> None:
    """It is a `datetime` that compares with nothing, so it would be found anywhere."""
    graph = graphs.init()
    upsert(graph, "p0")
    with pytest.raises(InvalidArgument, match="missing"):
        graph.snapshot(at=pytest.importorskip("pandas").NaT)


@pytest.mark.parametrize(
    ("text", "moment"),
    {
        "2026-11-18": NOON - timedelta(hours=12),
        "2026-11-18T12:00": NOON,
        "2026-11-18 12:00:00Z": NOON,
        "2026-11-18t12:00:00.5z": NOON + timedelta(milliseconds=500),
        "2026-11-18T12:00:00,000001": NOON + timedelta(microseconds=1),
        "2026-11-18T14:30:00+02:30": NOON,
        "2026-11-18T07:00-0500": NOON,
    }.items(),
)
def test_a_text_of_a_time_is_read_with_its_zone_or_in_utc(text: str, moment: datetime) -> None:
    assert kind_of(text) is TargetKind.TIME
    assert microseconds_of(parse_time(text)) == microseconds_of(moment)


@pytest.mark.parametrize("text", ["2026-13-01", "2026-02-30", "2026-11-18T25:00", "0000-01-01"])
def test_a_time_that_does_not_exist_is_an_invalid_argument(graphs: Opened, text: str) -> None:
    with pytest.raises(InvalidArgument, match="form of a time"):
        graphs.init().snapshot(text)


@pytest.mark.parametrize("text", ["2026", "2026-11", "20261118", "2026-11-18T12", "2026-11-18-rc"])
def test_other_texts_with_digits_are_no_times(text: str) -> None:
    assert kind_of(text) is not TargetKind.TIME
