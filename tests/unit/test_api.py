"""`Graph`: how it is opened and closed, and who is said to have done what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import Graph
from omnigraph.errors import GraphNotFound, InvalidArgument, ReadOnlyGraph
from omnigraph.settings import load_settings

SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})
SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a graph."""
    Graph.init(tmp_path / "g", schema=SCHEMA, settings=SETTINGS).close()
    return tmp_path / "g"


def _add(graph: Graph, name: str) -> str | None:
    with graph.write() as writer:
        writer.append("Person", pa.table({"name": [name]}))
        commit = writer.commit()
    assert commit is not None
    return commit.actor_id


def test_a_graph_is_a_context_manager_and_closing_twice_is_safe(root: Path) -> None:
    with Graph.open(root, settings=SETTINGS) as graph:
        _add(graph, "a")
    graph.close()
    graph.close()


def test_closing_releases_what_the_next_handle_needs(root: Path) -> None:
    for name in "abc":
        with Graph.open(root, settings=SETTINGS) as graph:
            _add(graph, name)
    with Graph.open(root, mode="read_only", settings=SETTINGS) as graph:
        assert graph.snapshot().count("Person") == 3


@pytest.mark.parametrize("given", ["text", "path", "url"])
def test_a_graph_is_named_by_a_path_or_an_address(root: Path, given: str) -> None:
    named: dict[str, str | Path] = {"text": str(root), "path": root, "url": root.as_uri()}
    path = named[given]
    with Graph.open(path, settings=SETTINGS) as graph:
        assert graph.snapshot().seq == 0


def test_a_graph_in_the_working_folder_stays_the_same_when_that_changes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with Graph.open("g", settings=SETTINGS) as graph:
        monkeypatch.chdir("/")
        _add(graph, "a")
        assert graph.snapshot().count("Person") == 1


def test_settings_come_from_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_LEASE_TTL_MS", "77000")
    with Graph.open(root) as graph:
        assert graph._graph.leases._settings.lease_ttl_ms == 77_000


def test_a_schema_comes_as_text_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "people.pg"
    file.write_text(SCHEMA, encoding="utf-8")
    with Graph.init(tmp_path / "g", schema=file, settings=SETTINGS) as graph:
        assert graph.schema.source == SCHEMA


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_schema_file_that_cannot_be_read_writes_nothing(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "people.pg"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=r"people\.pg"):
        Graph.init(tmp_path / "g", schema=file, settings=SETTINGS)
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("actor", ["", "omnigraph:recovery", "omnigraph:"])
def test_an_actor_is_named_and_not_one_of_the_system(root: Path, actor: str) -> None:
    with pytest.raises(InvalidArgument, match="actor"):
        Graph.open(root, actor=actor, settings=SETTINGS)
    with pytest.raises(InvalidArgument, match="actor"):
        Graph.init(root.parent / "new", schema=SCHEMA, actor=actor, settings=SETTINGS)
    assert not (root.parent / "new").exists()
    with Graph.open(root, settings=SETTINGS) as graph, pytest.raises(InvalidArgument):
        graph.as_actor(actor)


def test_each_handle_writes_in_the_name_of_its_actor(root: Path) -> None:
    with Graph.open(root, actor="alice", settings=SETTINGS) as graph:
        bob = graph.as_actor("bob")
        assert _add(graph, "a") == "alice"
        assert _add(bob, "b") == "bob"
        assert _add(graph.as_actor(None), "c") is None
        assert bob.branches.create("rev").actor_id == "bob"
        assert graph.snapshot().count("Person") == 3


def test_closing_a_handle_of_another_actor_closes_nothing_else(root: Path) -> None:
    with Graph.open(root, settings=SETTINGS) as graph:
        with graph.as_actor("bob"):
            pass
        _add(graph, "a")


@pytest.mark.parametrize("mode", ["", "write", "READ_ONLY"])
def test_an_unknown_mode_is_refused(root: Path, mode: str) -> None:
    with pytest.raises(InvalidArgument, match="read_write"):
        Graph.open(root, mode=mode, settings=SETTINGS)  # type: ignore[arg-type]


def test_a_read_only_handle_refuses_every_write(root: Path) -> None:
    with Graph.open(root, mode="read_only", settings=SETTINGS) as graph:
        for act in (
            graph.write,
            lambda: graph.branches.create("rev"),
            lambda: graph.branches.delete("rev"),
        ):
            with pytest.raises(ReadOnlyGraph):
                act()


def test_a_path_without_a_graph_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFound, match=r"Graph\.init"):
        Graph.open(tmp_path / "nothing", settings=SETTINGS)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.load({"Person": []}, mode="append"),
        lambda graph: graph.load(b"", mode="append", branch=["x"]),
        lambda graph: graph.load(b"", mode="append", branch="x", from_=5),
        lambda graph: graph.export(types=5),
        lambda graph: graph.export(branch=["x"]),
        lambda graph: graph.blob("node", "Person", "a", []),
        lambda graph: graph.blob("node", "File", "\ud800", "bytes"),
        lambda graph: graph.blob("node", "File", "a", "bytes").read(None),
        lambda graph: graph.query(
            "query q() { match { $p: Person } return { $p.name } }", branch=[1]
        ),
        lambda graph: graph.write(["x"]),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_as_such(
    call: Callable[[Any], object], tmp_path: Path
) -> None:
    schema = f"{SCHEMA} node File {{ name: String @key  bytes: Blob? }}"
    with Graph.init(tmp_path / "g", schema=schema, settings=SETTINGS) as graph:
        graph.load(b'{"type":"File","data":{"name":"a","bytes":"base64:aGk="}}', mode="append")
        with pytest.raises(InvalidArgument):
            call(graph)
