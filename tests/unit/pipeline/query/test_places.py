"""The places of rows in partitions that are counted: where a result begins and ends."""

import pytest

from omnigraph.pipeline.query.projection import _place


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        (0, (1, 0)),
        (2, (1, 2)),
        (3, (4, 0)),
        (7, (4, 4)),
        (8, None),
        (10**12, None),
    ],
)
def test_a_place_is_a_partition_and_a_row_of_it(rows: int, place: tuple[int, int] | None) -> None:
    found = _place({4: 5, 1: 3}, rows)
    assert found == (2**63 - 1 if place is None else (place[0] << 33) + place[1])


def test_without_rows_every_place_is_behind_them() -> None:
    assert _place({}, 0) == 2**63 - 1
