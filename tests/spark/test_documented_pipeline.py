"""The pipeline file of the page on Spark runs as it is written, but for its addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.docs.markdown import read_page
from tests.spark.derby_tables import DRIVER, address, execute

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { slug: String @key  name: String  age: I32? }
node Order { number: String @key  total: F64? }
edge Placed: Person -> Order @card(0..2)
"""
TABLE = """CREATE TABLE orders ("order_id" VARCHAR(9), "customer_id" VARCHAR(9),
  "total" DOUBLE, "status" VARCHAR(9), "updated_at" TIMESTAMP)"""
ROWS = [
    "INSERT INTO orders VALUES ('1', 'ada', 2.5, 'new', TIMESTAMP('2024-03-10 12:45:00'))",
    "INSERT INTO orders VALUES ('2', 'ada', 3.5, 'test', TIMESTAMP('2024-03-10 12:40:00'))",
]


def example(folder: Path) -> Path:
    """The file of the page, with the addresses of this machine."""
    pages = [block.text for block in read_page("docs/spark.md").blocks]
    (text,) = [each for each in pages if each.startswith("version: 1\nname: crm_nightly\n")]
    for theirs, ours in (
        ("s3://acme/rejects", str(folder / "rejects")),
        ("s3://in/people", str(folder / "people")),
        ("org.postgresql.Driver", DRIVER),
    ):
        assert text.count(theirs) == 1
        text = text.replace(theirs, ours)
    file = folder / "nightly.yaml"
    file.write_text(text)
    return file


@pytest.mark.extended
def test_the_example_runs_and_follows_its_database(
    tmp_path: Path, session: PipelineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people").mkdir()
    people = {"person_id": ["ada", "alan"], "full_name": ["Ada", "Alan"], "age": ["36", None]}
    pq.write_table(pa.table(people), tmp_path / "people" / "1.parquet")
    execute(session.spark, tmp_path, [TABLE, *ROWS])
    monkeypatch.setenv("ORDERS_URL", address(tmp_path))
    file = example(tmp_path)
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as graph:
        pipeline = graph.pipeline(session.spark)
        report = pipeline.run(file)
        assert {each.table: each.added for each in report.tables} == {
            "node:Order": 1,
            "node:Person": 2,
            "edge:Placed": 1,
        }
        assert report.cursors == {"orders": "2024-03-10T12:45:00.000000Z"}
        assert pipeline.run(file).commit is None
        # Within the lag, with nothing newer.
        change = """UPDATE orders SET "status" = 'new' WHERE "order_id" = '2'"""
        execute(session.spark, tmp_path, [change])
        assert {each.table: each.added for each in pipeline.run(file).tables} == {
            "node:Order": 1,
            "edge:Placed": 1,
        }
