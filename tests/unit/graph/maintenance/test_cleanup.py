"""`cleanup`: old versions go, and nothing that anybody may need; each floor by itself."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    age_files,
    committed,
    killed_at,
    names,
    once,
    people,
    require_settled,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchBusy,
    ChangeFeedGap,
    InvalidArgument,
    OmnigraphError,
    ReadOnlyGraph,
    RecoveryBlocked,
    SnapshotReclaimed,
)
from omnigraph.failpoints import armed
from omnigraph.graph.jobs.pins import pin_for_job
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.maintenance import cleanup, cleanup_facts
from omnigraph.graph.maintenance.cleanup_facts import CleanupFacts, gather_facts, needed_now
from omnigraph.graph.maintenance.cleanup_report import CleanupReport
from omnigraph.graph.maintenance.kept_versions import (
    CleanupPolicy,
    LineFacts,
    kept_versions,
    parse_policy,
    removable_versions,
)
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.settings import load_settings
from omnigraph.storage.old_versions import VersionFile

UNFOLDED = {"AUTO_MAINTENANCE": "0"}
HOUR = 3600
DAY = 24 * HOUR


def stored(count: int, *, age_s: int = DAY) -> tuple[VersionFile, ...]:
    """Versions 1 to `count`, the newest of the given age, each a minute after the one before."""
    return tuple(
        VersionFile(
            version=number, made_us=-(age_s + (count - number) * 60) * 1_000_000, size_bytes=1
        )
        for number in range(1, count + 1)
    )


def going(facts: LineFacts, keep: int | None = 3, older_than_us: int | None = None) -> list[int]:
    return removable_versions(facts, CleanupPolicy(keep=keep, older_than_us=older_than_us), 0)


FLOORS: Mapping[str, tuple[LineFacts, set[int]]] = {
    "head": (LineFacts(versions=stored(9), pin=5), {5, 6, 7, 8, 9}),
    "heads": (LineFacts(versions=stored(9), pin=9, named={"heads": frozenset({2})}), {2, 7, 8, 9}),
    "forks": (LineFacts(versions=stored(9), pin=9, named={"forks": frozenset({1})}), {1, 7, 8, 9}),
    "pins": (LineFacts(versions=stored(9), pin=9, named={"pins": frozenset({3})}), {3, 7, 8, 9}),
    "sidecars": (
        LineFacts(versions=stored(9), pin=9, named={"sidecars": frozenset({4})}),
        {4, 7, 8, 9},
    ),
    "tags": (LineFacts(versions=stored(9), pin=9, named={"tags": frozenset({5})}), {5, 7, 8, 9}),
    "newest": (LineFacts(versions=stored(5), pin=5), {3, 4, 5}),
    "young": (LineFacts(versions=stored(30, age_s=0), pin=30), set(range(20, 31))),
}


@pytest.mark.parametrize("floor", FLOORS)
def test_each_floor_keeps_what_it_names(floor: str) -> None:
    facts, kept = FLOORS[floor]
    assert kept_versions(facts, 0) == kept
    numbers = {each.version for each in facts.versions}
    assert set(going(facts)) == numbers - kept


def test_with_both_rules_a_version_goes_only_if_both_allow() -> None:
    facts = LineFacts(versions=stored(10), pin=10)
    assert going(facts, keep=6) == [1, 2, 3, 4]
    # Version 2 was followed by version 3 a day and seven minutes ago.
    span = (DAY + 7 * 60) * 1_000_000
    assert going(facts, keep=None, older_than_us=span) == [1, 2]
    assert going(facts, keep=9, older_than_us=span) == [1]


@pytest.mark.parametrize(
    ("keep", "older_than"), [(None, None), (-1, None), (None, "7"), (None, "7y"), (None, "-1d")]
)
def test_a_policy_that_says_nothing_is_refused(keep: int | None, older_than: str | None) -> None:
    with pytest.raises(InvalidArgument):
        parse_policy(keep, older_than)


def test_spans_are_read_with_their_unit() -> None:
    spans = {
        text: parse_policy(None, text).older_than_us for text in ("2s", "2m", "2h", "2d", "2w")
    }
    assert spans == {
        text: seconds * 1_000_000
        for text, seconds in zip(spans, (2, 120, 2 * HOUR, 2 * DAY, 14 * DAY), strict=True)
    }
    policy = parse_policy(1, timedelta(days=2))
    assert (policy.keep, policy.older_than_us) == (3, spans["2d"])


# --- on graphs --------------------------------------------------------------------------------


def grown(graphs: Opened, times: int = 8) -> Graph:
    """A graph with a person more in each commit, all of it a day old."""
    graph = graphs.init(AUTO_MAINTENANCE="0")
    for number in range(times):
        upsert(graph, f"p{number}")
    age_files(graphs.root)
    return graph


def versions(root: Path, location: str) -> list[int]:
    found = (root / location / "_versions").glob("*.manifest")
    return sorted(2**64 - 1 - int(each.stem) for each in found if each.stem.isdecimal())


def place(graph: Graph, name: str = "Person", branch: str = "main") -> str:
    (found,) = [
        each for each in graph.snapshot(branch=branch).tables if each.table_key == f"node:{name}"
    ]
    branched = found.native_dataset_branch
    return found.dataset_path if branched is None else f"{found.dataset_path}/tree/{branched}"


def clean(graph: Graph, keep: int = 3, *, confirm: bool = True) -> CleanupReport:
    return graph.maintenance.cleanup(keep=keep, confirm=confirm)


def readable(graph: Graph, branch: str = "main") -> list[int]:
    """The commits whose people can be read."""
    found = []
    for commit in graph.commits.list(branch=branch, all=True):
        try:
            with_people = graph.snapshot(commit.graph_commit_id).scan("Person").read_all()
        except SnapshotReclaimed:
            continue
        found.append(with_people.num_rows)
    return found


def test_old_versions_go_and_a_read_of_them_says_so(graphs: Opened) -> None:
    graph = grown(graphs)
    location = place(graph)
    before = versions(graphs.root, location)
    old = list(graph.commits)[-3].graph_commit_id
    preview = clean(graph, confirm=False)
    assert versions(graphs.root, location) == before
    report = clean(graph)
    assert versions(graphs.root, location) == before[-3:]
    assert (report.confirmed, preview.confirmed) == (True, False)
    (person,) = [each for each in report.tables if each.table_key == "node:Person"]
    (seen,) = [each for each in preview.tables if each.table_key == "node:Person"]
    assert person.old_versions_removed == seen.old_versions_removed == len(before) - 3
    assert person.bytes_removed > 0
    assert person.error is None
    assert names(graph) == [f"p{number}" for number in range(8)]
    with pytest.raises(SnapshotReclaimed):
        graph.snapshot(old).scan("Person")
    with pytest.raises(SnapshotReclaimed):
        graphs.open().snapshot(old).scan("Person")
    with pytest.raises(ChangeFeedGap):
        list(graph.changes.follow(start="beginning"))
    assert clean(graph).tables[0].old_versions_removed == 0
    upsert(graph, "later")
    require_settled(graph)


def test_a_preview_tells_the_bytes_that_are_then_removed(graphs: Opened) -> None:
    """Of old versions themselves, data, indexes and marks of deleted rows, on two lines."""
    graph = graphs.init("node Person { name: String @key  age: I32? @index }", **UNFOLDED)
    for number in range(4):
        upsert(graph, f"p{number}", "both", age=number)
    graph.maintenance.ensure_indices()
    graph.branches.create("rev")
    for branch in ("main", "rev"):
        for number in range(4):
            upsert(graph, f"q{number}", "both", branch=branch, age=number)
        graph.maintenance.optimize(branch=branch)
        upsert(graph, "both", branch=branch, age=9)
        upsert(graph, "last", branch=branch)
    age_files(graphs.root)
    with closing(graphs.read_only()) as reader:
        preview = clean(reader, confirm=False)
    removed = clean(graph)
    assert [each.to_dict() for each in preview.tables] == [
        each.to_dict() for each in removed.tables
    ]
    assert removed.tables[0].bytes_removed > 10_000
    assert clean(graph, confirm=False).tables[0].bytes_removed == 0


def test_a_gap_is_not_taken_for_the_end_of_a_line(graphs: Opened) -> None:
    graph, other = grown(graphs), graphs.open()
    assert names(other) == names(graph)
    graph.tags.create("old", at=list(graph.commits)[-2].graph_commit_id)
    clean(graph)
    upsert(other, "from another process")
    upsert(graphs.open(), "from a new one")
    assert len(names(graph)) == 10
    require_settled(graph)


def test_the_age_counts_from_when_a_version_was_followed_by_another(graphs: Opened) -> None:
    graph = grown(graphs)
    location = place(graph)
    before = versions(graphs.root, location)
    upsert(graph, "now")
    report = graph.maintenance.cleanup(older_than="2h", confirm=True)
    assert report.older_than_s == 2 * HOUR
    # The head of yesterday was in force until now.
    assert versions(graphs.root, location) == [*before[-2:], before[-1] + 1]


def test_a_lazy_branch_keeps_what_it_shares_and_where_it_began(graphs: Opened) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    for number in range(6):
        upsert(graph, f"later{number}")
    age_files(graphs.root)
    clean(graph)
    assert names(graph, "rev") == ["p0", "p1"]
    upsert(graph, "own", branch="rev")
    graph.branches.merge("rev")
    assert "own" in names(graph)


def test_a_head_keeps_what_it_shows_though_nothing_else_names_it(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    for number in range(6):
        upsert(graph, f"later{number}")
    age_files(graphs.root)

    def without_forks(coordinator: GraphCoordinator, **options: int) -> CleanupFacts:
        return replace(gather_facts(coordinator, **options), forks={})

    monkeypatch.setattr(cleanup, "gather_facts", without_forks)
    assert any(each.old_versions_removed for each in clean(graph).tables)
    assert names(graph, "rev") == ["p0", "p1"]


def test_a_branch_keeps_the_base_of_its_merge(graphs: Opened) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    for number in range(6):
        upsert(graph, f"own{number}", branch="rev")
        upsert(graph, f"later{number}")
    age_files(graphs.root)
    clean(graph)
    assert len(versions(graphs.root, place(graph, branch="rev"))) == 3
    graph.branches.merge("rev")
    assert len(names(graph)) == 14


@pytest.mark.parametrize("other", ["_fork_points", "_line_starts"])
def test_where_a_branch_began_is_told_by_its_row_and_by_its_lines_of_tables(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    snapshot = graph.snapshot(branch="rev")
    began = snapshot.pin(snapshot.type("Person"))
    upsert(graph, "own", branch="rev")
    upsert(graph, "later")
    monkeypatch.setattr(cleanup_facts, other, lambda *_: {})
    assert gather_facts(graph._graph).forks[began.location, None] == {began.version}


@pytest.mark.extended
@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
def test_branches_that_were_merged_keep_the_base_of_their_next_merge(
    graphs: Opened, *, back: bool
) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    for number in range(3):
        upsert(graph, f"own{number}", branch="rev")
        upsert(graph, f"later{number}")
        graph.branches.merge("rev")
        if back:
            graph.branches.merge("main", into="rev")
    for number in range(6):
        upsert(graph, f"more{number}", branch="rev")
        upsert(graph, f"newer{number}")
    base = graph.branches.merge_plan("rev").base_commit_id
    age_files(graphs.root)
    clean(graph)
    other = graphs.open()
    assert other.branches.merge_plan("rev").base_commit_id == base
    upsert(other, "own0", branch="rev", age=7)
    # Both have `own0`, and only one has changed it since: a base that is older would not tell.
    assert other.branches.merge_plan("rev").conflict_count == 0
    other.branches.merge("rev")
    assert len(names(other)) == 20


def test_a_running_job_keeps_what_it_reads_and_a_dead_one_does_not(graphs: Opened) -> None:
    graph = grown(graphs)
    coordinator = graph._graph
    old = list(graph.commits)[-3].graph_commit_id
    snapshot = graph.snapshot(old)
    settings = load_settings({}).storage
    pin = pin_for_job(
        coordinator.storage.objects, coordinator.clock, settings, operation_id="job", kind="export"
    )
    with pin:
        pin.hold([snapshot.handle(snapshot.type("Person"))])
        clean(graph)
        assert graph.snapshot(old).scan("Person").read_all().num_rows == 2
        path = graphs.root / "__leases" / "pins" / "pin-job.json"
        dead = json.loads(path.read_bytes()) | {"pid": 2**22 + 1}
    path.write_text(json.dumps(dead))
    report = clean(graph)
    assert [each.kind for each in report.leftovers] == ["expired pin"]
    assert not path.exists()
    with pytest.raises(SnapshotReclaimed):
        graph.snapshot(old).scan("Person").read_all()


@pytest.mark.parametrize(
    "read",
    [lambda graph: graph.export(), lambda graph: iter(graph.changes.baseline())],
    ids=["export", "baseline"],
)
def test_an_export_keeps_what_it_reads_until_it_ends(
    graphs: Opened, read: Callable[[Graph], Iterator[bytes]]
) -> None:
    graph = graphs.init(AUTO_MAINTENANCE="0")
    wide = [f"p{number:04}{'x' * 1_000}" for number in range(4_000)]
    upsert(graph, *wide)
    stream = read(graph)
    first = next(stream)
    for number in range(4):
        with graph.write() as writer:
            writer.overwrite("Person", people(f"later{number}"))
            writer.commit()
    age_files(graphs.root)
    clean(graph)
    exported = b"".join([first, *stream])
    assert exported.count(b'"Person"') == len(wide)
    report = clean(graph)
    assert not report.leftovers
    assert any(each.old_versions_removed for each in report.tables)


def test_a_pin_that_comes_after_the_first_look_counts(graphs: Opened) -> None:
    graph = grown(graphs)
    coordinator = graph._graph
    old = list(graph.commits)[-3].graph_commit_id
    snapshot = graph.snapshot(old)
    pin = pin_for_job(
        coordinator.storage.objects,
        coordinator.clock,
        load_settings({}).storage,
        operation_id="late",
        kind="export",
    )
    handle = snapshot.handle(snapshot.type("Person"))
    with pin, armed("cleanup.post_floor_pre_gc", once(lambda: pin.hold([handle]))):
        clean(graph)
    assert graph.snapshot(old).scan("Person").read_all().num_rows == 2


def test_a_tag_keeps_what_it_names(graphs: Opened) -> None:
    graph = grown(graphs)
    graph.tags.create("release", at=list(graph.commits)[-3].graph_commit_id)
    clean(graph)
    assert readable(graph) == [8, 7, 6, 2]
    graph.tags.delete("release")
    clean(graph)
    assert readable(graph) == [8, 7, 6]


def test_a_write_that_was_armed_keeps_what_it_expects(graphs: Opened) -> None:
    graph = grown(graphs)
    snapshot = graph.snapshot()
    pin = snapshot.pin(snapshot.type("Person"))
    with killed_at("mutation.post_phase_a"), pytest.raises(Killed):
        upsert(graph, "cut off")
    needed = needed_now(graph._graph)["sidecars"]
    assert needed == {(pin.location, None): {pin.version, pin.version + 1}}
    age_files(graphs.root)
    armed = graphs.root / "__recovery" / "main"
    clean(graph, confirm=False)
    assert len(list(armed.iterdir())) == 1, "who looks settles nothing"
    clean(graph)
    assert not list(armed.iterdir()), "it is settled first"
    assert names(graph) == [f"p{number}" for number in range(8)]
    upsert(graph, "next")
    require_settled(graph)


def test_what_a_sidecar_names_stays_though_nothing_else_names_it(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = grown(graphs)
    location = place(graph)
    monkeypatch.setattr(cleanup_facts, "_armed", lambda _: {(location, None): {2}})
    before = versions(graphs.root, location)
    clean(graph)
    assert versions(graphs.root, location) == [2, *before[-3:]]


def test_a_sidecar_that_cannot_be_read_stops_everything(graphs: Opened) -> None:
    graph = grown(graphs)
    before = versions(graphs.root, place(graph))
    folder = graphs.root / "__recovery" / "main"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "01J00000000000000000000000.json").write_text('{"format": 1}')
    with pytest.raises(RecoveryBlocked):
        clean(graph)
    with pytest.raises(RecoveryBlocked):
        clean(graph, confirm=False)
    assert versions(graphs.root, place(graph)) == before


def test_a_line_that_cannot_be_read_stops_everything(graphs: Opened) -> None:
    graph = grown(graphs)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    before = versions(graphs.root, place(graph))
    branch_id = graph.branches.get("rev").branch_id
    shutil.rmtree(graphs.root / "__manifest" / "tree" / f"b-{branch_id}" / "_versions")
    with pytest.raises(OmnigraphError):
        clean(graphs.open())
    assert versions(graphs.root, place(graph)) == before


def test_a_table_that_something_else_moved_is_left_alone(graphs: Opened) -> None:
    graph = grown(graphs)
    location = place(graph)
    snapshot = graph.snapshot()
    snapshot.handle(snapshot.type("Person")).dataset.checkout_version((None, None)).delete(
        "id = 'p0'"
    )
    age_files(graphs.root)
    before = versions(graphs.root, location)
    report = clean(graph)
    (person,) = [each for each in report.tables if each.table_key == "node:Person"]
    assert "omnigraph repair" in str(person.error)
    assert versions(graphs.root, location) == before
    assert report.errors


def test_only_one_cleanup_runs_at_a_time(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    other = graphs.open(LEASE_WAIT_MS="0")
    with graph._graph.leases.holding(MAINTENANCE_SCOPE), pytest.raises(BranchBusy):
        clean(other)
    assert clean(other, confirm=False).tables


def test_few_versions_act_as_three_with_a_warning(graphs: Opened) -> None:
    report = clean(grown(graphs, times=1), keep=1)
    assert report.keep == 3
    assert "acts as 3" in report.warnings[0]
    assert report.to_dict()["warnings"] == list(report.warnings)


def test_a_read_only_graph_may_only_look(graphs: Opened) -> None:
    grown(graphs)
    reader = graphs.read_only()
    assert clean(reader, confirm=False).tables[0].table_key == "edge:Knows"
    with pytest.raises(ReadOnlyGraph):
        clean(reader)


CLEANER = """
import os, sys
from omnigraph import Graph
from omnigraph.settings import load_settings
with Graph.open(sys.argv[1], settings=load_settings(os.environ)) as graph:
    graph.maintenance.cleanup(keep=3, confirm=True)
"""


@pytest.mark.parametrize("point", ["cleanup.post_floor_pre_gc", "cleanup.between_tables"])
def test_a_cleanup_that_is_killed_has_removed_nothing_that_is_needed(
    graphs: Opened, point: str
) -> None:
    graph = grown(graphs)
    graph.branches.create("rev")
    graph.tags.create("old", at=list(graph.commits)[-3].graph_commit_id)
    ended = subprocess.run(
        [sys.executable, "-c", CLEANER, str(graphs.root)],
        env=os.environ | {"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": f"{point}=kill"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    fresh = graphs.open()
    assert names(fresh) == names(fresh, "rev") == [f"p{number}" for number in range(8)]
    assert fresh.snapshot("old").scan("Person").read_all().num_rows == 2
    clean(fresh)
    assert readable(fresh) == [8, 7, 6, 2]
    upsert(fresh, "next")
    require_settled(fresh)


# --- what lies beside -------------------------------------------------------------------------


def test_what_deleted_branches_and_dead_creations_left_goes(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    line = f"b-{graph.branches.get('rev').branch_id}"
    kept = graphs.root / "kept"
    shutil.copytree(graphs.root / "__manifest", kept / "__manifest")
    shutil.copytree(graphs.root / place(graph), kept / "table")
    graph.branches.delete("rev")
    graph.close()
    shutil.rmtree(graphs.root / place(graphs.open()))
    shutil.copytree(kept / "table", graphs.root / place(graphs.open()))
    for part in (f"_refs/branches/{line}.json", f"tree/{line}"):
        source, target = kept / "__manifest" / part, graphs.root / "__manifest" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    shutil.rmtree(kept)
    with killed_at("branch_create.post_native"), pytest.raises(Killed):
        graphs.open().branches.create("never")
    fresh = graphs.open()
    kinds = [(each.kind, each.name) for each in clean(fresh, confirm=False).leftovers]
    assert kinds == [("table line", f"node:Person {line}"), ("branch", line.removeprefix("b-"))]
    age_files(graphs.root, 2 * HOUR)
    found = clean(fresh).leftovers
    assert [each.kind for each in found] == ["table line", "branch", "branch", "leases"]
    assert found[-1].name == f"branch-{line.removeprefix('b-')}"
    assert clean(fresh).leftovers == ()
    assert not (graphs.root / "__leases" / found[-1].name).exists()
    assert (graphs.root / "__leases" / "branch-main").exists()
    assert not list(graphs.root.rglob("tree/b-*"))
    assert names(fresh) == ["p0"]


def test_work_files_and_strays_go_when_they_are_old(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    root = graphs.root
    location = place(graph)
    old = {
        "__staging/01J00000000000000000000000/note.json": 8 * DAY,
        "nodes/00000000000000ff-0000000000000001/_versions/x": 2 * DAY,
        f"{location}/_versions/d123.manifest": 8 * DAY,
    }
    for name, seconds in old.items():
        for path in (root / name, root / name.replace("ff-", "fe-").replace("01J0", "01J1")):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"{}")
        made = (root / name).stat().st_mtime - seconds
        os.utime(root / name, (made, made))
    young = root / f"{location}/_versions/d124.manifest"
    young.write_bytes(b"{}")
    found = clean(graph).leftovers
    assert sorted(each.kind for each in found) == [
        "detached version",
        "unregistered table",
        "work files",
    ]
    assert all(each.error is None for each in found)
    assert not any((root / name).exists() for name in old)
    assert young.exists()
    assert (root / "__staging/01J10000000000000000000000/note.json").exists()
    assert (root / "nodes/00000000000000fe-0000000000000001/_versions/x").exists()


@pytest.mark.parametrize("table", ["__manifest", "node"])
def test_a_line_that_a_killed_cleanup_cut_off_goes_with_the_next(
    graphs: Opened, table: str
) -> None:
    graph = grown(graphs, times=1)
    location = table if table == "__manifest" else place(graph)
    rest = graphs.root / location / "tree" / "b-01j00000000000000000000000" / "_versions" / "x"
    rest.parent.mkdir(parents=True)
    rest.write_bytes(b"")
    age_files(graphs.root)
    (found,) = clean(graph).leftovers
    assert found.error is None
    assert clean(graph).leftovers == ()
    assert not rest.parents[1].exists()


def test_a_folder_that_a_killed_cleanup_emptied_goes_with_the_next(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    folder = graphs.root / "nodes" / "00000000000000ff-0000000000000001"
    (folder / "_versions").mkdir(parents=True)
    (found,) = clean(graph).leftovers
    assert (found.kind, found.error) == ("unregistered table", None)
    assert not folder.exists()


def test_what_a_running_job_works_with_stays_however_old_it_is(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    coordinator = graph._graph
    operation = "01J00000000000000000000000"
    kept = [
        graphs.root / "__staging" / operation / "note.json",
        graphs.root / place(graph) / "_versions" / "d123.manifest",
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
        made = path.stat().st_mtime - 8 * DAY
        os.utime(path, (made, made))
    pin = pin_for_job(
        coordinator.storage.objects,
        coordinator.clock,
        load_settings({}).storage,
        operation_id=operation,
        kind="load",
    )
    snapshot = graph.snapshot()
    with pin:
        pin.hold([snapshot.handle(snapshot.type("Person"))])
        assert clean(graph).leftovers == ()
        assert all(path.exists() for path in kept)
    assert len(clean(graph).leftovers) == 2


def test_a_line_for_a_schema_change_goes_after_an_hour(graphs: Opened) -> None:
    graph = grown(graphs, times=1)
    snapshot = graph.snapshot()
    snapshot.handle(snapshot.type("Person")).dataset.create_branch("scratch-x")
    assert clean(graph).leftovers == ()
    age_files(graphs.root, 2 * HOUR)
    assert [each.name for each in clean(graph).leftovers] == ["node:Person scratch-x"]


def test_versions_of_the_manifest_go_and_history_stays(graphs: Opened) -> None:
    graph = grown(graphs, times=30)
    history = [each.graph_commit_id for each in graph.commits]
    found = clean(graph).leftovers
    assert [each.kind for each in found] == ["manifest versions"]
    assert len(versions(graphs.root, "__manifest")) <= 21
    assert [each.graph_commit_id for each in graphs.open().commits] == history


def test_beside_a_live_branch_nothing_is_left_for_a_second_cleanup(graphs: Opened) -> None:
    graph = grown(graphs, times=2)
    graph.branches.create("rev")
    for number in range(24):
        upsert(graph, f"later{number}")
    age_files(graphs.root)
    assert [each.kind for each in clean(graph).leftovers] == ["manifest versions"]
    assert clean(graph, confirm=False).leftovers == ()
    again = clean(graph)
    assert (again.leftovers, again.errors) == ((), ())
    assert names(graphs.open(), "rev") == ["p0", "p1"]


def test_the_table_of_a_dropped_type_goes_when_no_commit_that_stays_shows_it(
    graphs: Opened,
) -> None:
    graph = graphs.init("node Person { name: String @key } node Old { name: String @key }")
    with graph.write() as writer:
        writer.append("Old", people("x"))
        committed(writer.commit())
    location = next(
        each for each in graph.snapshot().tables if each.table_key == "node:Old"
    ).dataset_path
    before = graph.snapshot()
    with_old = before.graph_commit_id
    graph.tags.create("with-old")
    graph.schema.apply("node Person { name: String @key }", allow_data_loss=True)
    now = graphs.open()
    rewind(graphs, graph)

    def goes(opened: Graph, *, confirm: bool = False, **policy: int | str) -> bool:
        found = opened.maintenance.cleanup(confirm=confirm, **policy)  # type: ignore[arg-type]
        return "ended table" in [each.kind for each in found.leftovers]

    assert not goes(graph, older_than="0s"), "the tag keeps it"
    graph.tags.delete("with-old")
    assert not goes(now, older_than="0s"), "it was in force a moment ago"
    assert not goes(graph, keep=3), "the commit before is one of three"
    parts, settings = graph._graph, load_settings({}).storage
    with pin_for_job(
        parts.storage.objects, parts.clock, settings, operation_id="job", kind="export"
    ) as pin:
        pin.hold([before.handle(before.type("Old"))])
        assert not goes(graph, older_than="0s"), "a job reads it"
    assert goes(graph, older_than="0s", confirm=True)
    assert not (graphs.root / location).exists()
    with pytest.raises(SnapshotReclaimed):
        graphs.open().snapshot(with_old).scan("Old").read_all()


def rewind(graphs: Opened, graph: Graph) -> None:
    """As if all of it had happened long ago."""
    clock = graph._graph.clock
    now = clock.now_us() + DAY * 1_000_000

    class Later:
        now_us = staticmethod(lambda: now)
        monotonic_us = staticmethod(clock.monotonic_us)

    graph._graph.clock = Later()  # type: ignore[assignment]
    age_files(graphs.root)
