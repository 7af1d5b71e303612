"""Tails of tables stay short by themselves, and nobody who writes or reads notices it."""

from collections.abc import Callable

import pytest
from tests.unit.graph.graphs import (
    Opened,
    Watcher,
    committed,
    delete,
    names,
    once,
    people,
    rows,
    state,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import PreconditionFailed, StorageUnavailable
from omnigraph.failpoints import armed
from omnigraph.graph.lifecycle import tail_folding
from omnigraph.graph.lifecycle.tail_folding import (
    MOST_BYTES,
    TIERS,
    fragments_to_fold,
)
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.storage.sizes import FragmentInfo

(SMALL, FEW), (MIDDLE, SOME), (_, MANY) = TIERS


def fragments(*sizes: int, size_bytes: int = 100) -> list[FragmentInfo]:
    return [
        FragmentInfo(fragment_id=number, rows=rows, deleted_rows=0, size_bytes=size_bytes)
        for number, rows in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "folded"),
    [
        ([], 0),
        ([1] * (FEW - 1), 0),
        ([100_000] + [1] * FEW, FEW),
        ([SMALL] * SOME + [1] * 3, SOME + 3),
        ([SMALL] * (SOME - 1) + [1] * FEW, FEW),
        ([MIDDLE] * MANY + [SMALL] + [1], MANY + 2),
        ([100_000] * 100, 0),
    ],
)
def test_a_tier_that_is_full_is_folded_with_all_below_it(sizes: list[int], folded: int) -> None:
    chosen = fragments_to_fold(fragments(*sizes))
    assert list(chosen) == list(range(len(sizes)))[len(sizes) - folded :]


def test_what_takes_long_is_left_alone() -> None:
    wide = MOST_BYTES // FEW + 1
    assert not fragments_to_fold(fragments(*[1] * FEW, size_bytes=wide))


def test_only_neighbours_are_counted_and_folded() -> None:
    """Else small ones between large ones, which cannot be joined, would cost every write a link."""
    large = 100_000
    assert not fragments_to_fold(fragments(*[large, 1] * (FEW + 1)))
    sizes = [1, large] * FEW + [1] * FEW
    assert list(fragments_to_fold(fragments(*sizes))) == list(range(2 * FEW, 3 * FEW))


def test_fragments_grow_with_the_logarithm_of_commits() -> None:
    sizes: list[int] = []
    written = most = 0
    commits = 10_000
    for _ in range(commits):
        sizes.append(1)
        chosen = set(fragments_to_fold(fragments(*sizes)))
        if chosen:
            joined = sum(sizes[number] for number in chosen)
            sizes = [rows for number, rows in enumerate(sizes) if number not in chosen] + [joined]
            written += joined
        most = max(most, len(sizes))
    assert most <= 16
    assert written / commits < 4 * len(TIERS)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds after a few commits."""
    monkeypatch.setattr(tail_folding, "TIERS", ((6, 4), (64, 4)))


def tail(graph: Graph, type_name: str = "Person", branch: str = "main") -> list[int]:
    parts = graph._graph
    line = parts.lines.read(parts.branch_id(branch))
    layouts = parts.schemas.tables(line.schema.schema_hash).layouts
    (ref,) = (ref for ref, layout in layouts.items() if layout.table_key.endswith(type_name))
    handle = parts.tables.open(layouts[ref], pin_of(line.pins[ref]))
    return [fragment.rows for fragment in parts.tables.fragments(handle)]


def insert(graph: Graph, name: str, *, if_commit: str | None) -> str:
    with graph.write(if_commit=if_commit) as writer:
        writer.upsert("Person", people(name))
        return committed(writer.commit()).graph_commit_id


@pytest.mark.usefixtures("narrow")
def test_a_write_folds_the_tail_in_its_own_commit_and_changes_no_other_row(graphs: Opened) -> None:
    graph = graphs.init()
    for number in range(4):
        upsert(graph, f"p{number}", age=number)
    held = graph.snapshot()
    before = state(held)["Person"]
    assert tail(graph) == [1, 1, 1, 1]
    commit = upsert(graph, "p4", age=4)
    assert tail(graph) == [5]
    after = state(graph.snapshot())["Person"]
    assert {name: after[name] for name in before} == before
    assert state(held)["Person"] == before
    assert next(each.graph_commit_id for each in graph.commits.list(all=True)) == (
        commit.graph_commit_id
    )
    changes = graph.commits.changes(commit.graph_commit_id).changes
    assert [(change.op, change.id) for change in changes] == [("insert", "p4")]


@pytest.mark.usefixtures("narrow")
def test_a_tail_with_large_blobs_is_left_alone(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_folding, "MOST_BYTES", 500_000)
    graph = graphs.init("node File { name: String @key  content: Blob? }")

    def write(number: int, content: bytes) -> None:
        with graph.write() as writer:
            writer.upsert("File", rows({"name": f"f{number}", "content": content}))
            writer.commit()

    for number in range(5):
        write(number, b"few")
    assert tail(graph, "File") == [5]
    for number in range(5, 8):
        write(number, b"few")
    # The tail is full, and what comes to it is too large.
    write(8, bytes(600_000))
    assert tail(graph, "File") == [5, 1, 1, 1, 1]
    write(9, b"few")
    assert tail(graph, "File") == [5, 1, 1, 1, 1, 1]
    assert graph.blob("node", "File", "f8", "content").read() == bytes(600_000)


@pytest.mark.usefixtures("narrow")
def test_a_branch_folds_its_own_line(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "p0")
    graph.branches.create("dev")
    for number in range(1, 6):
        upsert(graph, f"p{number}", branch="dev")
    assert (len(tail(graph)), len(tail(graph, branch="dev"))) == (1, 2)
    assert names(graph, "dev") == [f"p{number}" for number in range(6)]


@pytest.mark.usefixtures("narrow")
def test_rows_that_are_updated_and_deleted_all_the_time_stay_in_few_fragments(
    graphs: Opened,
) -> None:
    graph = graphs.init()
    for number in range(24):
        upsert(graph, f"p{number % 5}", age=number)
        if number % 6 == 5:
            delete(graph, f"p{number % 5}")
    assert len(tail(graph)) <= 8
    assert {name: row["age"] for name, row in state(graph.snapshot())["Person"].items()} == {
        "p0": 20,
        "p1": 21,
        "p2": 22,
        "p4": 19,
    }


def replace_row(graph: Graph, number: int, branch: str = "main") -> None:
    """One row goes and another comes, in one commit."""
    with graph.write(branch) as writer:
        writer.delete("Person", [f"old{number}"])
        writer.append("Person", people(f"new{number}"))
        writer.commit()


def merge_all_kinds(graph: Graph, number: int) -> None:
    """A merge that removes a row, changes one, and adds one."""
    branch = f"b{number}"
    graph.branches.create(branch)
    replace_row(graph, number, branch)
    upsert(graph, "stays", age=number, branch=branch)
    graph.branches.merge(branch, delete_branch=True)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("write", [replace_row, merge_all_kinds])
def test_writes_that_begin_with_a_removal_fold_what_they_add(
    graphs: Opened, write: Callable[[Graph, int], None]
) -> None:
    graph = graphs.init()
    upsert(graph, "stays", *(f"old{number}" for number in range(9)))
    for number in range(8):
        write(graph, number)
    assert len(tail(graph)) <= 5
    assert names(graph) == [*(f"new{number}" for number in range(8)), "old8", "stays"]


@pytest.mark.usefixtures("narrow")
def test_a_fold_that_fails_fails_no_write(graphs: Opened) -> None:
    watcher = Watcher()
    graphs.init().close()
    graph = graphs.coordinated(observer=watcher)
    watcher.fail("compact", "Person", StorageUnavailable("no", operation="compact", target="x"))
    for number in range(6):
        upsert(graph, f"p{number}")
    assert (len(tail(graph)), len(names(graph))) == (6, 6)
    watcher.before_each = None
    upsert(graph, "p6")
    assert (tail(graph), len(names(graph))) == ([7], 7)


@pytest.mark.usefixtures("narrow")
def test_the_setting_switches_folds_off(graphs: Opened) -> None:
    graph = graphs.init(AUTO_MAINTENANCE="0")
    for number in range(6):
        upsert(graph, f"p{number}")
    assert len(tail(graph)) == 6


def test_commits_of_maintenance_are_left_out_of_the_list_unless_asked_for(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "p0")
    graph.maintenance.ensure_indices()
    assert [commit.kind for commit in graph.commits.list()] == ["mutation", "genesis"]
    assert [commit.kind for commit in graph.commits.list(kind="index")] == ["index"]
    assert next(commit.kind for commit in graph.commits.list(all=True)) == "index"
    assert next(iter(graph.commits)).kind == "index"


def test_maintenance_is_no_change_to_whoever_compares_heads(graphs: Opened) -> None:
    graph = graphs.init()
    commit = insert(graph, "p0", if_commit=None)
    graph.maintenance.ensure_indices()
    commit = insert(graph, "p1", if_commit=commit)
    upsert(graph, "other")
    graph.maintenance.ensure_indices()
    with pytest.raises(PreconditionFailed):
        insert(graph, "late", if_commit=commit)


def test_a_merge_whose_target_had_only_maintenance_meanwhile_lands(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "p0")
    graph.branches.create("dev")
    upsert(graph, "d1", branch="dev")
    upsert(graph, "p1")
    build = once(other.maintenance.ensure_indices)
    with armed("branch_merge.post_stage_pre_lease", build):
        assert graph.branches.merge("dev").outcome == "merged"
    assert names(graph) == ["d1", "p0", "p1"]
    assert [commit.kind for commit in graph.commits.list(all=True)][:2] == ["merge", "index"]
