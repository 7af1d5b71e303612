"""A graph in a bucket keeps the promises of a graph in a folder, and some of its own."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import obstore
import pytest
from obstore.store import LocalStore, ObjectStore
from tests.extended import thinned
from tests.race import workers
from tests.race.crew import ENVIRONMENT, Crew
from tests.race.pairs import SCHEMA, TYPES, commit_ids, pairs_of, require_settled, write_pair
from tests.s3.stand_in import WRITES, Access, Failure, Kind, StandIn

from omnigraph.api import Graph
from omnigraph.errors import (
    BranchBusy,
    GraphExists,
    GraphNotFound,
    InitInProgress,
    InvalidArgument,
    OmnigraphError,
    ReadOnlyGraph,
    RecoveryRequired,
    SnapshotReclaimed,
    StorageDenied,
    StorageUnavailable,
    StorageUnsupported,
)
from omnigraph.failpoints import armed
from omnigraph.settings import Settings, load_settings

pytestmark = pytest.mark.s3

KILLED = -signal.SIGKILL
PATIENT = {**ENVIRONMENT, "OMNIGRAPH_LEASE_TTL_MS": "3000"}
"""A dead process is known by its pid; a live one on a busy machine must not lose its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one test has its graph, and how a process is told."""

    root: str
    store: ObjectStore
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def settings(self, **more: str) -> Settings:
        """The settings of a process at this place."""
        return load_settings({**PATIENT, **self.environment, **more})

    def init(self, **more: str) -> Graph:
        """A new graph."""
        return Graph.init(self.root, schema=SCHEMA, settings=self.settings(**more))

    def open(self, mode: Literal["read_write", "read_only"] = "read_write", **more: str) -> Graph:
        """The graph, opened."""
        return Graph.open(self.root, mode=mode, settings=self.settings(**more))

    def crew(self) -> Crew:
        """Processes that know the place."""
        return Crew(self.folder, {**PATIENT, **self.environment})

    def objects(self) -> dict[str, int]:
        """Every object below the root, with its size."""
        return {each["path"]: each["size"] for each in obstore.list(self.store).collect()}


class GraphContract:
    """What holds wherever a graph is."""

    def test_an_init_leaves_a_graph_and_neither_claim_nor_probe(self, place: Place) -> None:
        place.init().close()
        names = {name.partition("/")[0] for name in place.objects()}
        assert names == {"__manifest", "__schema", "nodes"}
        with place.open("read_only") as graph:
            assert pairs_of(graph.snapshot()) == []

    def test_a_second_init_changes_nothing(self, place: Place) -> None:
        place.init().close()
        before = place.objects()
        with pytest.raises(GraphExists):
            place.init()
        assert place.objects() == before

    def test_where_nothing_is_there_is_no_graph(self, place: Place) -> None:
        with pytest.raises(GraphNotFound):
            place.open("read_only")
        assert place.objects() == {}

    def test_what_was_written_is_read_by_whoever_opens_next(self, place: Place) -> None:
        with place.init() as graph:
            write_pair(graph, "a", "b")
            write_pair(graph, "b", "c", upsert=True)
            assert pairs_of(graph.snapshot()) == ["a", "b", "c"]
        with place.open("read_only") as graph:
            assert pairs_of(graph.snapshot()) == ["a", "b", "c"]
            assert graph.snapshot().entity("Left", "b") == {"id": "b", "name": "b"}
            assert graph.snapshot().entity("Left", "z") is None

    def test_every_past_commit_still_shows_its_state(self, place: Place) -> None:
        with place.init() as graph:
            commits = [write_pair(graph, f"k{number}") for number in range(4)]
            with graph.write() as writer:
                for each in ("Left", "Right"):
                    writer.delete(each, ["k0"])
                writer.commit()
        with place.open("read_only") as graph:
            assert pairs_of(graph.snapshot()) == ["k1", "k2", "k3"]
            for number, commit in enumerate(commits):
                past = graph.snapshot(commit.graph_commit_id)
                assert pairs_of(past) == [f"k{each}" for each in range(number + 1)]

    @pytest.mark.extended
    def test_a_schema_changes_with_its_rows_and_what_is_dropped_for_good_is_gone(
        self, place: Place
    ) -> None:
        wanted = (
            'node Left { key: String @key @rename_from("name")  level: I64 @default(7)'
            "  note: String? @index }\nnode Place { name: String @key }\n"
        )
        with place.init() as graph:
            write_pair(graph, "a", "b")
            old = graph.snapshot()
            applied = graph.schema.apply(wanted, allow_data_loss=True)
            assert (applied.applied, applied.kept_data) == (True, ())
        with place.open() as graph:
            row = {"id": "a", "key": "a", "level": 7, "note": None}
            assert graph.snapshot().entity("Left", "a") == row
            past = graph.snapshot(old.graph_commit_id)
            assert past.entity("Left", "a") == {"id": "a", "name": "a"}
            with pytest.raises(SnapshotReclaimed):
                past.scan("Right").read_all()
            graph.mutate('query q() { insert Left { key: "c", note: "a quick fox" } }')
            found = 'query q() { match { $l: Left search($l.note, "fox") } return { $l.key } }'
            assert graph.query(found).to_dicts() == [{"l.key": "c"}]
            require_settled(graph)

    def test_branches_of_branches_fork_and_stay_apart(self, place: Place) -> None:
        with place.init() as graph:
            write_pair(graph, "root")
            graph.branches.create("child")
            write_pair(graph, "child", branch="child")
            graph.branches.create("grandchild", from_="child")
            write_pair(graph, "grandchild", branch="grandchild")
            write_pair(graph, "main")
            write_pair(graph, "child-2", branch="child")
        expected = {
            "main": ["main", "root"],
            "child": ["child", "child-2", "root"],
            "grandchild": ["child", "grandchild", "root"],
        }
        with place.open() as graph:
            for branch, keys in expected.items():
                assert pairs_of(graph.snapshot(branch=branch)) == keys
            require_settled(graph, expected)
            graph.branches.delete("grandchild")
            graph.branches.delete("child")
            assert [each.name for each in graph.branches.list()] == ["main"]
            write_pair(graph, "last")
            require_settled(graph)
        assert not [name for name in place.objects() if "/tree/" in name]

    def test_a_merge_is_planned_made_told_and_undone(self, place: Place) -> None:
        with place.init() as graph:
            write_pair(graph, "a", "b")
            graph.tags.create("before")
            graph.branches.create("side")
            write_pair(graph, "c", branch="side")
            with graph.write("side") as writer:
                for each in TYPES:
                    writer.delete(each, ["b"])
                writer.commit()
            write_pair(graph, "d")
            counts = {"inserted": 1, "updated": 0, "deleted": 1}
            plan = graph.branches.merge_plan("side")
            assert plan.tables == {f"node:{each}": counts for each in TYPES}
            merged = graph.branches.merge("side", delete_branch=True)
            assert (merged.outcome, merged.branch_deleted) == ("merged", True)
        assert not [name for name in place.objects() if "/tree/" in name]
        with place.open() as graph:
            assert pairs_of(graph.snapshot()) == ["a", "c", "d"]
            *_, block = graph.changes.poll(start="after:before")
            assert [f"{each.op} {each.type_name} {each.id}" for each in block.changes] == [
                change for each in TYPES for change in (f"delete {each} b", f"insert {each} c")
            ]
            differs = {f"node:{each}": {"insert": 2, "delete": 1} for each in TYPES}
            assert graph.diff("before", "main").stats == differs
            graph.commits.revert(block.cause.graph_commit_id)
            assert pairs_of(graph.snapshot()) == ["a", "b", "d"]
            assert pairs_of(graph.snapshot("before")) == ["a", "b"]
            assert graph._graph.sidecars.list() == []

    @pytest.mark.parametrize(
        ("point", "branch", "lands"),
        thinned(
            [
                ("mutation.post_table_commit", "main", False),
                ("mutation.post_phase_b_pre_manifest_commit", "side", True),
                ("mutation.post_lease_pre_sidecar", "main", False),
                ("mutation.post_phase_a", "side", False),
                ("mutation.post_table_commit", "side", False),
                ("mutation.post_phase_b_pre_manifest_commit", "main", True),
                ("mutation.post_phase_c_pre_phase_d", "main", True),
                ("mutation.post_phase_d_pre_release", "side", True),
            ],
            keep=2,
        ),
    )
    def test_a_killed_writer_is_brought_to_all_or_nothing_by_the_next_open(
        self, place: Place, point: str, branch: str, *, lands: bool
    ) -> None:
        with place.init() as graph:
            write_pair(graph, "before")
            if branch != "main":
                graph.branches.create(branch)
        told = {"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": f"{point}=kill"}
        with place.crew() as crew:
            victim = crew.start("victim", workers.write_once, place.root, "victim", branch, **told)
            assert victim.wait(50) == KILLED, victim.words()
        published = point.startswith(("mutation.post_phase_c", "mutation.post_phase_d"))
        with place.open("read_only") as graph:
            seen = pairs_of(graph.snapshot(branch=branch))
            assert seen == (["before", "victim"] if published else ["before"])
        with place.open() as graph:
            expected = ["before", "victim"] if lands else ["before"]
            assert pairs_of(graph.snapshot(branch=branch)) == expected
            write_pair(graph, "after", branch=branch)
            require_settled(graph, {"main", branch})
            assert pairs_of(graph.snapshot(branch=branch)) == sorted([*expected, "after"])

    def test_a_killed_init_is_cleared_by_a_forced_one(self, place: Place) -> None:
        told = {"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "init.post_table_create=kill"}
        with place.crew() as crew:
            victim = crew.start("victim", workers.init_once, place.root, **told)
            assert victim.wait(50) == KILLED, victim.words()
        with pytest.raises(GraphNotFound, match="init --force"):
            place.open()
        with pytest.raises(InitInProgress):
            place.init()
        with Graph.init(place.root, schema=SCHEMA, settings=place.settings(), force=True) as graph:
            write_pair(graph, "a")
            require_settled(graph)
            assert pairs_of(graph.snapshot()) == ["a"]

    @pytest.mark.extended
    def test_a_held_lease_keeps_others_waiting_and_a_released_one_does_not(
        self, place: Place
    ) -> None:
        with place.init() as holder, place.open(OMNIGRAPH_LEASE_WAIT_MS="300") as other:
            with holder._graph.leases.holding("branch-main"):
                with pytest.raises(BranchBusy):
                    write_pair(other, "a")
                assert pairs_of(other.snapshot()) == []
            write_pair(other, "a")
            assert pairs_of(holder.snapshot()) == ["a"]
            require_settled(holder)
        leases = sorted(name for name in place.objects() if name.startswith("__leases/"))
        assert all("wait-" not in name for name in leases)

    def test_a_read_only_handle_writes_no_byte(self, place: Place) -> None:
        with place.init() as graph:
            write_pair(graph, "a")
        before = place.objects()
        with place.open("read_only") as graph:
            assert pairs_of(graph.snapshot()) == ["a"]
            graph.refresh()
            with pytest.raises(ReadOnlyGraph):
                graph.write()
            with pytest.raises(ReadOnlyGraph):
                graph.branches.create("b")
        assert place.objects() == before

    def test_another_process_sees_each_commit_at_its_next_snapshot(self, place: Place) -> None:
        questions = place.folder / "questions"
        questions.touch()
        with place.init() as graph, place.crew() as crew:
            other = crew.start("other", workers.answer_heads, place.root, str(questions))
            crew.await_words(other, "ready")
            commits = []
            for number in range(3):
                commits.append(write_pair(graph, f"k{number}").graph_commit_id)
                with questions.open("a") as file:
                    file.write(f"{number}\n")
                while len(other.words("head")) <= number:
                    assert other.is_alive, other.words()
            with questions.open("a") as file:
                file.write("end\n")
            assert other.wait(30) == 0
        assert [words[2] for words in other.words("head")] == commits


class TestInAFolder(GraphContract):
    """The graph of a laptop."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        root = tmp_path / "graph"
        root.mkdir()
        return Place(root=str(root), store=LocalStore(root), folder=tmp_path)


@pytest.fixture
def bucket(s3: StandIn, tmp_path: Path) -> Place:
    """A prefix of the stand-in's bucket."""
    return Place(
        root=s3.uri("some/prefix"),
        store=s3.endpoint.store("some/prefix"),
        folder=tmp_path,
        environment=s3.environment(),
    )


class TestInABucket(GraphContract):
    """The graph of a team."""

    @pytest.fixture
    def place(self, bucket: Place) -> Place:
        return bucket

    @pytest.mark.extended
    def test_branches_of_branches_fork_and_stay_apart(self, place: Place) -> None:
        super().test_branches_of_branches_fork_and_stay_apart(place)

    @pytest.mark.extended
    def test_every_past_commit_still_shows_its_state(self, place: Place) -> None:
        super().test_every_past_commit_still_shows_its_state(place)

    @pytest.mark.extended
    def test_a_killed_init_is_cleared_by_a_forced_one(self, place: Place) -> None:
        super().test_a_killed_init_is_cleared_by_a_forced_one(place)


# --- only a bucket has these -------------------------------------------------------------------


def _require_clean(error: OmnigraphError) -> None:
    """One line, and nothing that a log should not hold."""
    text = str(error)
    assert "\n" not in text
    for forbidden in ("Debug source", "secret", "http://", ".rs:"):
        assert forbidden not in text.lower()


@pytest.mark.extended
def test_both_clients_send_the_session_token(
    s3: StandIn, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-session")
    with s3.watching() as seen:
        bucket.init().close()
    assert {each.session_token for each in seen.requests} == {"a-session"}


@pytest.mark.extended
def test_read_only_credentials_read_and_a_write_is_denied_and_changes_nothing(
    s3: StandIn, bucket: Place
) -> None:
    with bucket.init() as graph:
        write_pair(graph, "a")
        before = bucket.objects()
        s3.access = Access.READ_ONLY
        with s3.watching() as seen, bucket.open("read_only") as reader:
            assert pairs_of(reader.snapshot()) == ["a"]
            assert reader.branches.list()[0].name == "main"
        assert not [each for each in seen.requests if each.kind in WRITES]
        for write in (lambda: write_pair(graph, "b"), bucket.open):
            with pytest.raises(StorageDenied) as denied:
                write()
            _require_clean(denied.value)
        assert bucket.objects() == before
        s3.access = Access.FULL
        write_pair(graph, "b")
        assert pairs_of(graph.snapshot()) == ["a", "b"]
        require_settled(graph)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("point", "told"),
    thinned(
        [
            ("mutation.post_table_commit", RecoveryRequired),
            ("mutation.post_stage_pre_lease", StorageDenied),
            ("mutation.post_phase_b_pre_manifest_commit", RecoveryRequired),
        ]
    ),
)
def test_rights_lost_in_the_middle_of_a_write_are_a_typed_error_and_heal_later(
    s3: StandIn, bucket: Place, point: str, told: type[OmnigraphError]
) -> None:
    def deny() -> None:
        s3.access = Access.READ_ONLY

    with bucket.init() as graph:
        write_pair(graph, "a")
        with armed(point, deny), pytest.raises(told) as error:
            write_pair(graph, "b")
        _require_clean(error.value)
        assert pairs_of(graph.snapshot()) == ["a"]
        s3.access = Access.FULL
        write_pair(graph, "c")
        lands = point == "mutation.post_phase_b_pre_manifest_commit"
        assert pairs_of(graph.snapshot()) == (["a", "b", "c"] if lands else ["a", "c"])
        require_settled(graph)


# Lance tries a listing six times whatever the answer is: each of these takes seconds.
BEGINNINGS: dict[str, Callable[[Place], Graph]] = {
    "open": lambda place: place.open(),
    "open to read": lambda place: place.open("read_only"),
    "init": lambda place: place.init(),
}


@pytest.mark.parametrize("call", thinned(BEGINNINGS))
def test_credentials_without_rights_are_denied(s3: StandIn, bucket: Place, call: str) -> None:
    bucket.init().close()
    s3.access = Access.NONE
    with pytest.raises(StorageDenied) as denied:
        BEGINNINGS[call](bucket)
    _require_clean(denied.value)


@pytest.mark.extended
@pytest.mark.parametrize("call", thinned(BEGINNINGS))
def test_a_missing_bucket_is_named(bucket: Place, call: str) -> None:
    absent = replace(bucket, root="s3://absent/graph")
    with pytest.raises(InvalidArgument, match="bucket 'absent' does not exist") as missing:
        BEGINNINGS[call](absent)
    _require_clean(missing.value)
    assert missing.value.details["bucket"] == "absent"


def test_a_store_without_conditional_puts_cannot_hold_a_graph(s3: StandIn, bucket: Place) -> None:
    s3.ignores_conditions = True
    with pytest.raises(StorageUnsupported):
        bucket.init()
    assert bucket.objects() == {}
    s3.ignores_conditions = False
    bucket.init().close()
    before = bucket.objects()
    s3.ignores_conditions = True
    with pytest.raises(StorageUnsupported):
        bucket.open()
    with bucket.open("read_only") as graph:
        assert pairs_of(graph.snapshot()) == []
    assert bucket.objects() == before


@pytest.fixture
def own_server() -> Iterator[StandIn]:
    with StandIn() as running:
        running.forget()
        yield running


CALLS: dict[str, Callable[[Graph, Place], object]] = {
    "init": lambda _, place: place.init(),
    "open": lambda _, place: place.open("read_only"),
    "write": lambda graph, _: write_pair(graph, "b"),
}


@pytest.mark.extended
@pytest.mark.parametrize("call", thinned(CALLS))
def test_a_server_that_is_gone_is_unavailable_within_seconds(
    own_server: StandIn, tmp_path: Path, call: str
) -> None:
    place = Place(
        root=own_server.uri("gone"),
        store=own_server.endpoint.store("gone"),
        folder=tmp_path,
        environment=own_server.environment(),
    )
    with place.init() as graph:
        write_pair(graph, "a")
        own_server.stop()
        with pytest.raises(StorageUnavailable) as told:
            CALLS[call](graph, place)
        _require_clean(told.value)


@pytest.mark.parametrize(
    ("point", "failure"),
    thinned(
        [
            ("mutation.post_phase_a", Failure.UNAVAILABLE),
            ("mutation.post_stage_pre_lease", Failure.DROPPED),
            ("mutation.post_table_commit", Failure.DROPPED),
            ("mutation.post_phase_b_pre_manifest_commit", Failure.UNAVAILABLE),
        ]
    ),
)
def test_a_store_that_goes_away_in_the_middle_of_a_write_converges_later(
    s3: StandIn, bucket: Place, point: str, failure: Failure
) -> None:
    with bucket.init() as graph:
        write_pair(graph, "a")
        with (
            armed(point, lambda: s3.fail(failure)),
            pytest.raises((StorageUnavailable, RecoveryRequired)) as told,
        ):
            write_pair(graph, "b")
        _require_clean(told.value)
        s3.heal()
        assert pairs_of(graph.snapshot()) == ["a"]
        write_pair(graph, "c")
        expected = ["a", "c"]
        if point == "mutation.post_phase_b_pre_manifest_commit":
            expected = ["a", "b", "c"]
        assert pairs_of(graph.snapshot()) == expected
        require_settled(graph)


# --- the n-th request ---------------------------------------------------------------------------


def _fail_every_request_in_turn(
    s3: StandIn, bucket: Place, failure: Failure, kinds: list[Kind], *, step: int, times: int
) -> int:
    """Fails the n-th request of a two-table write for n = 1, 2, … until none is hit."""
    with bucket.init() as graph:
        write_pair(graph, "warm")
        expected, nth = ["warm"], 1
        while True:
            key = f"k{nth:03}"
            s3.fail(failure, nth=nth, times=times, kinds=kinds)
            with s3.watching() as seen:
                outcome = _outcome(graph, key)
            s3.heal()
            write_pair(graph, f"{key}-next")
            found = pairs_of(graph.snapshot())
            if isinstance(outcome, str):
                assert key in found
                assert outcome in commit_ids(graph)
            if isinstance(outcome, StorageUnavailable):
                assert key not in found, "the error says that nothing happened"
            expected += [f"{key}-next", *({key} & set(found))]
            assert found == sorted(expected)
            require_settled(graph)
            if len([each for each in seen.requests if each.kind in kinds]) < nth:
                return nth
            nth += step


def _outcome(graph: Graph, key: str) -> str | OmnigraphError:
    try:
        return write_pair(graph, key).graph_commit_id
    except (StorageUnavailable, RecoveryRequired) as error:
        _require_clean(error)
        return error


@pytest.mark.parametrize("kind", thinned([Kind.CREATE, Kind.PUT, Kind.DELETE]))
def test_a_write_survives_the_loss_of_any_one_acknowledgement(
    s3: StandIn, bucket: Place, kind: Kind
) -> None:
    tried = _fail_every_request_in_turn(s3, bucket, Failure.LOST_ANSWER, [kind], step=2, times=1)
    assert tried > 1


@pytest.mark.extended
def test_a_write_whose_nth_request_fails_for_good_is_all_or_nothing(
    s3: StandIn, bucket: Place
) -> None:
    kinds = [Kind.CREATE, Kind.PUT]
    tried = _fail_every_request_in_turn(s3, bucket, Failure.LOST_ANSWER, kinds, step=4, times=4)
    assert tried > 9


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("times", [1, 4, 1000], ids=["once", "all tries", "from then on"])
@pytest.mark.parametrize("failure", list(Failure))
def test_a_write_survives_any_failure_of_its_nth_request(
    s3: StandIn, bucket: Place, failure: Failure, times: int
) -> None:
    assert _fail_every_request_in_turn(s3, bucket, failure, list(Kind), step=1, times=times) > 20


def test_the_contract_needs_no_variable_of_this_process() -> None:
    assert "AWS_ENDPOINT_URL" not in os.environ
