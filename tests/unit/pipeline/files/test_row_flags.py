"""What a rejected row shows of the values that an expression failed on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.pipeline.files.row_flags import RowFlags


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ('{"years":"old"}', "old"),
        ('{"years":"' + "o" * 300 + '"}', "o" * 300),
        ('{"a":"x","b":"y"}', '{"a":"x","b":"y"}'),
        ("{}", "{}"),
        (None, None),
    ],
)
def test_a_value_of_one_column_is_shown_as_it_was(given: str | None, shown: str | None) -> None:
    flags = RowFlags(given={"age": pa.array([given], pa.string())})
    assert flags.source_value("age", 0) == shown
    assert flags.source_value("name", 0) is None
