"""`Pipeline.read` shows the rows of one snapshot, and `Graph.load` takes the lane of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from omnigraph import Graph
from omnigraph.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Thing {
  name: String @key
  small: U32?
  large: U64?
  day: Date?
  at: DateTime?
  numbers: [U32]?
  vec: Vector(2)?
  photo: Blob?
}
node Empty { name: String @key }
edge Next: Thing -> Thing
"""
LINES = b"""
{"type":"Thing","data":{"name":"a","small":4294967295,"large":18446744073709551615,"day":"2024-02-29",\
"at":"2024-01-01T10:00:00.123Z","numbers":[1,null],"vec":[0.5,-1],"photo":"base64:aGk="}}
{"type":"Thing","data":{"name":"b","small":7}}
{"edge":"Next","from":"a","to":"b","data":{"id":"e"}}
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        opened.load(LINES, mode="append")
        yield opened


def test_a_frame_has_every_value_but_blobs(graph: Graph, session: PipelineSession) -> None:
    rows = graph.pipeline(session.spark).read(type="Thing").orderBy("id").toArrow().to_pylist()
    first = rows[0]
    assert "photo" not in first
    assert (first["small"], int(first["large"])) == (4294967295, 18446744073709551615)
    assert (first["day"].isoformat(), first["numbers"]) == ("2024-02-29", [1, None])
    assert (first["at"].isoformat(), first["vec"]) == (
        "2024-01-01T10:00:00.123000+00:00",
        [0.5, -1.0],
    )
    assert rows[1] == {**dict.fromkeys(first), "id": "b", "name": "b", "small": 7}


def test_columns_filters_edges_and_older_snapshots_are_read(
    graph: Graph, session: PipelineSession
) -> None:
    pipeline = graph.pipeline(session.spark)
    before = graph.tags.create("before").graph_commit_id
    graph.load(b'{"type":"Thing","data":{"name":"c","small":9}}', mode="append")

    def names(**options: str) -> list[object]:
        frame = pipeline.read(type="Thing", columns=["name"], **options)
        return sorted(row["name"] for row in frame.toArrow().to_pylist())

    assert names() == ["a", "b", "c"]
    assert names(snapshot=before) == names(snapshot="before") == ["a", "b"]
    assert names(filter="small < 10") == ["b", "c"]
    assert pipeline.read(edge="Next").toArrow().to_pylist() == [{"id": "e", "src": "a", "dst": "b"}]
    assert pipeline.read(type="Empty").toArrow().column_names == ["id", "name"]
    with pytest.raises(InvalidArgument, match="no column `nope`"):
        pipeline.read(type="Thing", columns=["nope"])
    with pytest.raises(InvalidArgument, match="a type or an edge"):
        pipeline.read()


def test_the_conflicts_of_a_merge_are_a_frame(graph: Graph, session: PipelineSession) -> None:
    graph.branches.create("side")
    for branch, small in (("side", 8), ("main", 9)):
        line = b'{"type":"Thing","data":{"name":"b","small":%d}}' % small
        graph.load(line, mode="merge", branch=branch)
    assert session.spark is not None
    frame = session.spark.createDataFrame(graph.branches.merge_plan("side").conflicts)
    columns = ("type", "id", "kind", "property", "base", "ours", "theirs")
    assert [tuple(row) for row in frame.select(*columns).collect()] == [
        ("Thing", "b", "divergent_update", "small", "7", "9", "8")
    ]
    decided = graph.branches.merge_plan("side", strategy="ours").conflicts
    # Over Connect PySpark makes no frame of an empty table without a schema.
    none = session.spark.createDataFrame(decided, frame.schema)
    assert (none.count(), none.schema) == (0, frame.schema)


@pytest.mark.extended
def test_a_folder_is_loaded_on_spark_by_the_same_call(
    graph: Graph, session: PipelineSession, tmp_path: Path
) -> None:
    assert session.spark is not None
    folder = tmp_path / "many"
    folder.mkdir()
    for name in ("d", "f"):
        line = f'{{"type":"Thing","data":{{"name":"{name}"}}}}\n'
        (folder / f"{name}.jsonl").write_text(line, encoding="utf-8")
    report = graph.load(folder, mode="append")
    assert (report.engine, [each.added for each in report.tables]) == ("spark", [2])
    assert graph.snapshot().count("Thing") == 4
