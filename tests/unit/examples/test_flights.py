"""The first try of `examples/flights` is refused with every mistake, before Spark is started."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"
CSV = {
    "airports": "faa,name,tz,dst\nEWR,Newark,-5,A\n",
    "airlines": "carrier,name\nAA,American\n",
    "flights": "day,carrier,number,tailnum,origin,dest,delay,updated_at\n",
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=(EXAMPLE / "schema.pg").read_text()) as opened:
        yield opened


def test_the_first_try_is_refused_with_every_mistake_before_spark(
    tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in CSV.items():
        (tmp_path / f"{name}.csv").write_text(text)
    planes = {"tailnum": ["N1"], "year": [1999.0], "seats": [180]}
    pq.write_table(pa.table(planes), tmp_path / "planes.parquet")
    file = Path(shutil.copy(EXAMPLE / "pipeline-first.yaml", tmp_path))

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_session", refuse)
    with pytest.raises(SourceError) as refused:
        graph.pipeline().run(file)
    found = refused.value.details["mistakes"]
    assert isinstance(found, list)
    assert [(each["source"], each["property"]) for each in found] == [
        ("airports", "tz"),
        ("airlines", "name"),
        ("planes", "year"),
        ("planes", "seats"),
        ("flights", "day"),
        ("flights", "delay"),
    ]
    assert graph.commits.list().commits[0].kind == "genesis"
