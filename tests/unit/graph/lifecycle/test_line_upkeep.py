"""Lines of the manifest stay short, and what is removed is missed by nobody."""

import os
import time
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import Opened, Watcher, names, state, upsert

from omnigraph.errors import BranchBusy
from omnigraph.graph.lifecycle import line_upkeep
from omnigraph.graph.lifecycle.line_upkeep import TIERS, VERSIONS_KEPT, WIDTH, rows_to_join
from omnigraph.graph.manifest.manifest_line import read_line
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.files import version_name
from omnigraph.storage.version_files import cleaned_upto


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], None),
        ([3] * (WIDTH - 1), None),
        ([3] * WIDTH, TIERS[0]),
        ([64] * WIDTH + [3] * WIDTH, TIERS[1]),
        ([64] * (WIDTH - 1) + [3] * (WIDTH - 1), None),
        ([20_000] * WIDTH, TIERS[3]),
        ([TIERS[3]] * 100, None),
    ],
)
def test_fragments_are_joined_when_a_tier_is_full(sizes: list[int], expected: int | None) -> None:
    assert rows_to_join(sizes, WIDTH) == expected


def test_a_row_is_written_once_for_each_tier_however_long_the_history_gets() -> None:
    sizes: list[int] = []
    written = most = 0
    commits = 100_000
    for _ in range(commits):
        sizes.append(3)
        below = rows_to_join(sizes, WIDTH)
        if below is not None:
            joined = sum(size for size in sizes if size < below)
            sizes = [size for size in sizes if size >= below] + [joined]
            written += joined
        most = max(most, len(sizes))
    assert written / (3 * commits) < len(TIERS)
    assert most <= WIDTH * len(TIERS)


@pytest.mark.parametrize("steps", thinned([16, 40]))
def test_a_line_that_follows_others_equals_a_fresh_read(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(line_upkeep, "TIERS", (12, 40, 16_384, 262_144))
    chance = Random(7)  # noqa: S311 - a seeded run
    writer = graphs.init()
    writer._graph.upkeep._width = 4
    follower, lazy = graphs.open(), graphs.read_only()
    live: list[str] = []
    for number in range(steps):
        match chance.randrange(6):
            case 0:
                live.append(writer.branches.create(f"b{number}").name)
            case 1 if live:
                writer.branches.delete(live.pop(0))
            case 2 if live:
                upsert(chance.choice([writer, follower]), f"p{number}", branch=live[-1])
            case _:
                upsert(chance.choice([writer, follower]), f"p{number}")
        if chance.random() < 0.5:
            assert names(follower) == names(writer)
        for graph in (writer, follower, *([lazy] if number % 8 == 7 else [])):
            storage, parts = graph._graph.storage.manifest, graph._graph
            for branch_id in (MAIN_BRANCH_ID, *(parts.branch_id(each) for each in live)):
                followed = parts.lines.read(branch_id)
                fresh = read_line(storage, storage.open_line(branch_id))
                assert followed.handle.version == fresh.handle.version
                assert followed.tip == fresh.tip
    assert writer._graph.lines.read(MAIN_BRANCH_ID).handle.fragments < 12


def manifest_calls(graphs: Opened, commits: int) -> list[str]:
    """What the next one-row write of a graph with so many commits asks of the manifest."""
    watcher = Watcher()
    graph = graphs.coordinated(observer=watcher)
    while graph.snapshot().seq < commits:
        upsert(graph, f"p{graph.snapshot().seq}")
    graph._graph.storage.manifest.compact(graph._graph.lines.read(MAIN_BRANCH_ID).handle)
    upsert(graph, "warm")
    watcher.calls.clear()
    insert = 'query one() { insert Person { name: "one" } }'
    graph.mutate(insert, idempotency_key=f"key-{commits}")
    return [each.operation for each in watcher.calls if "__manifest" in each.target]


@pytest.mark.parametrize("more", thinned([WIDTH + 4, 70]))
def test_a_write_reads_no_history_after_ten_or_after_more_commits(
    graphs: Opened, more: int
) -> None:
    graphs.init()
    short, long = (manifest_calls(graphs, commits) for commits in (10, more))
    assert short == long
    assert short.count("stage") == short.count("merge") == 1
    assert short.count("scan") <= 1, "the keys of the last commits, once in a process"
    assert "take" not in short


def test_a_list_of_untouched_branches_opens_none_of_them(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    for number in range(9):
        graph.branches.create(f"b{number}")
    upsert(graph, "c", branch="b4")
    watcher = Watcher()
    other = graphs.coordinated(observer=watcher)
    other.snapshot()
    watcher.calls.clear()
    listed = other.branches.list()
    assert [each.name for each in listed] == ["main", *(f"b{number}" for number in range(9))]
    assert [each.operation for each in watcher.calls].count("open") == 1, "the one that was written"
    assert listed[5].tables_owned == ("node:Person",)
    assert {each.head for each in listed if each.name != "b4"} == {listed[0].head}
    assert listed == graph.branches.list()


def age_versions(root: Path, branch: str | None = None) -> Path:
    """Every version of a line as if it had been made two hours ago."""
    line = root / "__manifest" if branch is None else root / "__manifest" / "tree" / branch
    old = time.time() - 7_200  # noqa: TID251 - what the file system is told
    for path in (line / "_versions").glob("*.manifest"):
        os.utime(path, (old, old))
    return line


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_upkeep, "FEWEST_REMOVED", 1)
    monkeypatch.setattr(line_upkeep, "VERSIONS_KEPT", 3)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("branch", thinned(["rev", "main"]))
def test_old_versions_go_and_no_reader_or_writer_notices(graphs: Opened, branch: str) -> None:
    graph, other = graphs.init(), graphs.open()
    if branch != "main":
        graph.branches.create(branch)
    for number in range(12):
        upsert(graph, f"p{number}", branch=branch)
        if number == 3:
            graph.branches.create("held", from_=branch)
            before = state(other.snapshot(branch=branch))
    branch_id = graph._graph.branch_id(branch)
    line = age_versions(graphs.root, None if branch == "main" else f"b-{branch_id}")
    history = [each.graph_commit_id for each in graph.commits.list(branch=branch)]
    newest = graph._graph.lines.read(branch_id).handle.version
    removed = graph._graph.upkeep.clean(branch_id)
    assert removed >= 6
    assert cleaned_upto(line) == newest - 3
    kept = sorted(path.name for path in (line / "_versions").glob("*.manifest"))
    assert len(kept) <= 5, "the newest, and where branches start"
    for reader in (other, graphs.read_only()):
        assert names(reader, branch) == sorted(f"p{number}" for number in range(12))
        assert state(reader.snapshot(branch="held")) == before
        listed = [each.graph_commit_id for each in reader.commits.list(branch=branch)]
        assert listed == history
        assert state(reader.snapshot(at=4, branch=branch)) == before
    upsert(other, "late", branch=branch)
    assert "late" in names(graph, branch)


@pytest.mark.usefixtures("few")
def test_young_versions_and_the_newest_stay(graphs: Opened) -> None:
    graph = graphs.init()
    for number in range(6):
        upsert(graph, f"p{number}")
    assert graph._graph.upkeep.clean(MAIN_BRANCH_ID) == 0, "all are younger than an hour"
    line = age_versions(graphs.root)
    handle = graph._graph.lines.read(MAIN_BRANCH_ID).handle
    assert graph._graph.upkeep.clean(MAIN_BRANCH_ID) == handle.version - 3
    for version in range(handle.version - 2, handle.version + 1):
        assert (line / "_versions" / version_name(version)).exists()
    assert (VERSIONS_KEPT, line_upkeep.YOUNGEST_REMOVED_US) == (20, 3_600_000_000)


def test_a_few_old_versions_are_not_worth_reading_all(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_upkeep, "VERSIONS_KEPT", 3)
    graph = graphs.init()
    for number in range(8):
        upsert(graph, f"p{number}")
    age_versions(graphs.root)
    assert graph._graph.upkeep.clean(MAIN_BRANCH_ID) == 0


@pytest.mark.usefixtures("few")
def test_only_one_process_removes_versions_at_a_time(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    with other._graph.leases.holding(MAINTENANCE_SCOPE), pytest.raises(BranchBusy):
        graph._graph.upkeep.clean(MAIN_BRANCH_ID)


@pytest.mark.usefixtures("few")
def test_removal_happens_by_itself_when_a_higher_tier_is_joined(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_upkeep, "TIERS", (12, 200, 16_384, 262_144))
    graph = graphs.init()
    graph._graph.upkeep._width = 3
    cleaned: list[BranchId] = []
    monkeypatch.setattr(graph._graph.upkeep, "_clean_quietly", cleaned.append)
    for number in range(30):
        upsert(graph, f"p{number}")
    assert cleaned == [MAIN_BRANCH_ID], "once, and then not again for ten minutes"
