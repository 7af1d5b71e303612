"""Vectors that tasks of the data source ask for outlive the task and the write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

_ROOT = str(Path(__file__).parents[4])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from pyspark.sql.pandas.types import from_arrow_schema  # noqa: E402 - needs the path above
from tests.unit.embedding.provider_server import ProviderServer  # noqa: E402

from omnigraph import Graph  # noqa: E402
from omnigraph.pipeline.datasource.source import OmnigraphDataSource  # noqa: E402
from omnigraph.pipeline.datasource.writer import TableWriter  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: list[pa.Field[Any]] = [pa.field("name", pa.string())]
SCHEMA = pa.schema(NAMES)
DOCS = pa.RecordBatch.from_arrays([pa.array(["a", "b"])], schema=SCHEMA)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with ProviderServer() as running:
        monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "openai")
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        yield running


def writer(root: Path) -> TableWriter:
    source = OmnigraphDataSource({"graph": str(root), "type": "Doc"})
    made = source.writer(from_arrow_schema(SCHEMA, prefer_timestamp_ntz=False), overwrite=False)
    assert isinstance(made, TableWriter)
    return made


def kept(root: Path) -> list[Path]:
    return [each for each in (root / "__staging").rglob("*") if each.is_file()]


def test_a_task_and_a_write_that_run_again_pay_for_nothing_twice(
    tmp_path: Path, server: ProviderServer
) -> None:
    root = tmp_path / "graph"
    schema = 'node Doc { name: String @key  v: Vector(2) @embed("name") }'
    with Graph.init(root, schema=schema) as graph:
        first = writer(root)
        first.stage(0, [DOCS])
        first.abort([first.stage(0, [DOCS])])
        assert len(kept(root)) == 1
        again = writer(root)
        again.commit([again.stage(0, [DOCS])])
        graph.refresh()
        assert graph.snapshot().count("Doc") == 2
    assert [text for seen in server.seen for text in seen.texts] == ["a", "b"]
    assert kept(root) == []


def docs(*names: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(names)], schema=SCHEMA)


def test_writes_to_one_table_leave_each_other_what_they_paid_for(
    tmp_path: Path, server: ProviderServer
) -> None:
    root = tmp_path / "graph"
    schema = 'node Doc { name: String @key  v: Vector(2) @embed("name") }'
    with Graph.init(root, schema=schema):
        ended = writer(root)
        ended.abort([ended.stage(0, [docs("a", "b")])])
        running, other = writer(root), writer(root)
        running.stage(0, [docs("c", "d")])
        other.commit([other.stage(0, [docs("a", "e")])])
        running.commit([running.stage(0, [docs("c", "d")])])
        again = writer(root)
        again.commit([again.stage(0, [docs("b")])])
    assert [text for seen in server.seen for text in seen.texts] == ["a", "b", "c", "d", "e"]
