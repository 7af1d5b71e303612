"""A merge built by hand: it marks what it replaces, adds a fragment, and compares no keys."""

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance.optimize import Compaction
from tests.guards.manifest_table import MANIFEST, manifest_rows, objects

from omnigraph.storage.lance_writes import replaced_by, rewrite, update_of_pieces, without_rows


@pytest.fixture(params=["one", "several"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A manifest without stable row ids, whose head is alone in its fragment or not."""
    rows = (
        manifest_rows(graph_head="0")
        if request.param == "one"
        else manifest_rows(a="0", graph_head="0")
    )
    lance.write_dataset(rows, tmp_path / "t", schema=MANIFEST, data_storage_version="2.2")
    return tmp_path / "t"


def merge(line: LanceDataset, **values: str) -> LanceDataset:
    """Replaces what is there and adds the rest, on exactly this version."""
    rows = manifest_rows(**values)
    found = line.to_table(columns=["object_id"], with_row_address=True).to_pylist()
    replaced = [row["_rowaddr"] for row in found if row["object_id"] in values]
    new = write_fragments(rows, line, schema=line.schema, mode="append", data_storage_version="2.2")
    updated, emptied = without_rows(line, replaced)
    operation = update_of_pieces(line, removed=emptied, updated=updated, new=new)
    return LanceDataset.commit(line, operation, read_version=line.version, max_retries=0)


def compact(line: LanceDataset) -> LanceDataset:
    done = [task.execute(line) for task in Compaction.plan(line, {}).tasks]
    highest = max(each.fragment_id for each in line.get_fragments())
    operation = rewrite([replaced_by(each) for each in done], highest + 1)
    return LanceDataset.commit(line, operation, read_version=line.version, max_retries=0)


def append(line: LanceDataset) -> LanceDataset:
    new = write_fragments(
        manifest_rows(other="1"),
        line,
        schema=line.schema,
        mode="append",
        data_storage_version="2.2",
    )
    return LanceDataset.commit(
        line, LanceOperation.Append(new), read_version=line.version, max_retries=0
    )


def test_lance_guard_two_merges_that_replace_one_row_have_one_winner(path: Path) -> None:
    """Why: every publish replaces the head; this conflict is what makes history one chain."""
    for number in range(3):
        first, second = lance.dataset(path), lance.dataset(path)
        merge(first, graph_head=f"{number}a", **{f"x{number}": "1"})
        with pytest.raises(OSError, match=r"."):
            merge(second, graph_head=f"{number}b", **{f"y{number}": "1"})
    found = dict(objects(lance.dataset(path)))
    assert found["graph_head"] == "2a"
    assert not [name for name in found if name.startswith("y")]
    assert len(found) == len(objects(lance.dataset(path)))


@pytest.mark.parametrize("between", [compact, lambda line: merge(line, graph_head="b", z="1")])
def test_lance_guard_a_merge_and_a_compaction_of_its_rows_have_one_winner(
    path: Path, between: Callable[[LanceDataset], LanceDataset]
) -> None:
    """Why: a compaction moves the head row, whose address a publish has read before."""
    for number in range(4):
        merge(lance.dataset(path), graph_head=str(number), **{f"x{number}": "1"})
    late, stale = lance.dataset(path), lance.dataset(path)
    between(lance.dataset(path))
    with pytest.raises(OSError, match=r"."):
        merge(late, graph_head="late", late="1")
    with pytest.raises(OSError, match=r"."):
        compact(stale)
    found = objects(lance.dataset(path))
    assert len(dict(found)) == len(found)
    assert "late" not in dict(found)


def test_lance_guard_a_merge_lands_after_an_append_as_a_later_version(path: Path) -> None:
    """Why: the version after a publish must be compared, as for tables."""
    line = lance.dataset(path)
    append(lance.dataset(path))
    assert merge(line, graph_head="1").version == line.version + 2


def test_lance_guard_a_commit_does_not_move_the_handle_that_it_ran_on(path: Path) -> None:
    """Why: a handle of the manifest is shared by readers and is what a publish runs on."""
    line = lance.dataset(path)
    before = objects(line)
    assert merge(line, graph_head="1", b="2").version == line.version + 1
    assert line.version == 1
    assert objects(line) == before


def test_lance_guard_a_ref_names_the_place_where_its_line_begins(path: Path) -> None:
    """Why: one small file is read instead of the refs of all lines."""
    main = merge(lance.dataset(path), graph_head="1")
    first = main.create_branch("b-1", (None, main.version))
    first = merge(first, graph_head="f")
    main.create_branch("b-2", ("b-1", first.version))
    refs = [json.loads((path / "_refs" / "branches" / f"b-{n}.json").read_text()) for n in (1, 2)]
    assert [(each["parentBranch"], each["parentVersion"]) for each in refs] == [
        (None, main.version),
        ("b-1", first.version),
    ]


def test_lance_guard_a_commit_leaves_a_hint_of_its_version(path: Path) -> None:
    """Why: a process that knows nothing of a line starts its search for the newest there."""
    made = merge(lance.dataset(path), graph_head="1")
    hint = json.loads((path / "_versions" / "latest_version_hint.json").read_text())
    assert hint["version"] == made.version


@pytest.mark.parametrize("on_branch", [False, True])
def test_lance_guard_removal_keeps_versions_that_another_line_starts_from(
    path: Path, *, on_branch: bool
) -> None:
    """Why: old versions of the manifest are removed by their numbers, whatever was forked."""
    line = lance.dataset(path)
    if on_branch:
        line = line.create_branch("b-own", (None, line.version))
    for number in range(3):
        line = merge(line, graph_head=str(number))
    forked = line.version
    held = line.create_branch("b-held", ("b-own" if on_branch else None, forked))
    content = objects(held)
    for number in range(3):
        line = merge(line, graph_head=f"later {number}")
    line.cleanup_old_versions(versions=list(range(1, line.version - 1)))
    left = {each["version"] for each in line.versions()}
    assert left == {forked, line.version - 1, line.version}
    assert objects(lance.dataset(path).checkout_version(("b-held", None))) == content
