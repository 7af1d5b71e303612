"""How a graph begins: one moment, one winner, and a way out of every interruption."""

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import (
    SCHEMA,
    Killed,
    Opened,
    Watcher,
    committed,
    killed_at,
    listing,
    names,
    people,
    quick,
    rows,
    upsert,
)

from omnigraph import Graph
from omnigraph.clock import ManualClock, SystemClock
from omnigraph.errors import (
    GraphExists,
    GraphNotFound,
    InitInProgress,
    InvalidArgument,
    OmnigraphError,
    RootNotEmpty,
    SchemaInvalid,
    StorageDenied,
    StorageUnavailable,
    StorageUnsupported,
)
from omnigraph.failpoints import Action, armed, disarm_all
from omnigraph.graph.lifecycle.init import create_graph
from omnigraph.graph.lifecycle.init_claim import CLAIM_PATH
from omnigraph.graph.recovery.process_identity import this_process
from omnigraph.ids import UlidSource
from omnigraph.storage.calls import StoreCall


@pytest.fixture
def graphs(tmp_path: Path) -> Iterator[Opened]:
    """Here every graph is made by an init of its own."""
    opened = Opened(tmp_path)
    yield opened
    disarm_all()
    opened.close()


BEFORE_THE_MANIFEST = ("init.post_claim", "init.post_schema", "init.post_table_create")
TEN_MINUTES_MS = 10 * 60 * 1_000


def _claim(root: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((root / CLAIM_PATH).read_bytes())
    return found


def _give_claim_to(root: Path, **changes: object) -> None:
    (root / CLAIM_PATH).write_text(json.dumps(_claim(root) | changes))


def _process_that_has_ended() -> dict[str, object]:
    """The identity of a process of this machine that is known to be gone."""
    with subprocess.Popen(["/bin/sleep", "60"]) as child:
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        child.kill()
        child.wait()
    mine = this_process()
    return {"host": mine.host, "boot_id": mine.boot_id, "pid": child.pid, "pid_started": started}


def _force(graphs: Opened) -> Graph:
    return Graph.init(graphs.root, schema=SCHEMA, force=True, settings=quick())


def _require_good(graphs: Opened) -> None:
    graph = graphs.open()
    upsert(graph, "a")
    assert names(graph) == ["a"]
    assert [each.kind for each in graph.commits] == ["mutation", "genesis"]
    assert not (graphs.root / CLAIM_PATH).exists()
    assert not list(graphs.root.glob("__probe-*"))


def test_a_new_graph_has_one_commit_and_empty_tables(graphs: Opened) -> None:
    graph = graphs.init(actor="alice")
    (genesis,) = graph.commits
    assert (genesis.kind, genesis.parent_commit_id, genesis.graph_manifest_version) == (
        "genesis",
        None,
        0,
    )
    assert genesis.actor_id == "alice"
    assert {each.table_key: each.entity_count for each in graph.snapshot().tables} == {
        "node:Doc": 0,
        "node:Person": 0,
        "edge:Knows": 0,
    }
    assert not (graphs.root / CLAIM_PATH).exists()


@pytest.mark.parametrize("existing", [False, True])
def test_a_bad_schema_writes_nothing(graphs: Opened, *, existing: bool) -> None:
    if existing:
        graphs.root.mkdir()
    with pytest.raises(SchemaInvalid):
        graphs.init("node Person { name: Nonsense }")
    assert graphs.root.exists() is existing
    assert not list(graphs.root.parent.rglob("*.pg"))


def test_a_second_init_finds_the_graph_and_leaves_it(graphs: Opened) -> None:
    upsert(graphs.init(), "a")
    before = listing(graphs.root)
    for force in (False, True):
        with pytest.raises(GraphExists):
            Graph.init(graphs.root, schema=SCHEMA, force=force, settings=quick())
    assert listing(graphs.root) == before


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_other_files_is_refused_and_left(graphs: Opened, *, force: bool) -> None:
    (graphs.root / "photos").mkdir(parents=True)
    for number in range(5):
        (graphs.root / "photos" / f"{number}.jpg").write_bytes(b"x")
    before = {path: path.read_bytes() for path in graphs.root.rglob("*.jpg")}
    with pytest.raises(RootNotEmpty, match=r"0\.jpg"):
        Graph.init(graphs.root, schema=SCHEMA, force=force, settings=quick())
    assert {path: path.read_bytes() for path in graphs.root.rglob("*") if path.is_file()} == before


def test_empty_folders_and_the_probe_of_a_crashed_init_are_no_obstacle(graphs: Opened) -> None:
    (graphs.root / "nodes").mkdir(parents=True)
    (graphs.root / "__probe-01J").write_bytes(b"1")
    graphs.init()


@pytest.mark.parametrize("point", BEFORE_THE_MANIFEST)
def test_an_init_cut_off_before_the_manifest_is_no_graph_until_it_is_forced(
    graphs: Opened, point: str
) -> None:
    with killed_at(point), pytest.raises(Killed):
        graphs.init()
    with pytest.raises(GraphNotFound, match="init --force"):
        graphs.open()
    with pytest.raises(InitInProgress, match=f"process {os.getpid()}") as caught:
        graphs.init()
    assert caught.value.details["claim"] == _claim(graphs.root)
    with pytest.raises(InitInProgress):  # The claimant lives.
        _force(graphs)
    _give_claim_to(graphs.root, **_process_that_has_ended())
    with pytest.raises(InitInProgress):
        graphs.init()
    _force(graphs).close()
    _require_good(graphs)


def test_an_init_cut_off_after_the_manifest_is_a_good_graph(graphs: Opened) -> None:
    with killed_at("init.post_manifest_pre_unclaim"), pytest.raises(Killed):
        graphs.init()
    assert (graphs.root / CLAIM_PATH).exists()
    with pytest.raises(GraphExists):
        graphs.init()
    graphs.read_only()
    assert (graphs.root / CLAIM_PATH).exists()
    _require_good(graphs)


def test_an_init_whose_acknowledgement_is_lost_has_happened(graphs: Opened) -> None:
    with armed("init.manifest_ack_lost", Action.RAISE):
        graphs.init()
    _require_good(graphs)


def test_an_init_whose_manifest_never_landed_reports_the_failure(graphs: Opened) -> None:
    watcher = Watcher()
    watcher.fail("create", "__manifest", OSError("the disk is gone"))
    with pytest.raises(StorageUnavailable, match="the disk is gone"):
        _create(graphs, watcher)
    with pytest.raises(GraphNotFound):
        graphs.open()


def _create(graphs: Opened, watcher: Watcher | None = None, *, force: bool = False) -> None:
    clock = SystemClock()
    create_graph(
        graphs.storage(observer=watcher),
        SCHEMA,
        clock=clock,
        ids=UlidSource(clock),
        settings=quick().storage,
        release="test",
        force=force,
    )


def test_an_init_that_lost_to_another_graph_says_so(graphs: Opened) -> None:
    """A claim that was cleared by hand lets two get as far as the manifest; one wins."""
    watcher = Watcher()

    def overtake(call: StoreCall) -> None:
        if (call.operation, call.target) == ("create", "__manifest"):
            watcher.before_each = None
            (graphs.root / CLAIM_PATH).unlink()
            for folder in ("nodes", "edges", "__schema", "__manifest"):
                (graphs.root / folder).rename(graphs.root.parent / folder)
            graphs.init(actor="winner")

    watcher.before_each = overtake
    with pytest.raises(GraphExists):
        _create(graphs, watcher)
    assert [each.actor_id for each in graphs.open().commits] == ["winner"]


@pytest.mark.parametrize(
    ("age_ms", "is_cleared"), [(0, False), (TEN_MINUTES_MS, False), (TEN_MINUTES_MS + 1, True)]
)
def test_force_clears_an_old_claim_of_another_machine_and_no_young_one(
    graphs: Opened, age_ms: int, *, is_cleared: bool
) -> None:
    clock = ManualClock(now_us=SystemClock().now_us())
    with killed_at("init.post_schema"), pytest.raises(Killed):
        graphs.init()
    _give_claim_to(graphs.root, host="elsewhere", started_at=clock.now_us())
    clock.advance(ms=age_ms)

    def force() -> None:
        create_graph(
            graphs.storage(),
            SCHEMA,
            clock=clock,
            ids=UlidSource(clock),
            settings=quick().storage,
            release="t",
            force=True,
        )

    if not is_cleared:
        with pytest.raises(InitInProgress, match="elsewhere"):
            force()
        return
    force()
    _require_good(graphs)


def test_a_claim_of_the_same_pid_after_a_restart_of_the_process_is_gone(graphs: Opened) -> None:
    with killed_at("init.post_claim"), pytest.raises(Killed):
        graphs.init()
    _give_claim_to(graphs.root, pid_started="1")
    _force(graphs).close()
    _require_good(graphs)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_claim_that_a_power_cut_has_damaged_is_cleared_by_force(
    graphs: Opened, content: bytes
) -> None:
    graphs.root.mkdir()
    (graphs.root / CLAIM_PATH).write_bytes(content)
    with pytest.raises(InitInProgress, match="--force"):
        graphs.init()
    with pytest.raises(GraphNotFound, match="--force"):
        graphs.open()
    _force(graphs).close()
    _require_good(graphs)


def test_a_damaged_claim_beside_a_good_graph_hinders_nobody(graphs: Opened) -> None:
    graphs.init()
    (graphs.root / CLAIM_PATH).write_bytes(b"")
    upsert(graphs.open(), "a")


def test_two_threads_that_init_one_root_make_one_graph_and_one_error(graphs: Opened) -> None:
    for number in range(3):
        graphs.root = graphs.root.with_name(f"g{number}")
        (loser,) = _race_to_init(graphs)
        assert isinstance(loser, GraphExists | InitInProgress)
        _require_good(graphs)


def _race_to_init(graphs: Opened) -> list[OmnigraphError]:
    lost: list[OmnigraphError] = []
    start = threading.Barrier(2)

    def attempt() -> None:
        start.wait()
        try:
            graphs.init()
        except OmnigraphError as error:
            lost.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return lost


@pytest.mark.extended
def test_two_processes_that_init_one_root_make_one_graph_and_one_error(graphs: Opened) -> None:
    code = (
        "import sys, omnigraph\n"
        "try:\n"
        "    omnigraph.Graph.init(sys.argv[1], schema=sys.argv[2]).close()\n"
        "except omnigraph.OmnigraphError as error:\n"
        "    print(error.code)\n"
        "else:\n"
        "    print('made')"
    )
    command = [sys.executable, "-c", code, str(graphs.root), SCHEMA]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(child.communicate(timeout=50)[0].strip() for child in children)
    assert "made" in said
    assert said[0] in ("graph_exists", "init_in_progress"), said
    _require_good(graphs)


@pytest.mark.extended
def test_the_points_of_an_init_can_be_armed_from_the_environment(graphs: Opened) -> None:
    code = "import sys, omnigraph; omnigraph.Graph.init(sys.argv[1], schema=sys.argv[2])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(graphs.root), SCHEMA],
        env=os.environ
        | {"OMNIGRAPH_TESTING": "1", "OMNIGRAPH_FAILPOINTS": "init.post_table_create=kill"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -9
    _force(graphs).close()
    _require_good(graphs)


def test_a_store_without_hard_links_is_refused_before_anything_is_written(graphs: Opened) -> None:
    watcher = Watcher()
    watcher.fail("create", "__probe", OSError("Operation not supported"))
    with pytest.raises(StorageUnsupported):
        _create(graphs, watcher)
    assert not (graphs.root / CLAIM_PATH).exists()


@pytest.mark.parametrize("mode", ["read_write", "read_only"])
@pytest.mark.parametrize("what", ["missing", "folder", "file", "below_file", "long"])
def test_what_is_no_graph_is_not_found_and_not_touched(
    graphs: Opened, what: str, mode: str
) -> None:
    path = graphs.root
    if what == "folder":
        path.mkdir()
        (path / "notes.txt").write_text("hello")
    elif what == "file":
        path.write_text("hello")
    elif what == "below_file":
        path.write_text("hello")
        path = path / "deeper"
    elif what == "long":
        path = path / ("x" * 300)
    before = listing(graphs.root.parent)
    with pytest.raises(GraphNotFound, match=r"Graph\.init"):
        Graph.open(path, mode=mode, settings=quick())  # type: ignore[arg-type]
    assert listing(graphs.root.parent) == before


@pytest.mark.parametrize("where", ["", "deeper"])
def test_a_graph_cannot_begin_at_or_below_a_file(graphs: Opened, where: str) -> None:
    graphs.root.write_text("hello")
    with pytest.raises(OmnigraphError) as caught:
        Graph.init(graphs.root / where, schema=SCHEMA, settings=quick())
    assert caught.value.code == "invalid_argument"
    assert "is a file" in caught.value.message
    assert graphs.root.read_text() == "hello"


@pytest.mark.parametrize("path", ["", " ", "http://h/g", "https://h/g", "gs://b/g", "s3://bucket"])
def test_what_names_no_storage_is_an_invalid_argument(path: str) -> None:
    with pytest.raises(InvalidArgument):
        Graph.open(path, settings=quick())
    with pytest.raises(InvalidArgument):
        Graph.init(path, schema=SCHEMA, settings=quick())


def test_a_folder_that_may_not_be_read_is_denied(graphs: Opened) -> None:
    graphs.init()
    watcher = Watcher()
    watcher.fail("open", "__manifest", PermissionError(13, "Permission denied"))
    with pytest.raises(StorageDenied):
        graphs.coordinated(observer=watcher)


def test_a_graph_opens_where_it_was_moved_to(graphs: Opened) -> None:
    graph = graphs.init()
    with graph.write() as writer:
        writer.append("Person", people("a"))
        made = committed(writer.commit())
    graph.close()
    moved = graphs.root.rename(graphs.root.parent / "moved here")
    with Graph.open(moved, settings=quick()) as again:
        assert names(again) == ["a"]
        assert upsert(again, "b").parent_commit_id == made.graph_commit_id


def test_a_failed_init_takes_back_what_it_wrote_and_can_be_repeated_at_once(
    graphs: Opened,
) -> None:
    watcher = Watcher()
    watcher.fail("create_table", "node:", OSError("a hiccup"))
    with pytest.raises(StorageUnavailable, match="a hiccup"):
        _create(graphs, watcher)
    assert not [path for path in graphs.root.rglob("*") if path.is_file()]
    graphs.init().close()
    _require_good(graphs)


def test_of_two_that_clear_one_root_the_slower_removes_nothing_of_the_other(
    graphs: Opened,
) -> None:
    with killed_at("init.post_schema"), pytest.raises(Killed):
        graphs.init()
    _give_claim_to(graphs.root, pid_started="1")
    slower = Watcher()

    def overtake(call: StoreCall) -> None:
        if call.operation == "delete" and call.target.startswith("__schema"):
            slower.after_each = None
            for lease in (graphs.root / "__leases" / "init").glob("*.json"):
                content = json.loads(lease.read_text(encoding="utf-8"))
                lease.write_text(json.dumps(content | {"pid_started": "1"}), encoding="utf-8")
            upsert(_force(graphs), "kept")

    slower.after_each = overtake
    with pytest.raises((InitInProgress, GraphExists)):
        _create(graphs, slower, force=True)
    assert names(graphs.open()) == ["kept"]


def test_an_init_that_was_taken_for_dead_does_not_make_its_graph(graphs: Opened) -> None:
    watcher = Watcher()

    def take_over(call: StoreCall) -> None:
        if call.operation == "create_table":
            _give_claim_to(graphs.root, claim_id="another")

    watcher.after_each = take_over
    with pytest.raises(InitInProgress):
        _create(graphs, watcher)
    assert not (graphs.root / "__manifest").exists()


OTHER_SCHEMA = """
node City { name: String @key }
edge Near: City -> City
node Person { name: String @key  bio: String? @index }
"""


class Paused:
    """An init that sleeps at one point for so long that others take it for dead."""

    def __init__(self, graphs: Opened, dies_at: str | None, *, schema: str = OTHER_SCHEMA) -> None:
        self._graphs = graphs
        self._schema = schema
        self._dies_at = dies_at
        self.slept = 0

    def sleep(self) -> None:
        """Once: ten minutes pass, and a forced init with another schema runs, or dies."""
        self.slept += 1
        if self.slept > 1:
            return
        _give_claim_to(self._graphs.root, host="elsewhere", started_at=0)
        if self._dies_at is None:
            self._force()
            return
        with killed_at(self._dies_at), pytest.raises(Killed):
            self._force()

    def _force(self) -> None:
        Graph.init(self._graphs.root, schema=self._schema, force=True, settings=quick()).close()

    def require_one_whole_graph(self) -> None:
        """The forced one, or none at all until another is forced; nothing of the sleeper."""
        if self._dies_at is not None:
            with pytest.raises(GraphNotFound):
                self._graphs.open()
            _give_claim_to(self._graphs.root, host="elsewhere", started_at=0)
            self._force()
        graph = self._graphs.open()
        assert {each.table_key for each in graph.snapshot().tables} == {
            "node:City",
            "node:Person",
            "edge:Near",
        }
        with graph.write() as writer:
            writer.append("City", people("x", "y"))
            writer.append("Person", people("a", bio="wolf"))
            writer.append("Near", rows({"src": "x", "dst": "y"}))
            committed(writer.commit())
        assert graph.snapshot().count("Person") == graph.snapshot().count("Near") == 1


FORCED = (None, *BEFORE_THE_MANIFEST)


@pytest.mark.parametrize(
    ("point", "dies_at"),
    thinned(
        [
            ("init.post_claim", None),
            ("init.post_table_create", "init.post_schema"),
            ("init.post_claim", "init.post_schema"),
            ("init.post_claim", "init.post_table_create"),
            ("init.post_schema", None),
            ("init.post_schema", "init.post_claim"),
            ("init.post_schema", "init.post_table_create"),
            ("init.post_table_create", None),
            ("init.post_table_create", "init.post_claim"),
        ],
        keep=2,
    ),
)
def test_an_init_that_wakes_up_after_it_was_cleared_makes_no_graph(
    graphs: Opened, point: str, dies_at: str | None
) -> None:
    paused = Paused(graphs, dies_at)
    with armed(point, paused.sleep), pytest.raises((InitInProgress, GraphExists, RootNotEmpty)):
        _create(graphs)
    paused.require_one_whole_graph()


@pytest.mark.parametrize("dies_at", thinned(FORCED, keep=2))
def test_an_init_that_wakes_up_when_it_was_about_to_begin_its_graph_makes_none(
    graphs: Opened, dies_at: str | None
) -> None:
    """It has looked at its claim for the last time; what stops it is the fence."""
    paused, watcher = Paused(graphs, dies_at), Watcher()

    def at_the_manifest(call: StoreCall) -> None:
        if (call.operation, call.target) == ("create", "__manifest"):
            paused.sleep()

    watcher.before_each = at_the_manifest
    with pytest.raises((InitInProgress, GraphExists)):
        _create(graphs, watcher)
    assert paused.slept == 1
    paused.require_one_whole_graph()


def test_an_init_that_was_cleared_makes_no_more_tables(graphs: Opened) -> None:
    paused = Paused(graphs, None, schema="node City { name: String @key }")
    with armed("init.post_table_create", paused.sleep), pytest.raises(InitInProgress):
        _create(graphs)
    made = {each.dataset_path for each in graphs.open().snapshot().tables}
    found = {str(each.relative_to(graphs.root)) for each in graphs.root.glob("[ne]*s/*")}
    assert found == made


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dies_at", FORCED)
def test_an_init_may_sleep_before_any_of_its_calls(tmp_path: Path, dies_at: str | None) -> None:
    slept = []
    for number in itertools.count(1):
        graphs = Opened(tmp_path / str(number))
        paused = Paused(graphs, dies_at)
        refused = _create_sleeping_at(graphs, paused, number)
        slept.append(paused.slept)
        if paused.slept:
            assert isinstance(refused, InitInProgress | GraphExists | RootNotEmpty), number
            paused.require_one_whole_graph()
            graphs.close()
        elif any(slept):
            break
    assert sum(slept) > 10


def _create_sleeping_at(graphs: Opened, paused: Paused, number: int) -> OmnigraphError | None:
    """An init that sleeps before its n-th call, if that is between its claim and its manifest."""
    watcher = Watcher()

    def at_the_call(_: StoreCall) -> None:
        is_claimed = (graphs.root / CLAIM_PATH).exists()
        if len(watcher.calls) == number and is_claimed and not _has_manifest(graphs.root):
            paused.sleep()

    watcher.before_each = at_the_call
    try:
        _create(graphs, watcher)
    except OmnigraphError as error:
        return error
    return None


def _has_manifest(root: Path) -> bool:
    return (root / "__manifest" / "_versions").exists()
