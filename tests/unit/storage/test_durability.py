"""What is synced, and in which order: files before the folders that name them."""

import errno
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.unit.storage.workbench import Recorder

from omnigraph.api import Graph
from omnigraph.clock import SystemClock
from omnigraph.errors import StorageUnavailable
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.ids import UlidSource
from omnigraph.settings import Durability, load_settings
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import LocalSync, NoSync, durability_of
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import GraphLocation, parse_location
from omnigraph.storage.signals import ObjectMissing


def _synced(root: Path, *names: str, again: tuple[str, ...] = ()) -> list[str]:
    seen = Recorder()
    sync = LocalSync(root, StoreCalls(seen))
    sync.sync(names)
    if again:
        seen.calls.clear()
        sync.sync(again)
    return seen.targets("sync")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/b/1", "a/b/2", "a/3", "4"):
        (tmp_path / name).write_bytes(b"x")
    return tmp_path


def test_a_file_is_synced_before_its_folder_and_that_before_the_ones_above(root: Path) -> None:
    assert _synced(root, "a/b/1") == ["a/b/1", "a/b", "a", "."]


def test_a_name_is_synced_once_and_folders_after_all_files(root: Path) -> None:
    found = _synced(root, "a/b/1", "a/b/2", "a/b/1", "a/3")
    assert found[:3] == ["a/b/1", "a/b/2", "a/3"]
    assert sorted(found[3:]) == [".", "a", "a/b"]


def test_a_folder_stands_for_all_files_in_it(root: Path) -> None:
    assert _synced(root, "a")[:3] == ["a/3", "a/b/1", "a/b/2"]


def test_folders_known_to_be_durable_are_not_synced_again(root: Path) -> None:
    assert _synced(root, "a/b/1", again=("a/b/2",)) == ["a/b/2", "a/b"]


def test_a_file_that_is_not_there_cannot_be_made_durable(root: Path) -> None:
    with pytest.raises(ObjectMissing):
        _synced(root, "a/none")


def test_a_renewed_file_is_a_synced_copy_under_the_same_name(root: Path) -> None:
    path, seen = root / "a/b/1", Recorder()
    path.chmod(0o640)
    before = path.stat()
    LocalSync(root, StoreCalls(seen)).renew(["a/b/1"])
    assert seen.targets("sync") == ["a/b/1", "a/b", "a", "."]
    assert (path.read_bytes(), path.stat().st_mode) == (b"x", before.st_mode)
    assert path.stat().st_ino != before.st_ino
    assert sorted(each.name for each in path.parent.iterdir()) == ["1", "2"]


def test_a_renewal_that_fails_leaves_the_file_and_nothing_else(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("omnigraph.storage.durability.os.fsync", fail)
    before = (root / "a/b/1").stat().st_ino
    with pytest.raises(StorageUnavailable):
        LocalSync(root, StoreCalls()).renew(["a/b/1"])
    assert (root / "a/b/1").stat().st_ino == before
    assert sorted(each.name for each in (root / "a/b").iterdir()) == ["1", "2"]
    with pytest.raises(ObjectMissing):
        LocalSync(root, StoreCalls()).renew(["a/none"])


def test_what_a_killed_renewal_leaves_is_no_version(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    dataset = lance.write_dataset(table, str(tmp_path / "t"))
    (version,) = (tmp_path / "t" / "_versions").glob("*.manifest")
    version.with_name(f"{version.name}.x1.renewed").write_bytes(b"")
    assert dataset.latest_version == 1
    dataset.insert(table)
    assert lance.dataset(str(tmp_path / "t")).count_rows() == 2


def test_only_local_graphs_with_full_durability_are_synced(root: Path) -> None:
    local = GraphLocation(root=str(root), is_local=True)
    remote = GraphLocation(root="s3://b/p", is_local=False)
    calls = StoreCalls()
    assert isinstance(durability_of(local, Durability.FULL, calls), LocalSync)
    assert isinstance(durability_of(local, Durability.PROCESS, calls), NoSync)
    assert isinstance(durability_of(remote, Durability.FULL, calls), NoSync)
    NoSync().sync(["nothing is looked at"])
    NoSync().renew(["nothing is looked at"])


@pytest.fixture
def written(tmp_path: Path) -> Iterator[list[tuple[str, str]]]:
    """The foreign calls of a write to two tables, after it was acknowledged."""
    schema = "node A { name: String @key }\nnode B { name: String @key }"
    Graph.init(tmp_path / "g", schema=schema).close()
    settings, seen, clock = load_settings({}).storage, Recorder(), SystemClock()
    location = parse_location(tmp_path / "g", settings)
    storage = open_storage(location, settings, UlidSource(clock), observer=seen)
    graph = Graph(GraphCoordinator(storage, settings, clock, UlidSource(clock)), None, owns=True)
    seen.calls.clear()
    with graph, graph.write() as writer:
        for name in "AB":
            writer.append(name, pa.table({"name": ["x"]}))
        writer.commit()
        yield [(call.operation, call.target) for call in seen.calls]


def test_every_moment_of_a_write_is_durable_before_the_next_begins(
    written: list[tuple[str, str]],
) -> None:
    def first(operation: str, part: str) -> int:
        return next(at for at, (made, on) in enumerate(written) if made == operation and part in on)

    def synced(part: str) -> list[int]:
        return [at for at, (made, on) in enumerate(written) if made == "sync" and part in on]

    arm, publish = first("create", "__recovery"), first("merge", "__manifest")
    commits = [at for at, (made, _) in enumerate(written) if made == "commit"]
    disarm = first("delete", "__recovery")
    data = [at for at in synced("/data/") if "__manifest" not in written[at][1]]
    versions = [at for at in synced("/_versions/") if "__manifest" not in written[at][1]]
    assert len(data) == len(commits) == len(versions) == 2
    assert max(data) < arm < min(synced("__recovery/")) < min(commits)
    assert commits[0] < versions[0] < commits[1] < versions[1] < publish
    manifest = [at for at in synced("__manifest/_versions") if at > publish]
    assert manifest
    assert publish < min(manifest) < disarm
    assert min(synced("__manifest/data")) < disarm
