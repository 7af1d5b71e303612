"""An upsert of many rows compares all ids; one of few rows looks them up in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.storage.workbench import STAMP, Workbench, rows_of

from omnigraph.storage import lance_writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from omnigraph.storage.handles import StagedWrite, TableHandle

ROWS = 100


def upsert_of_rows(bench: Workbench, base: TableHandle, rows: pa.Table) -> StagedWrite:
    return bench.store.stage_merge_insert(base, rows, STAMP)


def upsert_of_a_view(bench: Workbench, base: TableHandle, rows: pa.Table) -> StagedWrite:
    view = bench.store.open_staged(base, bench.store.write_pieces(base, rows))
    last = max(each.fragment_id for each in bench.store.fragments(view))
    return bench.store.stage_merge_staged(base, view, [last], STAMP)


@pytest.mark.parametrize("upsert", [upsert_of_rows, upsert_of_a_view])
@pytest.mark.parametrize(
    ("given", "uses_index"), [(1, True), (ROWS // 10, True), (ROWS // 10 + 1, False)]
)
def test_an_upsert_of_more_than_a_tenth_of_the_rows_does_not_use_the_index(
    upsert: Callable[[Workbench, TableHandle, pa.Table], StagedWrite],
    given: int,
    uses_index: bool,  # noqa: FBT001 - of the cases above
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Workbench(tmp_path)
    base = bench.filled(bench.plain, *({"id": f"p{n}", "rank": n} for n in range(ROWS)))
    chosen: list[bool] = []
    real = lance_writes.merge

    def merge(*args: Any, use_index: bool, **options: Any) -> lance_writes.Merged:  # noqa: ANN401
        chosen.append(use_index)
        return real(*args, use_index=use_index, **options)

    monkeypatch.setattr(lance_writes, "merge", merge)
    changed = [{"id": f"p{n}", "rank": -n} for n in range(1, given + 1)]
    landed = bench.land(upsert(bench, base, rows_of(bench.plain, changed)))
    assert chosen == [uses_index]
    expected = {f"p{n}": -n if 1 <= n <= given else n for n in range(ROWS)}
    assert bench.column(landed, "rank") == expected
