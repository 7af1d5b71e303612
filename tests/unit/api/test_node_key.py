from datetime import date
from pathlib import Path

import numpy as np
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
