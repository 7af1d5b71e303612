"""A CSV or Parquet file that is loaded without Spark gives what Spark makes of it."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.errors import OmnigraphError
from omnigraph.pipeline.files.csv_text import csv_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from omnigraph.pipeline.spark.session import PipelineSession

SCHEMA = """
node Person { name: String @key  city: String?  kind: enum(a, b)?  code: String? @unique }
edge Knows: Person -> Person { note: String? }
"""
HEADS = {"Person": ["name", "city", "kind", "code"], "Knows": ["id", "src", "dst", "note"]}
NAMES = ["Ada", "Alan", '"Ada"', "", '""', " Ada", '"a ""b"""', '"x,y"', 'q"q', "\u00e9\u2028", "#"]
KINDS = ["a", "b", "", "a", "b", "c", '"a"']


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with Graph.init(tmp_path / "graph", schema=SCHEMA) as opened:
        opened.load(b'{"type":"Person","data":{"name":"Ada","code":"1"}}\n', mode="append")
        yield opened


def csv_of(seed: int) -> tuple[str, bytes]:
    rng = random.Random(seed)  # noqa: S311 - of the inputs
    kind = rng.choice(sorted(HEADS))
    lines = [",".join(HEADS[kind])]
    for number in range(rng.randrange(12)):
        cells = [rng.choice([*NAMES, f"n{number}"]) for _ in range(4)]
        if kind == "Person":
            cells[2], cells[3] = rng.choice(KINDS), rng.choice(["", str(number), "1"])
        else:
            cells[0] = rng.choice([str(number), "1"])
        if rng.random() < 0.02:
            cells.append("more")
        lines.append(",".join(cells))
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "  ", "\t"]))
    text = rng.choice(["\n", "\r\n", "\r"]).join(lines) + rng.choice(["", "\n"])
    data = rng.choice([b"", b"\xef\xbb\xbf"]) + text.encode()
    return kind, data.replace(b"#", b"\xff") if rng.random() < 0.1 else data


def outcome(
    graph: Graph,
    session: PipelineSession,
    file: Path,
    kind: str,
    engine: Any,  # noqa: ANN401 - one of two words
    **options: Any,  # noqa: ANN401 - of a load
) -> tuple[dict[str, Any], list[Any]]:
    """What a load told and left, without what is never the same."""
    branch = f"{engine}-{options['mode']}-{options.get('on_error')}"
    rejects = file.parent / branch
    options |= {"rejects": str(rejects)} if "on_error" in options else {}
    options |= {"edge": kind} if kind == "Knows" else {"type": kind}
    pipeline = graph.pipeline(session.spark if engine == "spark" else None)
    try:
        report = pipeline.load(str(file), engine=engine, branch=branch, from_="main", **options)
        told = replace(
            report, engine="", stages=(), commit=None, operation_id=None, branch="",
            rejects_uri=None, branch_created=False,
        ).to_dict()  # fmt: skip
        told["is_committed"] = report.commit is not None
    except OmnigraphError as error:
        details = {
            name: value
            for name, value in error.details.items()
            if name not in ("rejects_uri", "operation_id")
        }
        message = error.message.partition("; bad rows are in")[0].replace(str(rejects), "")
        return {"code": error.code, "message": message, **details}, lines_of(rejects)
    rows = [json.loads(line) for line in b"".join(graph.export(branch=branch)).splitlines()]
    graph.branches.delete(branch)
    return told, [*lines_of(rejects), *rows]


def lines_of(folder: Path) -> list[Any]:
    return [
        json.loads(line)
        for each in sorted(folder.glob("*/rejects.ndjson"))
        for line in each.read_bytes().splitlines()
    ]


@pytest.mark.parametrize("seed", thinned(range(24), keep=3))
def test_a_dirty_csv_is_told_and_loaded_as_on_spark(
    tmp_path: Path, graph: Graph, session: PipelineSession, seed: int
) -> None:
    kind, data = csv_of(seed)
    file = tmp_path / "input.csv"
    file.write_bytes(data)
    assert csv_text(data, ",").why_spark() is None
    for options in (
        {"mode": "merge"},
        {"mode": "append", "on_error": "quarantine", "max_reject_ratio": 1.0},
    ):
        local, spark = (
            outcome(graph, session, file, kind, engine, **options) for engine in ("local", "spark")
        )
        assert local == spark


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(6))
def test_a_dirty_parquet_file_is_told_and_loaded_as_on_spark(
    tmp_path: Path, graph: Graph, session: PipelineSession, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - of the inputs
    names = rng.choices([None, "Ada", "Alan", "", "x", "y"], k=9)
    table = pa.table(
        {
            "name": pa.array(names, pa.string()),
            "kind": pa.array(rng.choices(["a", "b", "c", None], k=9)).dictionary_encode(),
            "code": pa.array(rng.choices(["1", "2", None], k=9), pa.large_string()),
        }
    )
    file = tmp_path / "input.parquet"
    pq.write_table(table, file, row_group_size=rng.choice([1, 4, 100]))
    options = {"mode": "merge", "on_error": "quarantine", "max_reject_ratio": 1.0}
    local, spark = (
        outcome(graph, session, file, "Person", engine, **options) for engine in ("local", "spark")
    )
    assert local == spark


@pytest.mark.extended
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"name,city\n",
        b"name,age\nx,1\n",
        b"name\n\xff\n",
        b"city\nx\n",
        b"name,city\nx\n",
    ],
)
def test_what_no_row_is_made_of_is_told_as_on_spark(
    tmp_path: Path, graph: Graph, session: PipelineSession, data: bytes
) -> None:
    file = tmp_path / "input.csv"
    file.write_bytes(data)
    local, spark = (
        outcome(graph, session, file, "Person", engine, mode="merge")
        for engine in ("local", "spark")
    )
    assert local == spark


@pytest.mark.extended
@pytest.mark.parametrize(
    "data",
    [b'name,city\n"x"y,2\n', b'name,city\n1,"x\n2,3\n', b"name,name\n1,2\n", b"name,\n1,2\n"],
)
def test_a_text_that_spark_takes_apart_in_its_own_way_is_left_to_it(data: bytes) -> None:
    assert csv_text(data, ",").why_spark() is not None
