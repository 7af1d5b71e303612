from datetime import date, datetime
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import InvalidArgument

SCHEMA = """
node Flight { carrier: String  number: I32  day: Date  @key(carrier, number, day) }
node Note { text: String }
"""


def test_a_key_is_the_id_that_a_load_gives(tmp_path: Path) -> None:
    values = {"carrier": "UA", "day": date(2013, 1, 2), "number": np.int64(1545)}
    with Graph.init(tmp_path / "g", schema=SCHEMA) as graph:
        line = b'{"type": "Flight", "data": {"carrier": "UA", "number": 1545, "day": "2013-01-02"}}'
        graph.load(line, mode="append")
        made = omnigraph.key(graph, "Flight", values)
        assert made == '["UA","1545","15707"]'
        assert graph.snapshot().entity("Flight", made) is not None
        catalog = graph.snapshot().catalog
    assert omnigraph.key(catalog, "Flight", values | {"day": "2013-01-02"}) == made


@pytest.mark.parametrize(
    "day",
    [
        np.datetime64("2013-01-02"),
        np.datetime64("2013-01-02T00:00:00", "ns"),
        pd.Timestamp("2013-01-02"),
        datetime(2013, 1, 2),  # noqa: DTZ001 - as pandas gives a day
    ],
)
def test_a_day_may_come_as_a_moment_at_midnight(day: object) -> None:
    catalog = omnigraph.compile_schema(SCHEMA)
    values = {"carrier": "UA", "day": day, "number": 1545}
    assert omnigraph.key(catalog, "Flight", values) == '["UA","1545","15707"]'


@pytest.mark.parametrize(
    "day", [pd.Timestamp("2013-01-02T01:00"), np.datetime64("2013-01-02T01"), pd.NaT]
)
def test_a_moment_within_a_day_is_no_day(day: object) -> None:
    catalog = omnigraph.compile_schema(SCHEMA)
    with pytest.raises(InvalidArgument, match="no key of Flight"):
        omnigraph.key(catalog, "Flight", {"carrier": "UA", "day": day, "number": 1545})


def test_the_schema_is_told_by_a_snapshot_too_and_by_nothing_else(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "g", schema="node Day { day: DateTime @key }") as graph:
        noon = {"day": np.datetime64("1970-01-01T00:00:01")}
        assert omnigraph.key(graph.snapshot(), "Day", noon) == "1000"
        assert omnigraph.key(graph.schema.catalog, "Day", noon) == "1000"
    with pytest.raises(InvalidArgument, match="not by str; give the graph"):
        omnigraph.key("g", "Day", noon)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_name", "values", "words"),
    [
        ("Fligth", {}, "no node type 'Fligth'; there are Flight, Note"),
        ("Note", {"text": "a"}, "Note has no @key"),
        ("Flight", {"carrier": "UA"}, "the key of Flight is carrier, number, day, not carrier"),
        ("Flight", {"carrier": "UA", "number": "x", "day": "2013-01-02"}, "no key of Flight"),
    ],
)
def test_what_is_no_key_is_refused(type_name: str, values: dict[str, object], words: str) -> None:
    catalog = omnigraph.compile_schema(SCHEMA)
    with pytest.raises(InvalidArgument, match=words):
        omnigraph.key(catalog, type_name, values)
