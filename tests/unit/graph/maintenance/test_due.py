"""What is due is told by rules that spread the cost of maintenance over the rows that changed."""

import pytest

from omnigraph.graph.maintenance.due import (
    FEWEST_ROWS,
    FULL_ROWS,
    MOST_FRAGMENTS,
    needs_compaction,
    needs_indexes,
)
from omnigraph.storage.sizes import FragmentInfo


def fragment(rows: int, deleted: int = 0) -> FragmentInfo:
    return FragmentInfo(fragment_id=0, rows=rows, deleted_rows=deleted, size_bytes=1)


@pytest.mark.parametrize(
    ("fragments", "is_due"),
    [
        ([], False),
        ([fragment(1)] * MOST_FRAGMENTS, False),
        ([fragment(1)] * (MOST_FRAGMENTS + 1), True),
        ([fragment(FULL_ROWS)] * 500, False),
        ([fragment(20_000, deleted=2_000)], False),
        ([fragment(20_000, deleted=3_000)], True),
        ([fragment(100, deleted=FEWEST_ROWS - 1)], False),
        ([fragment(0, deleted=FEWEST_ROWS)], True),
    ],
)
def test_many_small_fragments_or_many_deleted_rows_are_due(
    fragments: list[FragmentInfo], *, is_due: bool
) -> None:
    assert needs_compaction(fragments) is is_due


@pytest.mark.parametrize(
    ("rows", "uncovered", "is_due"),
    [
        (0, 0, False),
        (2_000, FEWEST_ROWS - 1, False),
        (2_000, FEWEST_ROWS, True),
        (1_000_000, FEWEST_ROWS, False),
        (1_000_000, 1_000_000 // 64, True),
    ],
)
def test_an_index_is_due_when_it_lags_by_a_share_of_the_table(
    rows: int, uncovered: int, *, is_due: bool
) -> None:
    assert needs_indexes(rows, uncovered) is is_due
