"""`optimize`: few fragments, complete indexes, the same rows; beside writers, in one commit."""

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import (
    Opened,
    committed,
    listing,
    once,
    people,
    require_settled,
    rows,
    state,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, ReadOnlyGraph
from omnigraph.failpoints import armed
from omnigraph.graph.maintenance import optimize
from omnigraph.graph.maintenance.index_report import SkipReason
from omnigraph.graph.maintenance.optimize_report import OptimizeReport, TableOptimizeStats
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID

STAGED = "optimize.post_stage_pre_lease"


def run(graph: Graph, branch: str = MAIN_BRANCH, **given: Any) -> OptimizeReport:  # noqa: ANN401 - of the call
    return graph.maintenance.optimize(branch=branch, **given)


def table_of(report: OptimizeReport, key: str) -> TableOptimizeStats:
    (found,) = [each for each in report.tables if each.table_key == key]
    return found


def fragments(graph: Graph, name: str, branch: str = MAIN_BRANCH) -> list[int]:
    snapshot = graph.snapshot(branch=branch)
    handle = snapshot.handle(snapshot.type(name))
    return [each.rows for each in graph._graph.tables.fragments(handle)]


def is_covered(graph: Graph, name: str) -> bool:
    snapshot = graph.snapshot()
    found = graph._graph.tables.index_coverage(snapshot.handle(snapshot.type(name)))
    return all(each.is_complete for each in found)


def filled(graphs: Opened, times: int = 3) -> Graph:
    graph = graphs.init()
    for number in range(times):
        with graph.write() as writer:
            writer.append("Person", people(f"p{number}"))
            if not number:
                writer.append("Doc", rows({"title": "d"}))
            committed(writer.commit())
    return graph


def test_small_fragments_become_one_and_every_index_covers_it(graphs: Opened) -> None:
    graph = filled(graphs)
    before = state(graph.snapshot())
    report = run(graph)
    assert committed(report.commit).kind == "optimize"
    person, doc = table_of(report, "node:Person"), table_of(report, "node:Doc")
    assert (person.fragments_removed, person.fragments_added, person.committed) == (3, 1, True)
    assert (doc.fragments_removed, doc.committed) == (0, True)
    assert person.published_dataset_version == person.lance_head_version
    assert {each.property_name for each in person.built} == {"id", "name", "email"}
    assert [each.reason for each in report.pending_indexes] == ["no_rows"] * 3
    assert fragments(graph, "Person") == [3]
    assert is_covered(graph, "Person")
    assert state(graph.snapshot()) == before
    require_settled(graph)


def test_an_index_goes_when_its_fragments_are_joined_and_no_vector_is_left(
    graphs: Opened,
) -> None:
    graph = graphs.init("node V { slug: String @key  vec: Vector(2)? @index }")
    schema = graph.snapshot().type("V").arrow_schema
    fields = pa.schema([schema.field("slug"), schema.field("vec")])
    with graph.write() as writer:
        vectors = [{"slug": f"v{at}", "vec": [1.0, at]} for at in range(4)]
        writer.append("V", pa.Table.from_pylist([*vectors, {"slug": "none"}], fields))
        committed(writer.commit())
    graph.maintenance.ensure_indices()
    with graph.write() as writer:
        writer.delete("V", [f"v{at}" for at in range(4)])
        writer.append("V", pa.Table.from_pylist([{"slug": "last"}], fields))
        committed(writer.commit())
    report = run(graph)
    assert fragments(graph, "V") == [2]
    assert [each.reason for each in report.pending_indexes] == ["no_vectors"]
    assert graph.snapshot().scan("V", columns=["slug"]).read_all().num_rows == 2
    assert run(graph).commit is None


def test_the_steady_state_makes_no_commit_and_no_file(graphs: Opened) -> None:
    graph = filled(graphs)
    run(graph)
    run(graph)  # joins what the first commit added to the manifest
    before = listing(graphs.root)
    report = run(graph)
    assert (report.commit, report.manifest_fragments_removed) == (None, 0)
    assert not any(each.committed or each.fragments_removed for each in report.tables)
    assert listing(graphs.root) == before


def test_the_line_of_the_manifest_is_joined_too(graphs: Opened) -> None:
    graph = filled(graphs)
    history = [each.graph_commit_id for each in graph.commits]
    report = run(graph)
    assert report.manifest_fragments_removed > 0
    assert graph._graph.lines.read(MAIN_BRANCH_ID).handle.fragments == 1
    assert [each.graph_commit_id for each in graph.commits][1:] == history


def test_a_fragment_is_as_large_as_asked_for(graphs: Opened) -> None:
    graph = filled(graphs, times=6)
    report = run(graph, types=["Person"], target_rows=3)
    assert fragments(graph, "Person") == [3, 3]
    assert [each.table_key for each in report.tables] == ["node:Person"]
    assert run(graph, types=["Person"], target_rows=3).commit is None
    with pytest.raises(InvalidArgument, match="from 1 to"):
        run(graph, target_rows=0)


def test_a_branch_forks_only_what_it_joins(graphs: Opened) -> None:
    graph = filled(graphs, times=1)
    run(graph)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    report = run(graph, "rev")
    assert table_of(report, "node:Person").fragments_removed == 2
    assert not table_of(report, "node:Doc").committed
    pins = graph._graph.lines.read(graph._graph.branch_id("rev")).pins.values()
    assert [pin.branch is None for pin in pins if pin.table_key == "node:Doc"] == [True]
    assert fragments(graph, "Person", "rev") == [2]
    assert fragments(graph, "Person") == [1]


def test_a_table_to_which_others_append_keeps_its_work(graphs: Opened) -> None:
    graph, other = filled(graphs), graphs.open()
    stagings = Counted()
    with armed("optimize.pre_rewrite", stagings), armed(STAGED, once(lambda: append(other, "new"))):
        report = run(graph, types=["Person"])
    assert stagings.calls == 1
    assert table_of(report, "node:Person").fragments_removed == 3
    assert sorted(fragments(graph, "Person")) == [1, 3]
    assert set(state(graph.snapshot())["Person"]) == {"p0", "p1", "p2", "new"}
    require_settled(graph)


def test_a_table_whose_rows_others_change_is_staged_again(graphs: Opened) -> None:
    graph, other = filled(graphs), graphs.open()
    stagings = Counted()
    with armed("optimize.pre_rewrite", stagings), armed(STAGED, once(lambda: upsert(other, "p1"))):
        report = run(graph, types=["Person"])
    assert stagings.calls == 2
    assert table_of(report, "node:Person").committed
    assert fragments(graph, "Person") == [3]
    made = committed(report.commit)
    snapshot = graph.snapshot()
    handle = snapshot.handle(snapshot.type("Person"))
    (trace,) = graph._graph.tables.traces(
        handle.layout, None, handle.pin.version - 1, handle.pin.version
    )
    assert (trace.operation_id, trace.kind) == (made.operation_id, "optimize")


def test_a_table_that_never_rests_is_left_and_the_others_are_done(graphs: Opened) -> None:
    graph, other = filled(graphs), graphs.open()
    stagings = Counted()

    def disturb() -> None:
        upsert(other, "p1")

    with armed("optimize.pre_rewrite", stagings), armed(STAGED, disturb):
        report = run(graph)
    person, doc = table_of(report, "node:Person"), table_of(report, "node:Doc")
    assert (person.skipped, person.committed) == (SkipReason.BUSY, False)
    assert (person.fragments_removed, person.built) == (0, ())
    assert doc.committed
    assert stagings.calls == optimize.STAGINGS + 1
    assert table_of(run(graph), "node:Person").committed


def test_two_calls_at_once_do_it_once(graphs: Opened) -> None:
    graph, other = filled(graphs), graphs.open()
    with armed(STAGED, once(lambda: run(other))):
        assert run(graph).commit is None
    assert [each.kind for each in graph.commits].count("optimize") == 1


def test_a_read_only_graph_is_refused(graphs: Opened) -> None:
    filled(graphs, times=1)
    with pytest.raises(ReadOnlyGraph):
        run(graphs.read_only())


class Counted:
    """Counts the passages of a point."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def append(graph: Graph, name: str) -> None:
    with graph.write() as writer:
        writer.append("Person", people(name))
        committed(writer.commit())


WRITER = """
import sys
from omnigraph import Graph
import pyarrow as pa
path, who, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Graph.open(path) as graph:
    print("ready", flush=True)
    for number in range(times):
        with graph.write() as writer:
            writer.append("Person", pa.table({"name": [f"{who}-{number}"]}))
            if not number % 3:
                age = pa.array([number], pa.int32())
                writer.upsert("Person", pa.table({"name": [who], "age": age}))
            writer.commit()
"""


@pytest.mark.parametrize(
    ("writers", "times"),
    [(1, 8), pytest.param(4, 40, marks=[pytest.mark.slow, pytest.mark.timeout(600)])],
)
def test_writers_in_other_processes_lose_nothing(graphs: Opened, writers: int, times: int) -> None:
    graph = filled(graphs)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(graphs.root), f"w{number}", str(times)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    try:
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        reports = [run(graph)]
        while any(each.poll() is None for each in started):
            reports.append(run(graph))
            graph.maintenance.ensure_indices()
        assert [each.wait() for each in started] == [0] * writers
    finally:
        for each in started:
            each.kill()
            each.communicate()
    last = run(graph)
    assert all(each.skipped is None for each in last.tables)
    expected = {f"w{who}-{number}" for who in range(writers) for number in range(times)}
    expected |= {f"w{who}" for who in range(writers)} | {"p0", "p1", "p2"}
    assert set(state(graph.snapshot())["Person"]) == expected
    assert len(fragments(graph, "Person")) == 1
    assert is_covered(graph, "Person")
    assert any(each.commit is not None for each in reports)
    require_settled(graph)
