"""`ensure_indices`: every declared index covers every row, and no result ever changes."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    Watcher,
    committed,
    killed_at,
    listing,
    names,
    once,
    people,
    require_settled,
    rows,
    sidecars,
    state,
    table_files,
    upsert,
)

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    InvalidArgument,
    ReadOnlyGraph,
    RecoveryBlocked,
    StorageUnavailable,
)
from omnigraph.failpoints import Action, armed
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.maintenance import ensure_indices
from omnigraph.graph.maintenance.index_report import (
    IndexReport,
    PendingReason,
    SkipReason,
    TableIndexStats,
)
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.graph.recovery.leases import LeaseLost
from omnigraph.ids import MAIN_BRANCH, BranchName
from omnigraph.storage.calls import StoreCall
from omnigraph.storage.handles import TableHandle
from omnigraph.storage.predicates import Compare, CompareOp

if TYPE_CHECKING:
    from omnigraph.graph.jobs.stage_progress import StageProgress

STAGED = "ensure_indices.post_stage_pre_lease"
CAPTURED = "ensure_indices.post_capture"

EVERY_TYPE = """
node Thing {
  slug: String @key
  text: String? @index
  level: enum(low, high)? @index
  flag: Bool? @index
  small: I32? @index
  big: I64? @index
  positive: U32? @index
  huge: U64? @index
  short: F32? @index
  long: F64? @index
  day: Date? @index
  at: DateTime? @index
  mail: String? @unique
  vec: Vector(2)? @index
  plain: String?
  tags: [String]?
  data: Blob?
  @index(small, big)
}
edge Link: Thing -> Thing { weight: I32? @index  note: String?  @unique(src, dst) }
"""
DECLARED = {
    "Thing": {
        ("id", "BTREE"),
        ("slug", "BTREE"),
        ("slug", "INVERTED"),
        ("text", "BTREE"),
        ("text", "INVERTED"),
        *((name, "BTREE") for name in ("level", "flag", "small", "big", "positive", "huge")),
        *((name, "BTREE") for name in ("short", "long", "day", "at", "mail")),
        ("vec", "IVF_FLAT"),
    },
    "Link": {("id", "BTREE"), ("src", "BTREE"), ("dst", "BTREE"), ("weight", "BTREE")},
}
FULL = {
    "text": "a grey wolf",
    "level": "low",
    "flag": True,
    "small": -1,
    "big": 2**40,
    "positive": 7,
    "huge": 2**62,
    "short": 0.5,
    "long": -2.5,
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, tzinfo=UTC),
    "vec": [1.0, 0.0],
    "tags": ["x"],
    "plain": "p",
}

TEXTS = "node Doc { slug: String @key  body: String? @index  rank: I32? @index }"


def ensure(graph: Graph, branch: str = MAIN_BRANCH, types: list[str] | None = None) -> IndexReport:
    return graph.maintenance.ensure_indices(branch=branch, types=types)


def table_of(report: IndexReport, key: str) -> TableIndexStats:
    (found,) = [each for each in report.tables if each.table_key == key]
    return found


def handle_of(graph: Graph, name: str, branch: str = MAIN_BRANCH) -> TableHandle:
    snapshot = graph.snapshot(branch=branch)
    return snapshot.handle(snapshot.type(name))


def covered(graph: Graph, name: str, branch: str = MAIN_BRANCH) -> dict[tuple[str, str], float]:
    """By property and kind: the share of the fragments that the index really covers."""
    store, handle = graph._graph.tables, handle_of(graph, name, branch)
    live = {each.fragment_id for each in store.fragments(handle)}
    spelled = {"BTree": "BTREE", "Inverted": "INVERTED", "IVF_FLAT": "IVF_FLAT"}
    return {
        (str(each.property_name), spelled[each.kind]): len(each.fragments) / len(live)
        for each in store.index_coverage(handle)
    }


def found_by(graph: Graph, word: str, branch: str = MAIN_BRANCH) -> list[str]:
    """What a search finds, with every row as often as it is found."""
    found = graph._graph.tables.search_text(handle_of(graph, "Doc", branch), "body", word)
    return sorted(str(each) for each in found["id"].to_pylist())


def ranked(graph: Graph, rank: int, branch: str = MAIN_BRANCH) -> list[str]:
    predicate = Compare("rank", CompareOp.EQ, pa.scalar(rank, pa.int32()))
    found = graph._graph.tables.scan(
        handle_of(graph, "Doc", branch), columns=["id"], predicate=predicate
    ).read_all()
    return sorted(str(each) for each in found["id"].to_pylist())


def write_docs(
    graph: Graph, *docs: dict[str, Any], verb: str = "append", branch: str = MAIN_BRANCH
) -> None:
    with graph.write(branch) as writer:
        getattr(writer, verb)("Doc", rows(*docs))
        committed(writer.commit())


def doc(slug: str, body: str | None, rank: int = 0) -> dict[str, Any]:
    return {"slug": slug, "body": body, "rank": rank}


def compact(graph: Graph, name: str, branch: str = MAIN_BRANCH) -> None:
    """Join the fragments of a table in a commit of its own, and leave the indexes alone."""

    def prepare(txn: WriteTxn) -> PreparedWrite:
        (ref,) = [each for each, item in txn.tables.types.items() if item.name == name]
        whole = txn.store.stage_compaction(txn.writable(ref), txn.stamp)
        return PreparedWrite(staged=(replace(whole, links=whole.links[:1], rebase=None),))

    request = WriteRequest(kind=SidecarKind.OPTIMIZE, branch=BranchName(branch))
    graph._graph.protocol.run(request, prepare)


# --- what is built ----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [FULL, {}], ids=["values", "nulls only"])
def test_every_declared_index_is_built_and_covers_every_fragment(
    graphs: Opened, values: dict[str, Any]
) -> None:
    graph = graphs.init(EVERY_TYPE)
    for number in range(2):
        with graph.write() as writer:
            writer.append("Thing", rows({"slug": f"t{number}", **values}))
            writer.append("Link", rows({"src": f"t{number}", "dst": "t0"}))
            committed(writer.commit())
    before = {name: state_of(graph, name) for name in DECLARED}
    report = ensure(graph)
    left = set() if values else {("vec", "IVF_FLAT")}
    for name, declared in DECLARED.items():
        kind = "edge" if name == "Link" else "node"
        table = table_of(report, f"{kind}:{name}")
        assert covered(graph, name) == dict.fromkeys(declared - left, 1.0)
        assert {(each.property_name, each.kind) for each in table.built} == declared - left
        assert {(each.property_name, each.kind): each.is_complete for each in table.coverage} == {
            each: each not in left for each in declared
        }
        assert {each.rows for each in table.coverage} == {2}
        assert state_of(graph, name) == before[name]
    assert len(committed(report.commit).stats["tables"]) == 2
    require_settled(graph)


def state_of(graph: Graph, name: str) -> list[dict[str, Any]]:
    found = graph.snapshot().scan(name).read_all().to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def test_the_commit_is_one_of_kind_index_by_the_caller(graphs: Opened) -> None:
    graphs.init(actor="maker").write()
    graph = graphs.open(actor="tender")
    upsert(graph, "a")
    report = ensure(graph)
    newest = next(iter(graph.commits))
    assert report.commit == newest
    assert (newest.kind, newest.actor_id) == ("index", "tender")
    table = table_of(report, "node:Person")
    assert table.committed
    snapshot = graph.snapshot()
    assert {each.table_key: each.published_dataset_version for each in snapshot.tables} == {
        each.table_key: each.published_dataset_version for each in report.tables
    }


def test_nothing_to_build_is_no_commit_and_writes_no_file(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b")
    ensure(graph)
    before, commits = listing(graphs.root), len(list(graph.commits))
    report = ensure(graph)
    assert (report.commit, len(list(graph.commits))) == (None, commits)
    assert listing(graphs.root) == before
    assert not any(table.committed or table.built for table in report.tables)
    assert all(each.is_complete for table in report.tables for each in table.coverage)


def test_an_empty_table_has_nothing_to_index_and_says_so(graphs: Opened) -> None:
    graph = graphs.init("node Doc { slug: String @key  body: String? @index }")
    report = ensure(graph)
    assert report.commit is None
    assert [each.to_dict() for each in report.pending_indexes] == [
        {"table_key": "node:Doc", "property": name, "reason": "no_rows"}
        for name in ("id", "slug", "body")
    ]


def test_a_vector_index_waits_for_its_first_usable_vector(graphs: Opened) -> None:
    graph = graphs.init("node V { slug: String @key  vec: Vector(2)? @index }")
    with graph.write() as writer:
        writer.append("V", rows({"slug": "none", "vec": None}, {"slug": "zero", "vec": [0.0, 0.0]}))
        writer.commit()
    (pending,) = ensure(graph).pending_indexes
    assert (pending.property_name, pending.reason) == ("vec", PendingReason.NO_VECTORS)
    assert ("vec", "IVF_FLAT") not in covered(graph, "V")
    with graph.write() as writer:
        writer.append("V", rows({"slug": "one", "vec": [3.0, 4.0]}))
        writer.commit()
    report = ensure(graph)
    assert report.pending_indexes == ()
    assert covered(graph, "V")["vec", "IVF_FLAT"] == 1.0
    near = graph._graph.tables.search_vector(
        handle_of(graph, "V"), "vec", [3.0, 4.0], 5, is_exact=False
    )
    assert near["id"].to_pylist() == ["one"]
    assert ensure(graph).commit is None


def test_only_the_named_types_are_built(graphs: Opened) -> None:
    graph = graphs.init()
    with graph.write() as writer:
        writer.append("Person", people("a"))
        writer.append("Doc", rows({"title": "d"}))
        writer.commit()
    report = ensure(graph, types=["node:Doc", "Doc"])
    assert [each.table_key for each in report.tables] == ["node:Doc"]
    assert ("id", "BTREE") not in covered(graph, "Person")
    assert ensure(graph, types=[]).tables == ()
    assert [each.table_key for each in ensure(graph).tables] == [
        "node:Doc",
        "node:Person",
        "edge:Knows",
    ]


# --- segments: no stale row, no row twice -------------------------------------------------------


@pytest.mark.parametrize("branch", ["main", "rev"])
def test_appended_rows_are_found_once(graphs: Opened, branch: str) -> None:
    graph = _docs(graphs, branch)
    ensure(graph, branch)
    write_docs(graph, doc("c", "a third wolf"), branch=branch)
    table = table_of(ensure(graph, branch), "node:Doc")
    assert ("body", "INVERTED") in {(each.property_name, each.kind) for each in table.built}
    assert found_by(graph, "wolf", branch) == ["a", "b", "c"]
    assert set(covered(graph, "Doc", branch).values()) == {1.0}


@pytest.mark.parametrize("branch", thinned(["rev", "main"]))
def test_updated_rows_are_found_by_their_new_words_only(graphs: Opened, branch: str) -> None:
    graph = _docs(graphs, branch)
    ensure(graph, branch)
    write_docs(graph, doc("a", "a red fox"), verb="upsert", branch=branch)
    ensure(graph, branch)
    assert found_by(graph, "wolf", branch) == ["b"]
    assert found_by(graph, "fox", branch) == ["a"]


@pytest.mark.parametrize("branch", thinned(["rev", "main"]))
def test_deleted_rows_are_not_found_and_need_no_new_segment(graphs: Opened, branch: str) -> None:
    graph = _docs(graphs, branch)
    ensure(graph, branch)
    with graph.write(branch) as writer:
        writer.delete("Doc", ["a"])
        writer.commit()
    assert ensure(graph, branch).commit is None
    assert found_by(graph, "wolf", branch) == ["b"]


@pytest.mark.parametrize("branch", thinned(["rev", "main"]))
def test_moved_rows_are_found_once(graphs: Opened, branch: str) -> None:
    graph = _docs(graphs, branch)
    ensure(graph, branch)
    write_docs(graph, doc("c", "a third wolf"), branch=branch)
    compact(graph, "Doc", branch)
    assert found_by(graph, "wolf", branch) == ["a", "b", "c"]
    ensure(graph, branch)
    assert found_by(graph, "wolf", branch) == ["a", "b", "c"]
    assert set(covered(graph, "Doc", branch).values()) == {1.0}


@pytest.mark.parametrize("branch", thinned(["rev", "main"]))
def test_replaced_rows_are_indexed_anew(graphs: Opened, branch: str) -> None:
    graph = _docs(graphs, branch)
    ensure(graph, branch)
    write_docs(graph, doc("n", "a new wolf"), verb="overwrite", branch=branch)
    ensure(graph, branch)
    assert found_by(graph, "wolf", branch) == ["n"]
    assert set(covered(graph, "Doc", branch).values()) == {1.0}


def _docs(graphs: Opened, branch: str) -> Graph:
    graph = graphs.init(TEXTS)
    write_docs(graph, doc("a", "a grey wolf"))
    if branch != MAIN_BRANCH:
        graph.branches.create(branch)
    write_docs(graph, doc("b", "a white wolf"), branch=branch)
    return graph


WORDS = ("wolf", "fox", "owl")
Docs = dict[str, dict[str, Any]]


@dataclass
class Model:
    """A branch of documents, and what must be found on it."""

    graph: Graph
    branch: str
    random: Random
    docs: Docs = field(default_factory=dict)

    def step(self, turn: int) -> None:
        """One write or build of some kind."""
        some = self.random.sample(sorted(self.docs), min(2, len(self.docs)))
        match self.random.choice([*3 * ["append"], *2 * ["upsert", "ensure"], "delete", "compact"]):
            case "append":
                body = " ".join(self.random.sample(WORDS, 2))
                self.write("append", doc(f"d{turn}", body, turn % 3))
            case "upsert" if some:
                word = self.random.choice(WORDS)
                self.write("upsert", *(doc(slug, word, turn % 3) for slug in some))
            case "delete" if some:
                with self.graph.write(self.branch) as writer:
                    writer.delete("Doc", some)
                    writer.commit()
                self.docs = {slug: each for slug, each in self.docs.items() if slug not in some}
            case "compact":
                compact(self.graph, "Doc", self.branch)
            case _:
                ensure(self.graph, self.branch)

    def write(self, verb: str, *docs: dict[str, Any]) -> None:
        """The same documents in the graph and here."""
        write_docs(self.graph, *docs, verb=verb, branch=self.branch)
        self.docs |= {each["slug"]: each for each in docs}

    def check(self) -> None:
        """Every word and every rank finds exactly its rows, each once."""
        for word in WORDS:
            expected = sorted(slug for slug, each in self.docs.items() if word in each["body"])
            assert found_by(self.graph, word, self.branch) == expected, (self.branch, word)
        for rank in range(3):
            expected = sorted(slug for slug, each in self.docs.items() if each["rank"] == rank)
            assert ranked(self.graph, rank, self.branch) == expected, (self.branch, rank)


@pytest.mark.parametrize("seed", thinned(range(4)))
def test_any_order_of_writes_and_builds_finds_exactly_the_rows_that_are_there(
    graphs: Opened, seed: int
) -> None:
    random = Random(seed)  # noqa: S311 - repeats with its seed
    main = Model(graphs.init(TEXTS), "main", random)
    main.write("append", doc("a", "wolf owl"), doc("b", "fox"))
    main.graph.branches.create("rev")
    models = [main, replace(main, branch="rev", docs=dict(main.docs))]
    for turn in range(24):
        random.choice(models).step(turn)
        for each in models:
            each.check()
    for each in models:
        each.write("append", doc("last", "owl"))
        ensure(each.graph, each.branch)
        each.check()
        assert set(covered(each.graph, "Doc", each.branch).values()) == {1.0}


# --- branches -----------------------------------------------------------------------------------


def lines(graph: Graph, branch: str) -> dict[str, str | None]:
    """By table: the Lance branch that the pin names."""
    found = graph.snapshot(branch=branch).tables
    return {each.table_key: each.native_dataset_branch for each in found}


def test_an_inherited_table_that_is_covered_is_not_forked(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    with graph.write() as writer:
        writer.append("Doc", rows({"title": "d"}))
        writer.commit()
    ensure(graph)
    rev = graph.branches.create("rev")
    before = table_files(graphs.root)
    assert ensure(graph, "rev").commit is None
    assert table_files(graphs.root) == before
    assert set(lines(graph, "rev").values()) == {None}
    upsert(graph, "b", branch="rev")
    report = ensure(graph, "rev")
    assert [each.table_key for each in report.tables if each.committed] == ["node:Person"]
    assert lines(graph, "rev") == {
        "node:Person": f"b-{rev.branch_id}",
        "node:Doc": None,
        "edge:Knows": None,
    }
    require_settled(graph, "main", "rev")


def test_a_branch_builds_for_itself_and_leaves_its_origin_alone(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    graph.branches.create("rev")
    head = graph.snapshot().graph_commit_id
    report = ensure(graph, "rev")
    assert (report.branch, committed(report.commit).graph_branch) == ("rev", "rev")
    assert covered(graph, "Person", "rev")["id", "BTREE"] == 1.0
    assert ("id", "BTREE") not in covered(graph, "Person")
    assert graph.snapshot().graph_commit_id == head
    assert names(graph, "rev") == names(graph) == ["a"]
    require_settled(graph, "main", "rev")


@pytest.mark.parametrize("point", [CAPTURED, STAGED])
def test_a_branch_that_is_deleted_meanwhile_is_not_found(graphs: Opened, point: str) -> None:
    graph, other = graphs.init(), graphs.open()
    graph.branches.create("rev")
    upsert(graph, "a", branch="rev")
    with (
        armed(point, once(lambda: other.branches.delete("rev"))),
        pytest.raises(BranchNotFound),
    ):
        ensure(graph, "rev")
    assert sidecars(graphs.root) == []


# --- beside other writers -----------------------------------------------------------------------


def each_time(act: Callable[[], object]) -> Callable[[], None]:
    """The act at every passage of a point."""

    def called() -> None:
        act()

    return called


class Builds:
    """Counts the tables whose indexes are built."""

    def __init__(self) -> None:
        self.watcher = Watcher()

    @property
    def counts(self) -> Counter[str]:
        return Counter(
            call.target for call in self.watcher.calls if call.operation == "build_index"
        )


def two_tables(graphs: Opened) -> tuple[Graph, Graph, Builds]:
    graph = graphs.init()
    with graph.write() as writer:
        writer.append("Person", people("a"))
        writer.append("Doc", rows({"title": "d"}))
        writer.commit()
    builds = Builds()
    return graphs.coordinated(observer=builds.watcher), graphs.open(), builds


def test_only_a_table_that_moved_meanwhile_is_built_again(graphs: Opened) -> None:
    graph, other, builds = two_tables(graphs)
    with armed(STAGED, once(lambda: upsert(other, "b"))):
        report = ensure(graph)
    assert builds.counts == {"node:Person": 2, "node:Doc": 1}
    assert table_of(report, "node:Person").coverage[0].rows == 2
    for name in ("Person", "Doc"):
        assert set(covered(graph, name).values()) == {1.0}
    assert names(graph) == ["a", "b"]
    assert [each.kind for each in graph.commits][:2] == ["index", "mutation"]
    require_settled(graph)


def test_versions_that_were_kept_from_an_earlier_attempt_name_the_last_one(graphs: Opened) -> None:
    graph, other, _ = two_tables(graphs)
    with armed(STAGED, once(lambda: upsert(other, "b"))):
        report = ensure(graph)
    handle = handle_of(graph, "Doc")
    (trace,) = graph._graph.tables.traces(
        handle.layout, None, handle.pin.version - 1, handle.pin.version
    )
    made = committed(report.commit)
    assert (trace.operation_id, trace.kind) == (made.operation_id, "ensure_indices")


def test_commits_of_other_tables_disturb_nothing(graphs: Opened) -> None:
    graph, other, builds = two_tables(graphs)
    with armed(STAGED, each_time(lambda: upsert(other, "b"))):
        report = ensure(graph, types=["Doc"])
    assert builds.counts == {"node:Doc": 1}
    assert committed(report.commit).parent_commit_id == other.snapshot(2).graph_commit_id


def test_a_table_that_never_rests_is_built_under_the_lease(graphs: Opened) -> None:
    graph, other, builds = two_tables(graphs)
    with armed(STAGED, each_time(lambda: upsert(other, f"b{builds.counts['node:Person']}"))):
        report = ensure(graph)
    # One write before each commit; the last is caught up with while nobody else can write.
    assert builds.counts == {"node:Person": ensure_indices.STAGINGS + 2, "node:Doc": 1}
    table = table_of(report, "node:Person")
    assert (table.committed, table.skipped) == (True, None)
    assert table.published_dataset_version == handle_of(graph, "Person").pin.version
    assert all(each.is_complete for each in table.coverage)
    assert set(covered(graph, "Person").values()) == {1.0}
    assert names(graph) == ["a", "b1", "b2", "b3", "b4"]
    require_settled(graph)


def test_a_large_table_that_never_rests_is_left_and_the_others_are_built(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensure_indices, "QUICK_US", -1)
    graph, other, builds = two_tables(graphs)
    with armed(STAGED, each_time(lambda: upsert(other, f"b{builds.counts['node:Person']}"))):
        report = ensure(graph)
    person, made = table_of(report, "node:Person"), table_of(report, "node:Doc")
    assert (person.skipped, person.committed, person.built) == (SkipReason.BUSY, False, ())
    assert person.to_dict()["skipped"] == "busy"
    assert not person.coverage[0].is_complete
    assert made.committed
    assert builds.counts == {"node:Person": ensure_indices.STAGINGS, "node:Doc": 1}
    assert set(covered(graph, "Doc").values()) == {1.0}
    assert ("id", "BTREE") not in covered(graph, "Person")
    assert table_of(ensure(graph), "node:Person").committed


def test_two_calls_at_once_build_once(graphs: Opened) -> None:
    graph, other, _ = two_tables(graphs)
    with armed(STAGED, once(lambda: ensure(other))):
        report = ensure(graph)
    assert report.commit is None
    assert [each.kind for each in graph.commits].count("index") == 1
    assert all(each.is_complete for table in report.tables for each in table.coverage)


def test_a_build_that_became_needless_under_the_lease_is_dropped(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ensure_indices, "STAGINGS", 0)
    graph, other, _ = two_tables(graphs)
    with armed(STAGED, once(lambda: ensure(other))):
        assert ensure(graph).commit is None
    assert [each.kind for each in graph.commits].count("index") == 1
    require_settled(graph)


WRITER = """
import sys, pyarrow as pa
from omnigraph import Graph
with Graph.open(sys.argv[1]) as graph:
    for number in range(int(sys.argv[2])):
        with graph.write() as writer:
            writer.append("Doc", pa.table({"slug": [f"w{number}"], "body": [f"wolf n{number}"]}))
            writer.upsert("Doc", pa.table({"slug": ["same"], "body": [f"owl v{number}"]}))
            writer.commit()
        print(number, flush=True)
"""


@pytest.mark.extended
def test_a_writer_in_another_process_loses_nothing_and_holds_nothing_up(graphs: Opened) -> None:
    graph, writes = graphs.init(TEXTS), 6
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, graphs.root, str(writes)],
        env={"OMNIGRAPH_DURABILITY": "process"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    built = 0
    while process.poll() is None:
        built += ensure(graph).commit is not None
    out, err = process.communicate()
    assert (process.returncode, len(out.splitlines())) == (0, writes), err
    ensure(graph)
    assert found_by(graph, "wolf") == sorted(f"w{number}" for number in range(writes))
    assert found_by(graph, "owl") == found_by(graph, f"v{writes - 1}") == ["same"]
    assert found_by(graph, "v0") == []
    assert set(covered(graph, "Doc").values()) == {1.0}
    kinds = Counter(each.kind for each in graph.commits)
    assert kinds["mutation"] == writes
    assert kinds["index"] in (built, built + 1)
    require_settled(graph)


def test_threads_on_one_graph_write_and_build_at_once(graphs: Opened) -> None:
    graph = graphs.init(TEXTS)
    failed: list[Exception] = []

    def write(part: str) -> None:
        try:
            for number in range(3):
                write_docs(graph, doc(f"{part}{number}", "wolf"))
        except Exception as error:  # noqa: BLE001 - the test judges it
            failed.append(error)

    threads = [threading.Thread(target=write, args=(part,)) for part in "xyz"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        ensure(graph)
    for thread in threads:
        thread.join()
    assert failed == []
    ensure(graph)
    assert found_by(graph, "wolf") == sorted(
        f"{part}{number}" for part in "xyz" for number in range(3)
    )
    require_settled(graph)


@pytest.mark.parametrize(("setting", "most"), [("1", 1), ("8", 2)])
def test_as_many_tables_are_built_at_once_as_the_setting_allows(
    graphs: Opened, setting: str, most: int
) -> None:
    two_tables(graphs)
    watcher, at_work, seen = Watcher(), Counter[str](), []
    meeting = threading.Barrier(most, timeout=20)

    def before(call: StoreCall) -> None:
        if call.operation == "build_index":
            at_work["now"] += 1
            seen.append(at_work["now"])
            meeting.wait()

    def after(call: StoreCall) -> None:
        if call.operation == "build_index":
            at_work["now"] -= 1

    watcher.before_each, watcher.after_each = before, after
    graph = graphs.coordinated(observer=watcher, MAINTENANCE_CONCURRENCY=setting)
    assert ensure(graph).commit is not None
    assert max(seen) == most


def test_one_table_has_one_transaction(graphs: Opened) -> None:
    graph, _, _ = two_tables(graphs)
    with armed("ensure_indices.between_links", Action.RAISE):
        report = ensure(graph)
    before = graph.snapshot(report.commit.parent_commit_id if report.commit else None)
    for table in before.tables:
        after = table_of(report, table.table_key)
        moved = after.published_dataset_version - table.published_dataset_version
        assert moved == int(after.committed)


# --- refusals and failures ----------------------------------------------------------------------


def test_an_unknown_type_is_refused_with_the_nearest_name(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    with pytest.raises(InvalidArgument, match="did you mean Person"):
        ensure(graph, types=["Persn"])
    with pytest.raises(InvalidArgument, match="list of names"):
        graph.maintenance.ensure_indices(types="Person")
    assert [each.kind for each in graph.commits] == ["mutation", "genesis"]


def test_a_lane_that_there_is_not_is_refused(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a")
    engine: Any = "dask"  # Any: what no caller should give
    with pytest.raises(InvalidArgument, match="dask") as caught:
        graph.maintenance.ensure_indices(engine=engine)
    assert caught.value.details == {"argument": "engine"}
    assert graph.maintenance.ensure_indices(engine="local").engine == "local"


def test_a_read_only_graph_is_refused(graphs: Opened) -> None:
    upsert(graphs.init(), "a")
    before = listing(graphs.root)
    with pytest.raises(ReadOnlyGraph):
        ensure(graphs.read_only())
    assert listing(graphs.root) == before


def test_an_unknown_branch_is_refused(graphs: Opened) -> None:
    with pytest.raises(BranchNotFound):
        ensure(graphs.init(), "nope")


def test_a_build_that_fails_leaves_everything_as_it_was(graphs: Opened) -> None:
    graph, _, builds = two_tables(graphs)
    builds.watcher.fail("build_index", "node:Doc", OSError("disk"))
    commits = len(list(graph.commits))
    with pytest.raises(StorageUnavailable):
        ensure(graph)
    assert len(list(graph.commits)) == commits
    require_settled(graph)
    builds.watcher.before_each = None
    assert ensure(graph).commit is not None


def test_a_crashed_write_is_settled_even_if_there_is_nothing_to_build(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    ensure(graph)
    with killed_at("mutation.post_phase_b_pre_manifest_commit"), pytest.raises(Killed):
        upsert(other, "b")
    assert len(sidecars(graphs.root)) == 1
    report = ensure(graph, types=["Doc"])
    assert (report.commit, sidecars(graphs.root)) == (None, [])
    assert names(graph) == ["a", "b"]
    require_settled(graph)


def test_a_write_that_cannot_be_settled_stops_it(graphs: Opened) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    with killed_at("mutation.post_table_commit"), pytest.raises(Killed):
        upsert(other, "b")
    (left,) = graph._graph.sidecars.list()
    location = handle_of(graph, "Person").pin.location
    lance.dataset(str(graphs.root / location)).delete("id = 'a'")
    with pytest.raises(RecoveryBlocked):
        ensure(graph)
    assert [each.operation_id for each in graph._graph.sidecars.list()] == [left.operation_id]


def test_a_lease_that_is_lost_while_healing_is_taken_again(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, other = graphs.init(), graphs.open()
    upsert(graph, "a")
    with killed_at("mutation.post_phase_b_pre_manifest_commit"), pytest.raises(Killed):
        upsert(other, "b")
    heal = graph._graph.recovery.heal
    lost: list[bool] = []

    def first_loses(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - passed on as it is
        if not lost:
            lost.append(True)
            raise LeaseLost("taken over")
        return heal(*given, **named)

    monkeypatch.setattr(graph._graph.recovery, "heal", first_loses)
    assert ensure(graph).commit is not None
    assert names(graph) == ["a", "b"]
    require_settled(graph)


# --- the report ---------------------------------------------------------------------------------


def test_the_report_is_plain_json(graphs: Opened) -> None:
    graph = graphs.init("node V { slug: String @key  vec: Vector(2)? @index }")
    with graph.write() as writer:
        writer.append("V", rows({"slug": "a"}))
        writer.commit()
    report = ensure(graph)
    body = json.loads(json.dumps(report.to_dict()))
    commit = body.pop("commit")
    assert commit["graph_commit_id"] == committed(report.commit).graph_commit_id
    assert body == {
        "branch": "main",
        "engine": "local",
        "tables": [
            {
                "table_key": "node:V",
                "committed": True,
                "skipped": None,
                "published_dataset_version": handle_of(graph, "V").pin.version,
                "built": [
                    {"property": "id", "kind": "BTREE"},
                    {"property": "slug", "kind": "BTREE"},
                    {"property": "slug", "kind": "INVERTED"},
                ],
                "coverage": [
                    {"property": "id", "kind": "BTREE", "rows_covered": 1, "rows": 1},
                    {"property": "slug", "kind": "BTREE", "rows_covered": 1, "rows": 1},
                    {"property": "slug", "kind": "INVERTED", "rows_covered": 1, "rows": 1},
                    {"property": "vec", "kind": "IVF_FLAT", "rows_covered": 0, "rows": 1},
                ],
                "pending_indexes": [
                    {"table_key": "node:V", "property": "vec", "reason": "no_vectors"}
                ],
            }
        ],
    }
    assert ensure(graph).to_dict()["commit"] is None


def test_progress_is_told_stage_by_stage(graphs: Opened) -> None:
    graph, _, _ = two_tables(graphs)
    told: list[StageProgress] = []
    graph.maintenance.ensure_indices(progress=told.append)
    assert [(each.stage, each.done, each.total) for each in told] == [
        *(("plan", done, 3) for done in range(4)),
        *(("build", done, 2) for done in range(3)),
        ("commit", 0, 2),
    ]


def test_rows_that_are_partly_covered_are_counted(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphs.init(TEXTS)
    write_docs(graph, doc("a", "wolf"), doc("b", "wolf"))
    ensure(graph)
    monkeypatch.setattr(ensure_indices, "STAGINGS", 0)
    monkeypatch.setattr(ensure_indices, "QUICK_US", -1)
    write_docs(graph, doc("c", "wolf"))
    table = table_of(ensure(graph), "node:Doc")
    assert table.skipped is SkipReason.BUSY
    assert {(each.rows_covered, each.rows) for each in table.coverage} == {(2, 3)}


def test_what_is_shown_never_depends_on_indexes(graphs: Opened) -> None:
    graph = graphs.init()
    upsert(graph, "a", "b", age=3)
    before = state(graph.snapshot())
    ensure(graph)
    assert state(graph.snapshot()) == before
    assert isinstance(pa.table(graph.snapshot().scan("Person").read_all()), pa.Table)
