"""What changed between two versions: what it costs to know; what it is, is a property."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.storage.workbench import STAMP, Workbench

from omnigraph.storage.handles import TableHandle


def _grown(bench: Workbench, rows: int) -> tuple[TableHandle, TableHandle]:
    """A table of so many rows, and the same without one, with another replaced and one added."""
    table = bench.plain
    ids = [f"n{number:07}" for number in range(rows)]
    given = pa.table({"id": ids, "rank": [1] * rows}, schema=table.schema)
    handle = bench.store.open(table, bench.store.create_table(table))
    first = bench.land(bench.store.stage_append(handle, given, STAMP))
    after = bench.delete(first, ids[rows // 2])
    after = bench.upsert(after, {"id": ids[7], "rank": 2}, {"id": "new", "rank": 3})
    return first, after


@pytest.mark.parametrize("rows", [2_000, 400_000])
def test_one_deleted_row_is_found_without_reading_the_others(tmp_path: Path, rows: int) -> None:
    first, after = _grown(Workbench(tmp_path / "graph"), rows)
    # Another process, which has read nothing yet.
    bench = Workbench(tmp_path / "graph")
    old, new = (bench.store.open(each.layout, each.pin) for each in (first, after))
    for each in (old, new):
        each.dataset.io_stats_incremental()
    found = bench.store.changed_since(new, old, ["rank"])
    read = [each.dataset.io_stats_incremental() for each in (old, new)]
    assert found.removed.to_pylist() == [f"n{rows // 2:07}"]
    assert sorted(map(str, found.changed.to_pylist())) == ["n0000007", "new"]
    assert sum(each.read_bytes for each in read) < 64 << 10
