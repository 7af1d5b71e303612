"""What crosses a process boundary, and what must not."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeVar, cast

import pytest
from lance import LanceOperation, Transaction
from lance.optimize import Compaction
from tests.guards.lance_tables import (
    commit,
    create_table,
    delete_offsets,
    finish_segment,
    ids,
    inverted,
    raw_segment,
    rows,
    search,
    something,
    stage_append,
    stage_compaction,
    stage_segments,
    write_rows,
)

T = TypeVar("T")

FORKING = """
import os, sys, lance
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""

INSERTING = """
import sys, pyarrow, lance
table = lance.write_dataset(pyarrow.table({"id": ["a"]}), sys.argv[1])
table.insert(pyarrow.table({"id": ["b"]}))
"""


def _shipped(value: T) -> T:
    """What another process gets, or gives back."""
    return cast("T", pickle.loads(pickle.dumps(value)))  # noqa: S301 - our own bytes


def test_lance_guard_fragments_deletions_segments_and_compactions_pickle(tmp_path: Path) -> None:
    """Why: executors return plain metadata and only the driver builds a transaction."""
    table = create_table(tmp_path / "t", rows("a", "b", body="wolf"))
    written = _shipped(write_rows(table, rows("c", body="wolf")))
    table = commit(table, Transaction(table.version, LanceOperation.Append(written)))

    kept = _shipped(delete_offsets(table, 0, [0]))
    assert kept is not None
    table = commit(table, Transaction(table.version, LanceOperation.Delete([kept], [], "")))
    assert ids(table) == ["b", "c"]

    text = inverted("body", "ix_body")
    segment = _shipped(raw_segment(table, text))
    table = commit(table, stage_segments(table, [finish_segment(table, text, segment)]))
    assert search(table, "wolf") == ["b", "c"]

    tasks = _shipped(Compaction.plan(table, {}).tasks)
    results = _shipped([task.execute(table) for task in tasks])
    assert table.latest_version == table.version
    table = commit(table, something(stage_compaction(table, results)))
    assert ids(table) == ["b", "c"]


def test_lance_guard_a_whole_transaction_pickles(tmp_path: Path) -> None:
    """Why: a staged write may wait in a file."""
    table = create_table(tmp_path / "t", rows("a"))
    staged = stage_append(table, rows("b"))
    again = _shipped(staged)
    assert (again.uuid, again.transaction_properties) == (
        staged.uuid,
        staged.transaction_properties,
    )
    assert ids(commit(table, again)) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_lance_guard_forking_after_the_import_warns() -> None:
    """Why: a forked child may hang at any time; workers are spawned, and this tells who is not."""
    program = [sys.executable, "-c", FORKING]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=True)
    assert "lance is not fork-safe" in done.stderr


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_lance_guard_an_insert_makes_no_sync_call(tmp_path: Path) -> None:
    """Why: durability on a local disk is the kernel's own work."""
    traced = tmp_path / "calls"
    calls = "trace=fsync,fdatasync,syncfs,sync,sync_file_range,msync,link,linkat"
    program = ["strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o", str(traced)]
    insert = [sys.executable, "-c", INSERTING, str(tmp_path / "t")]
    subprocess.run([*program, *insert], capture_output=True, timeout=50, check=True)
    seen = traced.read_text()
    assert ".manifest" in seen, "the links that publish a version were traced"
    assert "sync" not in seen
