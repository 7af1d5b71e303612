"""`verify`: a whole graph is sound, and every kind of damage is named."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    age_files,
    committed,
    killed_at,
    listing,
    once,
    rows,
    upsert,
)
from tests.unit.graph.maintenance.test_repair import outside

from omnigraph import Graph
from omnigraph.errors import BranchNotFound
from omnigraph.graph.manifest.manifest_line import ManifestLine
from omnigraph.ids import BranchId
from omnigraph.storage.handles import TableLayout
from omnigraph.storage.table_store import TableStore

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique
              level: enum(low, high)?  bio: String? @index  vec: Vector(2)? @index
              @range(age, 0..150) }
edge Knows: Person -> Person @card(0..2) { since: I32? }
"""


def filled(graphs: Opened) -> Graph:
    graph = graphs.init(SCHEMA, AUTO_MAINTENANCE="0")
    for number in range(2):
        with graph.write() as writer:
            person = {"age": number, "email": f"e{number}", "level": "low"}
            writer.append(
                "Person",
                rows(
                    {
                        "name": f"p{number}",
                        "bio": f"grey wolf {number}",
                        "vec": [1.0, number],
                        **person,
                    },
                    {"name": f"q{number}", "bio": None, "vec": None} | dict.fromkeys(person),
                ),
            )
            committed(writer.commit())
    with graph.write() as writer:
        writer.append("Knows", rows({"src": "p0", "dst": "p1"}, {"src": "p0", "dst": "q1"}))
        committed(writer.commit())
    return graph


def shown(graph: Graph, act: Callable[[lance.LanceDataset], object], name: str = "Person") -> None:
    """Damage a table, and let the manifest name the result as if a commit had made it."""
    snapshot = graph.snapshot()
    pin = snapshot.pin(snapshot.type(name))
    act(outside(graph, name))
    newest = outside(graph, name)
    manifest = lance.dataset(str(root_of(graph) / "__manifest"))
    changes = {"table_version": str(newest.version), "row_count": str(newest.count_rows())}
    manifest.update(changes, where=f"object_id = 'version:{pin.ref}:{pin.seq}'")


def root_of(graph: Graph) -> Path:
    return Path(str(graph._graph.storage.location))


def checks(graphs: Opened, *, deep: bool = False) -> set[tuple[str | None, str]]:
    """What a fresh reader finds."""
    report = graphs.read_only().maintenance.verify(deep=deep)
    assert report.is_sound == (not report.problems)
    return {(each.table_key, each.check) for each in report.problems}


def append(dataset: lance.LanceDataset, row: dict[str, object]) -> None:
    table = pa.Table.from_pylist([row], schema=dataset.schema)
    lance.write_dataset(table, dataset.uri, mode="append")


def wrong_index(dataset: lance.LanceDataset) -> None:
    """An index that claims a fragment which it was not built over."""
    first, second = (each.fragment_id for each in dataset.get_fragments())
    segment = dataset.create_index_uncommitted(
        "name", "BTREE", name="ix_1_btree", replace=True, fragment_ids=[first]
    )
    segment = replace(segment, fragment_ids={first, second})  # type: ignore[arg-type]
    operation = lance.LanceOperation.CreateIndex([segment], [])
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version)


ROWS: dict[str, Callable[[lance.LanceDataset], object]] = {
    "columns": lambda table: table.drop_columns(["age"]),
    "required": lambda table: table.update({"name": "null"}, where="name = 'p0'"),
    "key": lambda table: append(table, {"id": "other", "name": "p0"}),
    "unique": lambda table: append(table, {"id": "p0", "name": "p0"}),
    "values": lambda table: table.update({"age": "200"}, where="name = 'p0'"),
    "endpoints": lambda table: table.delete("name = 'q1'"),
    "index": wrong_index,
}


def test_a_whole_graph_is_sound_and_nothing_is_written(graphs: Opened) -> None:
    graph = filled(graphs)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    graph.maintenance.optimize()
    graph.tags.create("here")
    before = listing(graphs.root)
    reader = graphs.read_only()
    report = reader.maintenance.verify(deep=True)
    assert (report.problems, report.branches) == ((), ("main", "rev"))
    assert (report.rows, report.is_sound) == (4 + 2 + 5, True)
    assert not [note for note in report.notes if "belong to no version" not in note]
    assert reader.maintenance.verify(branch="rev").branches == ("rev",)
    assert listing(graphs.root) == before
    with pytest.raises(BranchNotFound):
        reader.maintenance.verify(branch="nope")


@pytest.mark.parametrize("damage", ROWS)
def test_rows_that_break_a_rule_and_indexes_that_lie_are_named(graphs: Opened, damage: str) -> None:
    graph = filled(graphs)
    shown(graph, ROWS[damage])
    table = "edge:Knows" if damage == "endpoints" else "node:Person"
    assert (table, damage) in checks(graphs)


def test_a_deep_look_names_values_that_no_write_would_have_taken(graphs: Opened) -> None:
    graph = filled(graphs)
    shown(graph, lambda table: append(table, {"id": "x", "name": "x", "vec": [float("nan"), 1.0]}))
    assert checks(graphs) == set()
    assert checks(graphs, deep=True) == {("node:Person", "values")}


def test_too_many_edges_and_lost_ends_are_named(graphs: Opened) -> None:
    graph = filled(graphs)

    def more(table: lance.LanceDataset) -> None:
        append(table, {"id": "x", "src": "p0", "dst": "p0"})
        append(outside(graph, "Knows"), {"id": "y", "src": "zed", "dst": "p0"})

    shown(graph, more, "Knows")
    assert checks(graphs) == {("edge:Knows", "cardinality"), ("edge:Knows", "endpoints")}


def test_a_lost_version_and_a_lost_file_are_named(graphs: Opened) -> None:
    graph = filled(graphs)
    snapshot = graph.snapshot()
    pin = snapshot.pin(snapshot.type("Person"))
    data = next((graphs.root / pin.location / "data").glob("*.lance"))
    data.rename(graphs.root / "aside")
    assert checks(graphs) == {("node:Person", "files"), ("edge:Knows", "files")}
    (graphs.root / "aside").rename(data)
    assert checks(graphs) == set()
    (graphs.root / pin.location / "_versions" / version_file(pin.version)).unlink()
    assert ("node:Person", "version") in checks(graphs)


def test_a_wrong_count_is_named(graphs: Opened) -> None:
    graph = filled(graphs)
    manifest = lance.dataset(str(graphs.root / "__manifest"))
    manifest.update({"row_count": "7"}, where="object_type = 'table_version' and seq = 3")
    assert checks(graphs) == {("edge:Knows", "row_count")}
    del graph


@pytest.mark.parametrize(
    "damage",
    [
        "object_type = 'graph_commit' and seq = 1",
        "object_type = 'table' and table_key = 'node:Person'",
    ],
    ids=["gap", "unregistered"],
)
def test_a_manifest_that_contradicts_itself_is_named(graphs: Opened, damage: str) -> None:
    filled(graphs)
    lance.dataset(str(graphs.root / "__manifest")).delete(damage)
    assert (None, "manifest") in checks(graphs)


def test_two_live_tables_of_one_name_are_named(graphs: Opened) -> None:
    filled(graphs)
    manifest = lance.dataset(str(graphs.root / "__manifest"))
    manifest.update({"table_key": "'node:Person'"}, where="table_key = 'edge:Knows'")
    assert (None, "manifest") in checks(graphs)


def test_what_something_outside_wrote_is_named(graphs: Opened) -> None:
    graph = filled(graphs)
    outside(graph).delete("name = 'p0'")
    assert checks(graphs) == {("node:Person", "drift")}
    graph.maintenance.repair(confirm=True, force="discard")
    assert checks(graphs) == set()


def test_writers_are_not_taken_for_something_outside(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is looked at later than the line that pins it, and others write in between."""
    graph = filled(graphs)
    reader = graphs.read_only()
    parts = reader._graph
    written = [upsert(graph, "first")]
    is_writing = False

    def after_a_write(look: Callable[..., object]) -> Callable[..., object]:
        def late(*asked: object) -> object:
            nonlocal is_writing
            if not is_writing:
                is_writing = True
                written.append(upsert(graph, f"p{len(written) + 9}"))
                is_writing = False
            return look(*asked)

        return late

    for owner, name in ((type(parts.sidecars), "of"), (type(parts.tables), "head_version")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, after_a_write(getattr(owner, name)))
            assert reader.maintenance.verify().problems == ()
            assert reader.maintenance.repair().tables == ()
            assert not graph.maintenance.cleanup(keep=3).errors
    assert len(written) > 6


LOOKS: dict[str, Callable[[Graph], bool]] = {
    "verify": lambda graph: graph.maintenance.verify().is_sound,
    "repair": lambda graph: graph.maintenance.repair().is_clean,
    "cleanup": lambda graph: not graph.maintenance.cleanup(keep=3).errors,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_table_that_moves_before_its_publish_is_not_taken_for_drift(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """Who looks reads sidecars after heads: this writer comes when the first were looked for."""
    graph = filled(graphs)
    other = graphs.open()

    def begin() -> None:
        with killed_at("mutation.post_phase_b_pre_manifest_commit"), pytest.raises(Killed):
            upsert(other, "under way")

    begin_once = once(begin)
    tables = type(graph._graph.tables)
    head_version = tables.head_version

    def late(store: TableStore, layout: TableLayout, branch: str | None) -> int:
        if layout.table_key == "node:Person":
            begin_once()
        return head_version(store, layout, branch)

    monkeypatch.setattr(tables, "head_version", late)
    assert LOOKS[look](graph)
    assert list((graphs.root / "__recovery").rglob("*.json"))


def test_a_branch_that_is_deleted_meanwhile_is_no_fault(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = filled(graphs)
    graph.branches.create("rev")
    upsert(graph, "own", branch="rev")
    reader = graphs.read_only()
    lines = reader._graph.lines
    read, branch_id = lines.read, graph.branches.get("rev").branch_id
    delete = once(lambda: graph.branches.delete("rev"))

    def read_after(asked: BranchId) -> ManifestLine:
        if asked == branch_id:
            delete()
        return read(asked)

    monkeypatch.setattr(lines, "read", read_after)
    assert reader.maintenance.verify().problems == ()
    assert [branch.name for branch in graph.branches.list()] == ["main"]


def test_the_line_of_a_branch_that_is_lost_is_named(graphs: Opened) -> None:
    graph = filled(graphs)
    graph.branches.create("rev")
    shutil.rmtree(graphs.root / "__manifest" / "tree")
    assert checks(graphs) == {(None, "manifest")}


def test_an_interrupted_write_is_told_and_is_no_fault(graphs: Opened) -> None:
    graph = filled(graphs)
    with killed_at("mutation.post_phase_a"), pytest.raises(Killed):
        upsert(graph, "cut off")
    report = graphs.read_only().maintenance.verify()
    assert report.is_sound
    assert "is settled by the next write" in report.notes[0]


def test_a_deep_look_tells_what_nothing_names_and_opens_older_versions(graphs: Opened) -> None:
    graph = filled(graphs)
    snapshot = graph.snapshot()
    pin = snapshot.pin(snapshot.type("Person"))
    folder = graphs.root / pin.location
    (folder / "data" / "stray.lance").write_bytes(b"stray")
    (graphs.root / "nodes" / "stray").mkdir()
    assert checks(graphs, deep=True) == set()
    note, other = graphs.read_only().maintenance.verify(deep=True).notes
    assert "1 files" in note
    assert "nodes/stray belongs to no table" in other
    version = folder / "_versions" / version_file(FIRST)
    version.write_bytes(b"not a version")
    assert checks(graphs) == set()
    assert checks(graphs, deep=True) == {("node:Person", "version")}


FIRST = 3
"""The version of a table that has the first rows: it begins empty, and gets a text index."""


def aged(graphs: Opened) -> tuple[Graph, Path]:
    """A graph a day old whose head needs no file of its older commits, and its only table."""
    graph = graphs.init("node Person { name: String @key }", AUTO_MAINTENANCE="0")
    upsert(graph, "ada", "ann")
    upsert(graph, "bob")
    graph.mutate('query gone() { delete Person where name = "ann" }')
    graph.maintenance.optimize()
    for name in ("dan", "eve"):
        upsert(graph, name)
    age_files(graphs.root)
    return graph, graphs.root / graph.snapshot().tables[0].dataset_path


def version_file(version: int) -> str:
    return f"{2**64 - 1 - version:020d}.manifest"


@pytest.mark.parametrize(
    ("file", "check"),
    [
        (f"_versions/{version_file(FIRST)}", "version"),
        ("data/*.lance", "files"),
        ("_deletions/*", "files"),
    ],
)
def test_a_deep_look_names_what_only_older_commits_need(
    graphs: Opened, file: str, check: str
) -> None:
    graph, folder = aged(graphs)
    head = graph.snapshot().handle(graph.snapshot().type("Person")).dataset
    needed = {each.path for part in head.get_fragments() for each in part.metadata.files}
    lost = next(each for each in folder.glob(file) if each.name not in needed)
    assert checks(graphs, deep=True) == set()
    lost.unlink()
    assert checks(graphs) == set()
    assert checks(graphs, deep=True) == {("node:Person", check)}


def test_what_cleanup_removed_is_no_fault_unless_a_tag_needs_it(graphs: Opened) -> None:
    graph, folder = aged(graphs)
    tagged = graph.snapshot(1)
    graph.tags.create("first", at=tagged.graph_commit_id)
    assert graph.maintenance.cleanup(keep=3, confirm=True).tables[0].old_versions_removed > 0
    report = graphs.read_only().maintenance.verify(deep=True)
    assert report.problems == ()
    assert [note for note in report.notes if "versions of older commits were cleaned up" in note]
    pin = tagged.pin(tagged.type("Person"))
    (folder / "_versions" / version_file(pin.version)).unlink()
    assert checks(graphs, deep=True) == {("node:Person", "version")}
    graph.tags.delete("first")
    assert checks(graphs, deep=True) == set()


def test_a_cleanup_that_was_cut_off_is_no_fault(graphs: Opened) -> None:
    graph, folder = aged(graphs)
    first = lance.dataset(str(folder), version=FIRST)
    (data,) = [file.path for part in first.get_fragments() for file in part.metadata.files]
    (folder / "data" / data).unlink()
    (folder / f"cleaned-{FIRST}").touch()
    assert checks(graphs, deep=True) == {("node:Person", "files")}, "the next one needs it, too"
    (folder / f"cleaned-{FIRST}").rename(folder / f"cleaned-{FIRST + 2}")
    report = graphs.read_only().maintenance.verify(deep=True)
    assert report.problems == ()
    assert [note for note in report.notes if "a cleanup that was cut off" in note]
    del graph


def test_the_schema_of_an_older_commit_that_is_lost_is_named(graphs: Opened) -> None:
    graph = filled(graphs)
    old = graph.schema.hash
    graph.schema.apply(SCHEMA.replace("bio:", "more: String?  bio:"))
    assert checks(graphs) == set()
    (graphs.root / "__schema" / old / "schema.pg").unlink()
    assert checks(graphs) == {(None, "manifest")}
    assert {each.check for each in graph.maintenance.verify().problems} == {"manifest"}, "afresh"


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_deep_look_names_blobs_whose_bytes_are_lost(graphs: Opened, damage: str) -> None:
    graph = graphs.init("node File { name: String @key  content: Blob? }", AUTO_MAINTENANCE="0")
    contents = {"none": None, "few": b"few", "much": bytes(100_000), "more": bytes(90_000)}
    with graph.write() as writer:
        writer.append("File", rows(*({"name": k, "content": v} for k, v in contents.items())))
        committed(writer.commit())
    assert checks(graphs, deep=True) == set()
    (blobs,) = graphs.root.rglob("*.blob")
    if damage == "gone":
        blobs.unlink()
    else:
        blobs.write_bytes(blobs.read_bytes()[:-1])
    assert checks(graphs) == set()
    (problem,) = graphs.read_only().maintenance.verify(deep=True).problems
    assert (problem.table_key, problem.check) == ("node:File", "files")
    assert damage == "short" or "content of 'more'" in problem.message
