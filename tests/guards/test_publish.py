"""One `merge_insert` publishes: of two that began at the same version exactly one wins."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from lance import LanceDataset, Transaction
from lance.commit import CommitConflictError
from tests.guards.lance_tables import (
    commit,
    commit_anywhere,
    create_table,
    fork,
    open_head,
    something,
    stage_compaction,
)
from tests.guards.manifest_table import (
    KEYLESS,
    MANIFEST,
    VALUE,
    manifest_rows,
    objects,
    publish,
)

_ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["main", "branch"])
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LanceDataset]:
    """Opens the newest version of a line of a manifest that has only its head row."""
    table = create_table(tmp_path / "t", manifest_rows(graph_head="genesis"), schema=MANIFEST)
    branch = None if request.param == "main" else "b-1"
    if branch:
        fork(table, branch, None, table.version)
    return lambda: open_head(tmp_path / "t", branch)


def test_lance_guard_two_publishes_from_one_version_have_one_winner(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: both update the head row; this conflict is what makes history one chain."""
    first, second = line(), line()
    publish(first, manifest_rows(graph_head="one", one="genesis"))
    with pytest.raises(OSError, match="Too many concurrent writers") as rejected:
        publish(second, manifest_rows(graph_head="two", two="genesis"))
    assert not isinstance(rejected.value, CommitConflictError)
    assert objects(line()) == [("graph_head", "one"), ("one", "genesis")]


def test_lance_guard_a_rejected_publish_wins_when_it_reads_again(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: the loser judges the new head and tries once more on a fresh handle."""
    publish(line(), manifest_rows(graph_head="one", one="genesis"))
    publish(line(), manifest_rows(graph_head="two", two="one"))
    assert objects(line()) == [("graph_head", "two"), ("one", "genesis"), ("two", "one")]


def test_lance_guard_two_inserts_of_one_new_key_have_one_winner(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: a branch name is claimed by inserting its row, without a head row to conflict on."""
    first, second = line(), line()
    publish(first, manifest_rows(branch="one"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        publish(second, manifest_rows(branch="two"))
    assert dict(objects(line()))["branch"] == "one"


def test_lance_guard_without_the_key_metadata_one_new_key_is_inserted_twice(
    tmp_path: Path,
) -> None:
    """Why: the primary-key metadata is what makes inserts of one key conflict."""
    schema = pa.schema([KEYLESS, VALUE])
    create_table(tmp_path / "t", manifest_rows(x="1").cast(schema), schema=schema)
    first, second = open_head(tmp_path / "t"), open_head(tmp_path / "t")
    publish(first, manifest_rows(branch="one").cast(schema))
    publish(second, manifest_rows(branch="two").cast(schema))
    assert [key for key, _ in objects(open_head(tmp_path / "t"))].count("branch") == 2


def test_lance_guard_inserts_of_different_new_keys_both_land(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: without the head row there is no order; every publish must contain it."""
    first, second = line(), line()
    publish(first, manifest_rows(one="1"))
    publish(second, manifest_rows(two="2"))
    assert objects(line()) == [("graph_head", "genesis"), ("one", "1"), ("two", "2")]


def test_lance_guard_the_two_step_form_inserts_a_key_twice(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: staging drops the filter of inserted keys, so every merge also replaces the head row."""
    first, second = line(), line()
    staged = [
        each.merge_insert("object_id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute_uncommitted(manifest_rows(branch="x"))[0]
        for each in (first, second)
    ]
    commit(first, staged[0])
    commit_anywhere(second, staged[1])
    assert [key for key, _ in objects(line())].count("branch") == 2


def stage(line: LanceDataset, rows: pa.Table) -> Transaction:
    """A publish as files and a transaction, not committed."""
    merge = line.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute_uncommitted(rows)[0]


def test_lance_guard_two_staged_publishes_that_replace_one_row_have_one_winner(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: staged apart, so that files are synced before a version names them, publishes collide
    in the head row alone, also when both insert one new key."""
    base = line()
    first = stage(base, manifest_rows(graph_head="one", new="one"))
    second = stage(base, manifest_rows(graph_head="two", new="two"))
    assert commit_anywhere(base, first).version == base.version + 1
    with pytest.raises(CommitConflictError):
        commit_anywhere(base, second)
    assert objects(line()) == [("graph_head", "one"), ("new", "one")]


def test_lance_guard_a_staged_publish_and_a_staged_compaction_refuse_each_other(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: the loser of the two must leave no version and no lost row behind."""
    for number in range(3):
        publish(line(), manifest_rows(graph_head=str(number), **{f"c{number}": "x"}))
    base = line()
    before = objects(base)
    late = stage(base, manifest_rows(graph_head="late"))
    compacted = commit_anywhere(base, something(stage_compaction(base)))
    assert (compacted.version, objects(line())) == (base.version + 1, before)
    with pytest.raises(CommitConflictError):
        commit_anywhere(base, late)
    publish(line(), manifest_rows(graph_head="next", c9="x"))
    base = line()
    rewrite = something(stage_compaction(base))
    publish(line(), manifest_rows(graph_head="again"))
    with pytest.raises((CommitConflictError, OSError)):
        commit_anywhere(base, rewrite)
    assert line().version == base.version + 1
    assert dict(objects(line()))["graph_head"] == "again"


def test_lance_guard_each_publish_adds_one_fragment_and_compaction_folds_them(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: the time of a publish grows with fragments, so the publisher compacts the line."""
    for number in range(5):
        publish(line(), manifest_rows(graph_head=str(number), **{f"commit-{number}": "x"}))
    assert len(line().get_fragments()) == 5
    before = objects(line())
    line().optimize.compact_files()
    assert len(line().get_fragments()) == 1
    assert objects(line()) == before


def test_lance_guard_a_publish_that_began_before_a_compaction_is_rejected(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: compaction of the manifest never loses a row to a concurrent publish."""
    publish(line(), manifest_rows(graph_head="one", one="genesis"))
    late = line()
    publish(line(), manifest_rows(graph_head="two", two="one"))
    stale = line()
    line().optimize.compact_files()
    for handle in (late, stale):
        with pytest.raises(OSError, match="Too many concurrent writers"):
            publish(handle, manifest_rows(graph_head="three", three="two"))
    assert dict(objects(line()))["graph_head"] == "two"


def test_lance_guard_a_compaction_that_began_before_a_publish_is_rejected(
    line: Callable[[], LanceDataset],
) -> None:
    """Why: the publisher ignores this conflict; it leaves a version but changes no row."""
    publish(line(), manifest_rows(graph_head="one", one="genesis"))
    publish(line(), manifest_rows(graph_head="two", two="one"))
    stale = line()
    publish(line(), manifest_rows(graph_head="three", three="two"))
    before, version = objects(line()), line().version
    with pytest.raises(OSError, match="preempted by concurrent transaction"):
        stale.optimize.compact_files()
    assert objects(line()) == before
    assert line().version == version + 1, "the reservation of fragment numbers stays"


def test_lance_guard_the_stamp_in_the_schema_metadata_outlives_publish_fork_and_compaction(
    tmp_path: Path,
) -> None:
    """Why: every version of every line says which manifest format it has."""
    stamped = MANIFEST.with_metadata({"omnigraph:internal_schema_version": "1"})
    rows = manifest_rows(graph_head="genesis").replace_schema_metadata(stamped.metadata)
    table = create_table(tmp_path / "t", rows, schema=stamped)
    assert table.schema.metadata == stamped.metadata
    publish(table, manifest_rows(graph_head="one"))
    open_head(tmp_path / "t").optimize.compact_files()
    forked = fork(table, "b-1", None, open_head(tmp_path / "t").version)
    assert open_head(tmp_path / "t").schema.metadata == stamped.metadata
    assert forked.schema.metadata == stamped.metadata


def test_lance_guard_four_processes_publish_one_chain(tmp_path: Path) -> None:
    """Why: exactly one wins in every round, also between processes; no commit is lost."""
    path = tmp_path / "t"
    create_table(path, manifest_rows(graph_head="genesis"), schema=MANIFEST)
    program = [sys.executable, "-m", "tests.guards.manifest_table", str(path), ""]
    writers = [
        subprocess.Popen([*program, str(writer), "8"], cwd=_ROOT, stderr=subprocess.PIPE)
        for writer in range(4)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=50)
        assert writer.returncode == 0, errors
    found = objects(open_head(path))
    parents = dict(found)
    assert len(found) == len(parents) == 33, "no key exists twice"
    chain, commit_id = [], parents["graph_head"]
    while commit_id != "genesis":
        chain.append(commit_id)
        commit_id = parents[commit_id]
    assert len(set(chain)) == len(chain) == 32
