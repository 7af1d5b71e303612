"""Loads: what each mode does with rows that exist, the receipt, and what stops one."""

import base64
import io
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened, fill, put, quick

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    ExternalBlobDenied,
    IdempotencyKeyReused,
    InvalidArgument,
    InvalidBranchName,
    KeyConflict,
    LoadRejected,
    OmnigraphError,
    PreconditionFailed,
    ReadOnlyGraph,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimit,
)
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.blobs import blob_values
from omnigraph.graph.jobs.report import JobReport, TableReport
from omnigraph.graph.jobs.stage_progress import StageProgress

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  nick: String? @default("none")
  level: enum(junior, senior)?
  @range(age, 0..150)
  @check(email, "@")
}
node Note { text: String  picture: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""


def node(type_: str, /, **data: object) -> dict[str, object]:
    return {"type": type_, "data": data}


def edge(type_: str, source: str, target: str, /, **data: object) -> dict[str, object]:
    return {"edge": type_, "from": source, "to": target, "data": data}


def lines(*records: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in records)


def load(graph: Graph, *records: Mapping[str, object], mode: str, **options: Any) -> JobReport:  # noqa: ANN401
    return graph.load(lines(*records), mode=mode, **options)  # type: ignore[arg-type]  # a mode


def details_of(error: OmnigraphError) -> Any:  # noqa: ANN401 - JSON
    return error.details


def rows(graph: Graph, name: str, *columns: str, branch: str = "main") -> list[tuple[Any, ...]]:
    found = graph.snapshot(branch=branch).scan(name, columns=list(columns)).read_all().to_pydict()
    return sorted(zip(*found.values(), strict=True), key=repr)


def counts(report: JobReport) -> dict[str, tuple[int, int, int, int, int]]:
    """By table: read, added, changed, removed, superseded; each in balance."""
    for each in report.tables:
        each.require_balance()
    return {
        each.table: (each.read, each.added, each.changed, each.removed, each.superseded)
        for each in report.tables
    }


def everything(graph: Graph, root: Path) -> object:
    """Versions of every table on every branch, and every file of the graph."""
    names = [each.name for each in graph.branches.list()]
    versions = {
        name: [
            (each.table_key, each.native_dataset_branch, each.published_dataset_version)
            for each in graph.snapshot(branch=name).tables
        ]
        for name in names
    }
    heads = {name: graph.snapshot(branch=name).graph_commit_id for name in names}
    # Who holds a branch is written down beside the graph; that is no data.
    files = {
        str(path): path.stat().st_size for path in root.rglob("*") if "__leases" not in str(path)
    }
    return versions, heads, files


def run_threads(work: Callable[[int], None], count: int) -> None:
    """Run the work side by side; the first failure is raised."""
    with ThreadPoolExecutor(max_workers=count) as pool:
        for each in [pool.submit(work, worker) for worker in range(count)]:
            each.result()


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "graph"
    with Graph.init(path, schema=SCHEMA, settings=quick()) as graph:
        fill(
            graph,
            Person=[{"name": "ann", "age": 30, "email": "a@x"}, {"name": "bob", "age": 40}],
            City=[{"name": "rome"}],
            Knows=[{"src": "ann", "dst": "bob", "id": "k1"}],
            LivesIn=[{"src": "ann", "dst": "rome", "id": "l1"}],
        )
    return path


@pytest.fixture
def graph(graphs: Opened, _made: Path) -> Graph:
    return graphs.copy_of(_made)


@pytest.fixture
def root(graphs: Opened) -> Path:
    return graphs._root / "g0"


# --- append -----------------------------------------------------------------------------------


def test_one_load_of_many_types_is_one_commit(graph: Graph) -> None:
    before = graph.snapshot()
    report = load(
        graph,
        edge("Knows", "cid", "ann"),
        node("Person", name="cid", age=1),
        node("City", name="oslo"),
        edge("LivesIn", "cid", "oslo"),
        node("Note", text="n", picture="base64:AAEC"),
        mode="append",
    )
    after = graph.snapshot()
    assert after.seq == before.seq + 1
    assert report.commit is not None
    assert report.commit.graph_commit_id == after.graph_commit_id
    assert (report.commit.kind, report.operation_id) == ("load", report.commit.operation_id)
    assert counts(report) == dict.fromkeys(
        ("node:City", "node:Note", "node:Person", "edge:Knows", "edge:LivesIn"), (1, 1, 0, 0, 0)
    )
    assert [each.table for each in report.tables] == [
        *("node:City", "node:Note", "node:Person", "edge:Knows", "edge:LivesIn")
    ]
    assert rows(graph, "Person", "name", "age", "nick")[2] == ("cid", 1, "none")


def test_an_id_that_exists_is_refused_by_append_and_nothing_is_written(
    graph: Graph, root: Path
) -> None:
    before = everything(graph, root)
    with pytest.raises(KeyConflict) as caught:
        load(graph, node("Person", name="new"), node("Person", name="bob"), mode="append")
    details = details_of(caught.value)
    assert (details["type"], details["entity_id"], details["total"]) == ("Person", "bob", 1)
    assert details["violations"][0]["input_line"] == 2
    with pytest.raises(KeyConflict):
        load(graph, edge("Knows", "bob", "ann", id="k1"), mode="append")
    assert everything(graph, root) == before


def test_a_load_given_twice_is_two_loads(graph: Graph) -> None:
    note = node("Note", text="n")
    load(graph, note, mode="append")
    load(graph, note, mode="append")
    assert graph.snapshot().count("Note") == 2
    city = node("City", name="oslo")
    load(graph, city, mode="append")
    with pytest.raises(KeyConflict):
        load(graph, city, mode="append")


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
@pytest.mark.parametrize("text", [b"", b"\n\r\n \t\n"])
def test_no_input_is_no_commit(graph: Graph, root: Path, mode: Any, text: bytes) -> None:  # noqa: ANN401
    before = everything(graph, root)
    report = graph.load(text, mode=mode)
    assert (report.commit, report.operation_id, report.tables) == (None, None, ())
    assert everything(graph, root) == before
    assert graph.load({}, mode=mode).commit is None


# --- merge ------------------------------------------------------------------------------------


def test_merge_replaces_whole_rows_and_adds_the_others(graph: Graph) -> None:
    report = load(
        graph,
        node("Person", name="ann", age=31),
        node("Person", name="cid", email="c@x", nick=None),
        mode="merge",
    )
    assert counts(report) == {"node:Person": (2, 1, 1, 0, 0)}
    assert rows(graph, "Person", "name", "age", "email", "nick") == [
        ("ann", 31, None, "none"),
        ("bob", 40, None, None),
        ("cid", None, "c@x", None),
    ]


def test_a_merge_writes_only_rows_that_differ_and_nothing_if_none_does(
    graph: Graph, root: Path
) -> None:
    same = node("Person", name="bob", age=40, nick=None)
    picture = node("Note", id="n1", text="n", picture="base64:AAEC")
    load(graph, picture, mode="append")
    report = load(
        graph,
        same,
        node("Person", name="ann", age=31),
        node("Note", id="n2", text="n"),
        picture,
        mode="merge",
    )
    assert [(each.table, each.added, each.changed, each.unchanged) for each in report.tables] == [
        ("node:Note", 1, 0, 1),
        ("node:Person", 0, 1, 1),
    ]
    assert report.commit is not None
    assert report.commit.stats["load"]["unchanged"] == {"node:Note": 1, "node:Person": 1}
    before = everything(graph, root)
    for options in ({}, {"dry_run": True}):
        again = load(graph, same, picture, mode="merge", **options)
        assert again.commit is None
        assert {each.table: each.unchanged for each in again.tables} == {
            "node:Note": 1,
            "node:Person": 1,
        }
    assert everything(graph, root) == before
    other = node("Note", id="n1", text="n", picture="base64:AAED")
    assert load(graph, other, mode="merge").tables[0].changed == 1


def test_a_row_that_another_changes_while_a_merge_leaves_it_out_is_merged_after_all(
    graph: Graph,
) -> None:
    mine = [node("Person", name="ann", age=30, email="a@x", nick=None), node("City", name="bern")]
    others: list[object] = []

    def overtake() -> None:
        if not others:
            change = 'query q() { update Person set { age: 99 } where name = "ann" }'
            others.append(graph.mutate(change))

    with armed("load.post_stage_pre_lease", overtake):
        report = load(graph, *mine, mode="merge")
    assert others
    assert report.commit is not None
    assert rows(graph, "Person", "name", "age")[0] == ("ann", 30)


def test_the_last_of_records_with_one_edge_id_wins_a_merge(graph: Graph) -> None:
    report = load(
        graph,
        edge("Knows", "ann", "bob", id="k1", since=1),
        edge("Knows", "bob", "ann", id="k2", since=2),
        edge("Knows", "nobody", "bob", id="k1", since=3),
        edge("Knows", "bob", "bob", id="k1", since=4),
        mode="merge",
    )
    assert counts(report) == {"edge:Knows": (4, 1, 1, 0, 2)}
    assert rows(graph, "Knows", "id", "src", "dst", "since") == [
        ("k1", "bob", "bob", 4),
        ("k2", "bob", "ann", 2),
    ]


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_node_twice_in_one_input_is_refused_in_every_mode(graph: Graph, mode: str) -> None:
    twice = node("Person", name="cid", age=1)
    with pytest.raises(LoadRejected) as caught:
        load(graph, twice, twice, mode=mode)
    assert "unique_violation" in details_of(caught.value)["counts"]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_an_edge_id_twice_in_one_input_is_refused_by_the_other_modes(
    graph: Graph, mode: str
) -> None:
    with pytest.raises(LoadRejected, match="held by 'k2' and 'k2'"):
        load(
            graph,
            edge("Knows", "ann", "bob", id="k2"),
            edge("Knows", "bob", "bob", id="k2"),
            mode=mode,
        )


def test_a_unique_value_that_the_same_merge_frees_may_be_taken(graph: Graph) -> None:
    load(graph, node("Person", name="ann"), node("Person", name="bob", email="a@x"), mode="merge")
    assert rows(graph, "Person", "name", "email") == [("ann", None), ("bob", "a@x")]
    with pytest.raises(LoadRejected, match="held by 'bob' and 'ann'"):
        load(graph, node("Person", name="ann", email="a@x"), mode="merge")


# --- overwrite --------------------------------------------------------------------------------


def test_overwrite_replaces_the_types_of_the_input_and_no_others(graph: Graph) -> None:
    report = load(
        graph,
        node("Person", name="ann"),
        node("Person", name="bob", email="a@x"),
        edge("Knows", "bob", "ann", id="k9"),
        mode="overwrite",
    )
    assert counts(report) == {"node:Person": (2, 2, 0, 2, 0), "edge:Knows": (1, 1, 0, 1, 0)}
    assert rows(graph, "Person", "name", "age", "email") == [
        ("ann", None, None),
        ("bob", None, "a@x"),
    ]
    assert rows(graph, "Knows", "id") == [("k9",)]
    assert rows(graph, "LivesIn", "id") == [("l1",)]


def test_an_overwrite_that_leaves_edges_behind_is_refused(graph: Graph, root: Path) -> None:
    before = everything(graph, root)
    with pytest.raises(LoadRejected) as caught:
        load(graph, node("Person", name="ann"), mode="overwrite")
    (found,) = details_of(caught.value)["violations"]
    assert (found["code"], found["type"], found["entity_id"]) == ("orphan_edge", "Knows", "k1")
    assert "input_line" not in found
    assert everything(graph, root) == before
    load(graph, node("Person", name="ann"), edge("Knows", "ann", "ann"), mode="overwrite")
    assert graph.snapshot().count("Person") == 1


def test_a_type_without_rows_empties_its_table(graph: Graph) -> None:
    none = pa.table({"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})
    report = graph.load({"Knows": none}, mode="overwrite")
    assert counts(report) == {"edge:Knows": (0, 0, 0, 1, 0)}
    assert graph.snapshot().count("Knows") == 0


def test_an_overwrite_without_rows_replaces_nothing_and_says_so(graph: Graph) -> None:
    before = graph.snapshot().count("Person")
    report = graph.load(b"\n", mode="overwrite")
    assert (report.commit, graph.snapshot().count("Person")) == (None, before)
    assert report.warnings == (
        "the input has no rows: an overwrite replaces the types that rows are of, so it replaced"
        " none",
    )
    assert graph.load(b"\n", mode="merge").warnings == ()


# --- refusals ---------------------------------------------------------------------------------


def test_a_refused_load_lists_every_kind_of_fault_in_order(graph: Graph, root: Path) -> None:
    before = everything(graph, root)
    text = lines(
        edge("LivesIn", "bob", "rome", id="l2"),
        edge("LivesIn", "bob", "rome", id="l3"),
        edge("Knows", "zed", "bob", id="k2"),
        node("Person", name="p1", email="a@x"),
        node("Person", name="bob"),
        node("Person", name="p2", level="boss"),
        node("Person", name="p3", email="no"),
        node("Person", name="p4", age=151),
        node("Person", name="p5", age="x"),
        node("Note", id="n1"),
        node("Person", name="p6", id="p7"),
        {"type": "Nobody"},
    )
    with pytest.raises(LoadRejected) as caught:
        graph.load(text + b"{", mode="append")
    details = details_of(caught.value)
    listed = [(each["code"], each.get("input_line")) for each in details["violations"]]
    assert listed == [
        ("id_mismatch", 11),
        ("unknown_type", 12),
        ("json_error", 13),
        ("required_missing", 10),
        ("type_error", 9),
        ("range_violation", 8),
        ("check_violation", 7),
        ("enum_violation", 6),
        ("key_conflict", 5),
        ("unique_violation", 4),
        ("orphan_edge", 3),
        ("cardinality_violation", None),
    ]
    assert details["total"] == 12
    assert details["counts"] == {code: 1 for code, _ in listed}
    assert caught.value.message.startswith("load refused: 12 violations, the first: line 11: ")
    assert everything(graph, root) == before


def test_a_thousand_faults_are_listed_and_all_are_counted(graph: Graph) -> None:
    bad = [node("Person", name=f"p{at:04}", age=-1) for at in range(1_500)]
    with pytest.raises(LoadRejected) as caught:
        load(graph, *bad, *[{"type": "Nobody"}] * 700, mode="merge")
    details = details_of(caught.value)
    assert details["counts"] == {"range_violation": 1_500, "unknown_type": 700}
    found = [each["input_line"] for each in details["violations"]]
    assert found == [*range(1_501, 2_201), *range(1, 301)]


def test_blobs_have_a_limit_over_all_rows_of_a_type(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_values, "MAX_DECODED_BLOB_BYTES", 100)
    text = "base64:" + base64.b64encode(b"x" * 60).decode()
    load(graph, node("Note", text="a", picture=text), mode="append")
    with pytest.raises(ResourceLimit) as caught:
        load(graph, *[node("Note", text="a", picture=text)] * 2, mode="append")
    assert caught.value.details["resource"] == "decoded blob input bytes"
    assert graph.snapshot().count("Note") == 1


def test_an_address_of_a_blob_is_denied_by_default(graph: Graph) -> None:
    with pytest.raises(ExternalBlobDenied):
        load(graph, node("Note", text="a", picture="file:///etc/hosts"), mode="append")
    assert graph.snapshot().count("Note") == 0


def test_options_are_checked_before_the_source_is_read(graphs: Opened, graph: Graph) -> None:
    text = lines(node("City", name="oslo"))

    class Untouched(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise AssertionError(size)

    source = Untouched(text)
    wrong: tuple[dict[str, Any], ...] = (
        {"mode": "upsert"},
        {"mode": "append", "on_error": "skip"},
        {"mode": "append", "on_error": "quarantine"},
        {"mode": "append", "rejects": "s3://x"},
        {"mode": "append", "engine": "spark"},
        {"mode": "append", "engine": "gpu"},
        {"mode": "append", "format": "parquet"},
        {"mode": "append", "idempotency_key": ""},
    )
    for options in wrong:
        with pytest.raises(InvalidArgument):
            graph.load(source, **options)
    reader = Graph.open(graphs._root / "g0", mode="read_only", settings=quick())
    with reader, pytest.raises(ReadOnlyGraph):
        reader.load(source, mode="append")


# --- dry runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_dry_run_tells_what_the_load_then_does_and_changes_nothing(
    graph: Graph, root: Path, mode: str
) -> None:
    records = [
        node("Note", text="a"),
        node("City", name="bern" if mode == "append" else "rome"),
        edge("Knows", "bob", "bob", id="k1" if mode == "merge" else "k5"),
        edge("Knows", "bob", "ann", id="k1" if mode == "merge" else "k6"),
    ]
    before = everything(graph, root)
    foreseen = load(graph, *records, mode=mode, dry_run=True)
    assert everything(graph, root) == before
    assert (foreseen.commit, foreseen.operation_id, foreseen.dry_run) == (None, None, True)
    done = load(graph, *records, mode=mode)
    assert foreseen.tables == done.tables
    assert not done.dry_run


def test_a_dry_run_refuses_what_the_load_would(graph: Graph, root: Path) -> None:
    before = everything(graph, root)
    with pytest.raises(KeyConflict):
        load(graph, node("City", name="rome"), mode="append", dry_run=True)
    with pytest.raises(LoadRejected):
        load(graph, node("Person", name="x", age=-1), mode="merge", dry_run=True)
    with pytest.raises(PreconditionFailed):
        load(graph, mode="merge", dry_run=True, if_commit="0" * 26)
    with pytest.raises(BranchNotFound):
        load(graph, mode="merge", dry_run=True, branch="side")
    with pytest.raises(BranchNotFound):
        load(graph, mode="merge", dry_run=True, branch="side", from_="nowhere")
    with pytest.raises(InvalidBranchName):
        load(graph, mode="merge", dry_run=True, branch="a b", from_="main")
    assert everything(graph, root) == before


def test_a_dry_run_for_a_missing_branch_is_checked_against_its_base(
    graph: Graph, root: Path
) -> None:
    before = everything(graph, root)
    report = load(
        graph, edge("Knows", "bob", "ann"), mode="append", branch="side", from_="main", dry_run=True
    )
    assert (report.branch, report.base_branch, report.branch_created) == ("side", "main", False)
    assert counts(report) == {"edge:Knows": (1, 1, 0, 0, 0)}
    assert everything(graph, root) == before


# --- branches ---------------------------------------------------------------------------------


def test_a_missing_branch_is_forked_for_the_load(graph: Graph) -> None:
    report = load(graph, node("City", name="oslo"), mode="append", branch="side", from_="main")
    assert (report.branch, report.base_branch, report.branch_created) == ("side", "main", True)
    assert rows(graph, "City", "name", branch="side") == [("oslo",), ("rome",)]
    assert rows(graph, "City", "name") == [("rome",)]
    again = load(graph, node("City", name="bern"), mode="append", branch="side", from_="main")
    assert not again.branch_created
    assert graph.snapshot(branch="side").count("City") == 3


def test_a_missing_branch_without_a_base_is_an_error(graph: Graph) -> None:
    for base in (None, "nowhere"):
        with pytest.raises(BranchNotFound):
            load(graph, node("City", name="oslo"), mode="append", branch="side", from_=base)
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_the_branch_of_a_load_that_fails_is_removed_again(graph: Graph) -> None:
    for records in ([node("City", name="rome")], [node("City")], [node("Nobody")]):
        with pytest.raises((KeyConflict, LoadRejected)) as caught:
            load(graph, *records, mode="append", branch="side", from_="main")
        assert "side" not in caught.value.message
        assert [each.name for each in graph.branches.list()] == ["main"]


def test_a_branch_that_was_there_stays_when_a_load_fails(graph: Graph) -> None:
    graph.branches.create("side")
    with pytest.raises(KeyConflict):
        load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert [each.name for each in graph.branches.list()] == ["main", "side"]


def test_a_branch_that_others_wrote_to_stays_when_its_load_fails(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)

    def touch() -> None:
        with armed("load.post_capture", lambda: None):
            load(other, node("City", name="oslo"), mode="append", branch="side")

    with (
        armed("load.post_capture", touch),
        pytest.raises(KeyConflict, match="'side' that this load created stays, because others"),
    ):
        load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert rows(graph, "City", "name", branch="side") == [("oslo",), ("rome",)]


def test_a_commit_that_lands_while_the_branch_of_a_failed_load_goes_is_kept(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)
    with ExitStack() as points:

        def touch() -> None:
            points.close()
            with armed("load.post_capture", lambda: None):
                load(other, node("City", name="oslo"), mode="append", branch="side")

        def wait_for_removal() -> None:
            # From here on the next lease is that of the removal.
            points.enter_context(armed("lease.post_create", touch))

        with (
            armed("load.post_capture", wait_for_removal),
            pytest.raises(KeyConflict, match="'side' that this load created stays, because"),
        ):
            load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert rows(other, "City", "name", branch="side") == [("oslo",), ("rome",)]


def test_a_branch_made_again_under_the_name_stays_when_the_load_fails(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)

    def replace_it() -> None:
        other.branches.delete("side")
        other.branches.create("side")

    with armed("load.post_capture", replace_it), pytest.raises(KeyConflict) as caught:
        load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert "stays" not in caught.value.message
    assert [each.name for each in graph.branches.list()] == ["main", "side"]


def test_a_branch_that_others_forked_stays_when_its_load_fails(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)

    def fork() -> None:
        other.branches.create("child", from_="side")

    with armed("load.post_capture", fork), pytest.raises(KeyConflict, match="created stays: "):
        load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert [each.name for each in graph.branches.list()] == ["main", "child", "side"]


def test_a_branch_that_others_deleted_is_no_matter_when_its_load_fails(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.again(graph)

    def delete() -> None:
        other.branches.delete("side")

    with armed("load.post_capture", delete), pytest.raises(KeyConflict) as caught:
        load(graph, node("City", name="rome"), mode="append", branch="side", from_="main")
    assert "stays" not in caught.value.message
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_the_branch_of_a_load_that_is_interrupted_is_removed_again(graph: Graph) -> None:
    def interrupt(told: StageProgress) -> None:
        if told.stage == "stage":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(
            graph,
            node("City", name="oslo"),
            mode="append",
            branch="side",
            from_="main",
            progress=interrupt,
        )
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_the_branch_of_a_load_that_was_rolled_back_is_removed_again(graph: Graph) -> None:
    both = node("City", name="oslo"), node("Person", name="eve")
    with armed("load.post_table_commit", Action.RAISE), pytest.raises(FailpointHit):
        load(graph, *both, mode="append", branch="side", from_="main")
    assert [each.name for each in graph.branches.list()] == ["main"]


def test_the_branch_of_a_load_that_may_have_happened_stays(graph: Graph) -> None:
    def lose(told: StageProgress) -> None:
        if told.stage == "commit":
            raise RecoveryRequired("the answer was lost", operation_id="o")

    with pytest.raises(
        RecoveryRequired, match=r"lost; .*because the load may have happened"
    ) as caught:
        load(
            graph,
            node("City", name="oslo"),
            mode="append",
            branch="side",
            from_="main",
            progress=lose,
        )
    assert caught.value.details == {"operation_id": "o"}
    assert [each.name for each in graph.branches.list()] == ["main", "side"]


def test_loads_into_one_missing_branch_at_once_make_it_once(graph: Graph) -> None:
    together = threading.Barrier(4)
    reports: list[JobReport] = []

    def work(worker: int) -> None:
        together.wait()
        record = node("City", name=f"c{worker}")
        reports.append(load(graph, record, mode="append", branch="side", from_="main"))

    run_threads(work, 4)
    assert sorted(each.branch_created for each in reports) == [False, False, False, True]
    assert graph.snapshot(branch="side").count("City") == 5


# --- once, and only if ------------------------------------------------------------------------


def test_the_same_key_gives_the_first_receipt(graph: Graph) -> None:
    records = node("Person", name="cid"), node("Note", text="n"), node("City", name="oslo")
    first = load(graph, *records, mode="append", idempotency_key="k")
    again = load(graph, *records, mode="append", idempotency_key="k")
    assert (first.already_loaded, again.already_loaded) == (False, True)
    assert (again.commit, again.operation_id) == (first.commit, first.operation_id)
    assert again.tables == first.tables
    assert graph.snapshot().count("Note") == 1


def test_the_same_key_gives_the_first_receipt_of_a_merge_with_repeats(graph: Graph) -> None:
    repeated = [edge("Knows", "ann", "bob", id="k7", since=at) for at in range(3)]
    first = load(graph, *repeated, mode="merge", idempotency_key="k")
    again = load(graph, *repeated, mode="merge", idempotency_key="k")
    assert counts(again) == counts(first) == {"edge:Knows": (3, 1, 0, 0, 2)}


@pytest.mark.parametrize("change", ["content", "mode", "embed"])
def test_another_load_with_the_same_key_is_refused(graph: Graph, change: str) -> None:
    load(graph, node("Note", text="n"), mode="append", idempotency_key="k")
    other = node("Note", text="m" if change == "content" else "n")
    with pytest.raises(IdempotencyKeyReused):
        load(
            graph,
            other,
            mode="merge" if change == "mode" else "append",
            embed=change == "embed",
            idempotency_key="k",
        )
    assert graph.snapshot().count("Note") == 1


def test_a_key_holds_for_tables_too(graph: Graph) -> None:
    def given(name: str) -> dict[str, pa.Table]:
        return {"City": pa.table({"name": ["x", name]})}

    graph.load(given("y"), mode="append", idempotency_key="k")
    assert graph.load(given("y"), mode="append", idempotency_key="k").already_loaded
    with pytest.raises(IdempotencyKeyReused):
        graph.load(given("z"), mode="append", idempotency_key="k")


def test_of_two_sends_at_once_one_loads_and_the_other_is_told(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)
    record = node("Note", text="n")
    found: list[JobReport] = []

    def overtake() -> None:
        with armed("load.post_stage_pre_lease", lambda: None):
            found.append(load(other, record, mode="append", idempotency_key="k"))

    with armed("load.post_stage_pre_lease", overtake):
        second = load(graph, record, mode="append", idempotency_key="k")
    (first,) = found
    assert (first.already_loaded, second.already_loaded) == (False, True)
    assert second.commit == first.commit
    assert graph.snapshot().count("Note") == 1


def test_a_load_may_depend_on_the_head(graph: Graph, root: Path) -> None:
    head = graph.snapshot().graph_commit_id
    load(graph, node("Note", text="n"), mode="append", if_commit=head)
    before = everything(graph, root)
    for records in ([node("Note", text="n")], []):
        with pytest.raises(PreconditionFailed):
            load(graph, *records, mode="append", if_commit=head)
    assert everything(graph, root) == before


# --- with others ------------------------------------------------------------------------------


def test_a_load_that_is_prepared_again_keeps_the_ids_it_made(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)
    # Ids ascend, so that those made before the load is prepared again are below this one.
    prepared: list[str] = []

    def overtake() -> None:
        prepared.append(graph._graph.ids.next_ulid())
        if len(prepared) == 1:
            # The edge is asked for by the load, so it has to look again.
            put(other, LivesIn=[{"src": "ann", "dst": "rome", "id": "l1"}])

    with armed("load.post_stage_pre_lease", overtake):
        report = load(
            graph,
            *(node("Note", text=f"n{at}") for at in range(3)),
            edge("LivesIn", "ann", "rome", id="l1"),
            mode="merge",
        )
    assert len(prepared) == 2
    assert counts(report)["node:Note"] == (3, 3, 0, 0, 0)
    assert len(rows(graph, "Note", "id")) == 3
    assert all(made < prepared[0] for (made,) in rows(graph, "Note", "id"))


def test_a_key_that_others_take_meanwhile_is_a_conflict(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)

    def overtake() -> None:
        if other.snapshot().count("City") == 1:
            fill(other, City=[{"name": "oslo"}])

    with armed("load.post_stage_pre_lease", overtake), pytest.raises(KeyConflict):
        load(graph, node("City", name="oslo"), node("City", name="bern"), mode="append")
    assert rows(graph, "City", "name") == [("oslo",), ("rome",)]


def test_an_overwrite_of_what_others_change_meanwhile_is_told(graphs: Opened, graph: Graph) -> None:
    other = graphs.again(graph)

    def overtake() -> None:
        if other.snapshot().count("City") == 1:
            fill(other, City=[{"name": "oslo"}])

    with armed("load.post_stage_pre_lease", overtake), pytest.raises(ReadSetChanged):
        load(graph, node("City", name="rome"), mode="overwrite")
    assert rows(graph, "City", "name") == [("oslo",), ("rome",)]


def test_loads_of_many_threads_all_land_once(graph: Graph) -> None:
    def work(worker: int) -> None:
        for number in range(4):
            name = f"w{worker}-{number}"
            load(
                graph,
                node("Person", name=name, email=f"{name}@x"),
                node("Note", text=name),
                edge("Knows", name, "ann"),
                mode="append" if number % 2 else "merge",
            )

    run_threads(work, 3)
    snapshot = graph.snapshot()
    assert (snapshot.count("Person"), snapshot.count("Note"), snapshot.count("Knows")) == (
        14,
        12,
        13,
    )
    assert len({text for (text,) in rows(graph, "Note", "text")}) == 12


# --- odd values -------------------------------------------------------------------------------

ODD = (
    *("", "a", "a\0b", "\0", "it's", 'say "x"', "two\nlines", "back\\slash", "%", "_", "null"),
    *("true", "' OR 1=1 --", "é", "e\u0301", "😀", "\u2028", "\ufeff", "\uffff", "x" * 100_000),
)


def test_keys_and_ids_may_be_any_text(graph: Graph) -> None:
    names = [f"{name}@" for name in ODD[1:]]
    people = [node("Person", name=name, email=f"{name}@") for name in ODD]
    known = [
        edge("Knows", source, target, id=f"id{source}")
        for source, target in zip(ODD, [*ODD[1:], ODD[0]], strict=True)
    ]
    load(graph, *known, *people, mode="append")
    with pytest.raises(KeyConflict) as caught:
        load(graph, *known, *people, mode="append")
    assert details_of(caught.value)["counts"] == {"key_conflict": 2 * len(ODD)}
    report = load(graph, *known, *people, mode="merge")
    size = len(ODD)
    assert report.commit is None
    assert [(each.table, each.read, each.unchanged) for each in report.tables] == [
        ("node:Person", size, size),
        ("edge:Knows", size, size),
    ]
    for name in names:
        with pytest.raises(LoadRejected, match="not found in Person"):
            load(graph, edge("Knows", name, "ann"), mode="append")
        with pytest.raises(LoadRejected, match="@unique violation"):
            load(graph, node("Person", name="new", email=name), mode="append")


# --- tables -----------------------------------------------------------------------------------

CITIES = pa.table({"name": ["oslo", "bern"]})
FORMS: dict[str, Callable[[], object]] = {
    "table": lambda: CITIES,
    "batch": lambda: CITIES.to_batches()[0],
    "batches": CITIES.to_batches,
    "reader": CITIES.to_reader,
    "frame": CITIES.to_pandas,
    "filtered frame": lambda: (
        pd.DataFrame({"name": ["oslo", "no", "bern"]}).query("name != 'no'").iloc[::-1]
    ),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_whatever_speaks_arrow_may_be_loaded(graph: Graph, form: str) -> None:
    report = graph.load({"City": FORMS[form]()}, mode="append")  # type: ignore[dict-item]  # forms
    assert counts(report) == {"node:City": (2, 2, 0, 0, 0)}
    assert rows(graph, "City", "name") == [("bern",), ("oslo",), ("rome",)]


def test_nodes_and_edges_of_tables_are_loaded_together(graph: Graph) -> None:
    report = graph.load(
        {
            "Knows": pa.table({"src": ["cid"], "dst": ["ann"]}),
            "Person": pa.table({"name": ["cid"], "age": [3]}),
        },
        mode="append",
    )
    assert counts(report) == {"node:Person": (1, 1, 0, 0, 0), "edge:Knows": (1, 1, 0, 0, 0)}
    assert rows(graph, "Person", "name", "nick")[2] == ("cid", "none")
    with pytest.raises(LoadRejected) as caught:
        graph.load({"Person": pa.table({"name": ["x"], "age": [200]})}, mode="append")
    assert details_of(caught.value)["violations"][0]["input_unit"] == "row"


def test_a_name_of_a_node_and_an_edge_type_is_told_apart(graphs: Opened) -> None:
    graph = graphs.init("node Link { url: String @key } edge Link: Link -> Link")
    load(graph, node("Link", url="a"), edge("Link", "a", "a", id="a"), mode="append")
    with pytest.raises(InvalidArgument, match="node:Link or edge:Link"):
        graph.load({"Link": pa.table({"url": ["b"]})}, mode="append")
    report = graph.load(
        {
            "edge:Link": pa.table({"src": ["b"], "dst": ["a"]}),
            "node:Link": pa.table({"url": ["b"]}),
        },
        mode="append",
    )
    assert [each.table for each in report.tables] == ["node:Link", "edge:Link"]
    assert graph.snapshot().count("node:Link") == graph.snapshot().count("edge:Link") == 2


# --- the receipt ------------------------------------------------------------------------------


def test_the_receipt_is_that_of_the_contract(graph: Graph) -> None:
    told: list[StageProgress] = []
    text = lines(node("City", name="oslo"))
    report = graph.as_actor("ann").load(text, mode="merge", progress=told.append)
    found = report.to_dict()
    assert {
        *("operation_id", "job_key", "commit", "branch", "mode", "engine", "merge_strategy"),
        *("already_loaded", "tables", "violations", "rejects_uri", "cursors", "stages", "warnings"),
    } <= set(found)
    assert json.loads(json.dumps(found)) == found
    assert (found["actor_id"], found["commit"]["actor_id"]) == ("ann", "ann")
    assert (found["branch"], found["mode"], found["engine"]) == ("main", "merge", "local")
    assert set(found["tables"][0]) == {
        *("table", "read", "added", "changed", "unchanged", "removed", "rejected", "superseded"),
    }
    stages = ["intake", "check", "stage", "commit"]
    assert [each["name"] for each in found["stages"]] == stages
    assert list(dict.fromkeys(each.stage for each in told)) == stages
    assert all(each["seconds"] >= 0 for each in found["stages"])
    assert (found["stages"][0]["rows"], found["stages"][0]["bytes"]) == (1, 43)


def test_whoever_watches_is_told_the_rows_and_bytes_so_far(graph: Graph) -> None:
    # More than one piece of the reader, which takes 2 MiB.
    text = lines(*(node("City", name=f"{number:0900}") for number in range(3000)))
    told: list[StageProgress] = []
    graph.load(text, mode="append", progress=told.append)
    intake = [each for each in told if each.stage == "intake"]
    assert {each.total_bytes for each in intake} == {len(text)}
    sizes = [each.bytes for each in intake if each.bytes is not None]
    assert sizes == sorted(sizes)
    assert 2 << 20 <= sizes[0] < len(text)
    assert (intake[-1].rows, intake[-1].bytes) == (3000, len(text))
    later = [each for each in told if each.stage != "intake"]
    assert {each.total_rows for each in later} == {3000}


def test_a_table_that_is_out_of_balance_is_an_internal_error() -> None:
    report = TableReport(table="node:City", read=3, added=1, changed=1)
    with pytest.raises(Exception, match="3 rows were read and 2 are accounted for"):
        report.require_balance()


# --- some columns -----------------------------------------------------------------------------


def test_rows_of_tables_are_counted_as_rows(graph: Graph) -> None:
    table = pa.table({"name": ["cid", "dan"], "age": pa.array([1, -1], pa.int32())})
    with pytest.raises(LoadRejected, match=r": row 2: @range violation on Person\.age") as caught:
        graph.load({"Person": table}, mode="append")
    (violation,) = details_of(caught.value)["violations"]
    assert (violation["input_unit"], violation["input_line"]) == ("row", 2)


@pytest.mark.parametrize("options", [{"mode": "update"}, {"mode": "merge", "partial": True}])
def test_rows_of_some_columns_change_only_those(graph: Graph, options: dict[str, Any]) -> None:
    report = load(
        graph,
        node("Person", name="ann", age=31),
        node("Person", name="bob", nick="bobby", email=None),
        **options,
    )
    assert counts(report) == {"node:Person": (2, 0, 2, 0, 0)}
    expected = [("ann", 31, "a@x", None), ("bob", 40, None, "bobby")]
    assert rows(graph, "Person", "name", "age", "email", "nick") == expected
    table = pa.table({"id": ["k1"], "since": pa.array([7], pa.int32())})
    graph.load({"Knows": table}, **options)
    assert rows(graph, "Knows", "id", "src", "dst", "since") == [("k1", "ann", "bob", 7)]
    again = load(graph, node("Person", name="ann", age=31), **options)
    assert (again.commit, again.tables[0].unchanged) == (None, 1)


@pytest.mark.parametrize("options", [{"mode": "update"}, {"mode": "merge", "partial": True}])
def test_rows_of_some_columns_are_known_by_their_id_alone(
    graph: Graph, options: dict[str, Any]
) -> None:
    load(graph, node("Person", id="ann", age=31), **options)
    load(graph, {"edge": "Knows", "data": {"id": "k1", "since": 8}}, **options)
    graph.load({"Person": pa.table({"id": ["bob"], "age": pa.array([41], pa.int32())})}, **options)
    assert rows(graph, "Person", "id", "name", "age")[:2] == [
        ("ann", "ann", 31),
        ("bob", "bob", 41),
    ]
    assert rows(graph, "Knows", "id", "src", "dst", "since") == [("k1", "ann", "bob", 8)]


def test_an_unknown_id_alone_breaks_one_rule(graph: Graph) -> None:
    lines: list[dict[str, object]] = [
        node("Person", id="zed", age=3),
        {"edge": "Knows", "data": {"id": "k9", "since": 8}},
    ]
    with pytest.raises(LoadRejected) as caught:
        load(graph, *lines, mode="update")
    assert details_of(caught.value)["counts"] == {"unknown_key": 2}
    with pytest.raises(LoadRejected) as caught:
        load(graph, *lines, mode="merge", partial=True)
    assert details_of(caught.value)["counts"] == {"required_missing": 3}


def test_an_id_and_a_part_of_its_key_must_agree(tmp_path: Path) -> None:
    with Graph.init(
        tmp_path / "pairs", schema="node Pair { a: String b: I64 n: I32? @key(a, b) }"
    ) as graph:
        load(graph, node("Pair", a="x", b=7, n=1), mode="append")
        load(graph, node("Pair", id='["x","7"]', n=2), mode="update")
        load(graph, node("Pair", id='["x", 7]', a="x", n=3), mode="update")
        with pytest.raises(LoadRejected) as caught:
            load(graph, node("Pair", id='["x","7"]', a="y"), mode="update")
        assert details_of(caught.value)["counts"] == {"id_mismatch": 1}
        assert rows(graph, "Pair", "id", "a", "b", "n") == [('["x","7"]', "x", 7, 3)]


def test_an_update_keeps_blobs_and_refuses_rows_that_are_not_there(graph: Graph) -> None:
    load(graph, node("Note", id="n1", text="n", picture="base64:AAEC"), mode="append")
    load(graph, node("Note", id="n1", text="m"), mode="update")
    assert graph.blob("node", "Note", "n1", "picture").read() == b"\x00\x01\x02"
    with pytest.raises(LoadRejected) as caught:
        load(
            graph,
            node("Note", id="n2", text="x"),
            node("Note", text="x"),
            node("Person", name="cid", age=-1),
            mode="update",
        )
    details = details_of(caught.value)
    assert details["counts"] == {"range_violation": 1, "required_missing": 1, "unknown_key": 2}
    unknown = [each for each in details["violations"] if each["code"] == "unknown_key"]
    assert unknown[0]["message"] == "there is no Note 'n2' to update"
    assert unknown[0]["input_line"] == 1


def test_a_partial_merge_adds_rows_that_must_then_be_whole(graph: Graph) -> None:
    report = load(graph, node("Person", name="cid"), mode="merge", partial=True)
    assert report.tables[0].added == 1
    assert rows(graph, "Person", "name", "nick")[2] == ("cid", "none")
    with pytest.raises(LoadRejected, match="text"):
        load(graph, node("Note", id="n9"), mode="merge", partial=True)
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidArgument, match="whole rows"):
            load(graph, node("Person", name="dan"), mode=mode, partial=True)


def test_rules_hold_for_rows_as_an_update_leaves_them(graph: Graph) -> None:
    with pytest.raises(LoadRejected, match="@unique violation"):
        load(graph, node("Person", name="bob", email="a@x"), mode="update")
    table = pa.table({"id": ["k1"], "dst": ["nobody"]})
    with pytest.raises(LoadRejected, match="not found in Person"):
        graph.load({"Knows": table}, mode="update")


def test_an_update_takes_what_others_wrote_meanwhile(graph: Graph) -> None:
    others: list[object] = []

    def overtake() -> None:
        if not others:
            change = 'query q() { update Person set { nick: "annie" } where name = "ann" }'
            others.append(graph.mutate(change))

    with armed("load.post_stage_pre_lease", overtake):
        load(graph, node("Person", name="ann", age=31), mode="update")
    assert others
    assert rows(graph, "Person", "name", "age", "nick")[0] == ("ann", 31, "annie")
