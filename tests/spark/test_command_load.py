"""`omnigraph load` on Spark: tabular sources, what it prints, what it says about bad rows."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import Graph
from omnigraph.pipeline.spark.session import PipelineSession

Door = Callable[..., CompletedProcess[str]]

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  @range(age, 0..150) }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture(autouse=True)
def _session(session: PipelineSession) -> None:
    """The active session, which the commands of these tests find."""
    assert session.is_owned


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A graph of nobody, in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "people.omni"
    Graph.init(path, schema=SCHEMA).close()
    return path


def rows(people: Path, type_name: str) -> list[dict[str, object]]:
    with Graph.open(people, mode="read_only") as graph:
        lines = b"".join(graph.export(types=[type_name])).splitlines()
    return [json.loads(line) for line in lines]


def head(people: Path) -> str:
    with Graph.open(people, mode="read_only") as graph:
        return graph.snapshot().graph_commit_id


def test_a_csv_is_loaded_with_its_columns_mapped(call: Door, people: Path) -> None:
    file = people.with_name("people.csv")
    file.write_text("who;age;note\nAda;36;x\nBob;;y\n", encoding="utf-8")
    words = ("load", people, "--data", file, "--mode", "append", "--type", "Person")
    columns = ("--map", "who=name", "--option", "sep=;")
    text = call(*words, *columns)
    assert (text.returncode, "--option inferSchema=true" in text.stderr) == (1, True)
    result = call(*words, *columns, "--option", "inferSchema=true")
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        [
            "node:Person  2 read  2 added  0 changed  0 removed",
            f"2 rows on branch main, mode append: commit {head(people)}",
        ],
    ), result.stderr
    *announced, operation = result.stderr.splitlines()
    assert operation.startswith("operation ")
    assert "add --resume " in operation
    assert announced == [
        f"omnigraph load → {people} (direct, local)",
        "engine spark: an option of Spark's reader",
    ]
    assert rows(people, "Person") == [
        {"type": "Person", "data": {"id": "Ada", "name": "Ada", "age": 36, "born": None}},
        {"type": "Person", "data": {"id": "Bob", "name": "Bob", "age": None, "born": None}},
    ]


@pytest.mark.extended
def test_the_ends_of_edges_are_columns_of_any_name(call: Door, people: Path) -> None:
    pq.write_table(pa.table({"name": ["Ada", "Bob"]}), "people.parquet")
    nodes = ("--data", "people.parquet", "--type", "Person", "--mode", "append")
    assert call("load", people, *nodes).returncode == 0
    file = people.with_name("knows.json")
    file.write_text('{"a": "Ada", "b": "Bob", "key": "k-1", "since": 1840}\n')
    edges = ("--data", file, "--format", "json", "--edge", "Knows", "--mode", "merge")
    columns = ("--from-column", "a", "--to-column", "b", "--id-column", "key")
    refused = call("load", people, *edges, *columns)
    assert (refused.returncode, "cast(since as int)" in refused.stderr) == (1, True)
    file.write_text('{"a": "Ada", "b": "Bob", "key": "k-1"}\n')
    result = call("load", people, *edges, *columns, "--json", "--as", "act-me")
    assert result.returncode == 0, result.stderr
    body = json.loads(result.stdout)
    assert body["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert (body["actor_id"], body["report"]["engine"]) == ("act-me", "spark")
    assert rows(people, "Knows") == [
        {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "k-1", "since": None}}
    ]


def test_a_column_that_no_property_is_named_after_is_told(call: Door, people: Path) -> None:
    pq.write_table(pa.table({"name": ["Ada"], "height": [1.7]}), "people.parquet")
    words = ("--data", "people.parquet", "--type", "Person", "--mode", "append")
    result = call("load", people, *words)
    assert (result.returncode, result.stdout) == (1, "")
    assert "no property for the column `height`" in result.stderr
    assert "--map" in result.stderr


def test_the_first_bad_rows_are_printed_with_their_numbers(call: Door, people: Path) -> None:
    names = [f"p{number:02}" for number in range(25)]
    ages = pa.array([200] * 25, pa.int32())
    pq.write_table(pa.table({"name": names, "age": ages}), "people.parquet")
    before = head(people)
    words = ("--data", "people.parquet", "--type", "Person", "--mode", "append")
    result = call("load", people, *words)
    assert (result.returncode, result.stdout) == (6, "")
    _, _, _, error, *shown = result.stderr.splitlines()
    assert "25 violations, the first: row 1: @range violation" in error
    assert [line.split(":")[0] for line in shown] == [
        *(f"  row {number}" for number in range(2, 21)),
        "  and 5 more",
        "  in all",
    ]
    assert head(people) == before


def test_bad_rows_of_a_table_are_set_aside(call: Door, people: Path) -> None:
    ages = pa.array([36, 200, 41], pa.int32())
    pq.write_table(pa.table({"name": ["Ada", "Bob", "Cy"], "age": ages}), "people.parquet")
    result = call(
        *("load", people, "--data", "people.parquet", "--type", "Person", "--mode", "append"),
        *("--on-error", "quarantine", "--rejects", "rejects", "--max-reject-ratio", "0.5"),
    )
    assert result.returncode == 0, result.stderr
    assert "2 added  0 changed  0 removed  1 rejected" in result.stdout
    assert "(range_violation 1)" in result.stdout
    (file,) = Path("rejects").glob("*/rejects.ndjson")
    assert json.loads(file.read_text())["line"] == 2


def test_an_active_session_takes_small_files_too_and_no_options(call: Door, people: Path) -> None:
    Path("one.ndjson").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    words = ("load", people, "--data", "one.ndjson", "--mode", "merge", "--dry-run")
    result = call(*words)
    assert result.stderr.splitlines()[1] == "engine spark: a Spark session is active"
    assert result.stdout.endswith(
        "1 row for branch main, mode merge: dry run, nothing is written\n"
    )
    for option in (("--spark-master", "local[1]"), ("--spark-conf", "spark.ui.enabled=true")):
        refused = call(*words, *option)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"{option[0]} sets up a session of Spark, and one is active" in refused.stderr
    local = call(*words, "--engine", "local")
    assert local.stderr.splitlines()[1] == "engine local: --engine local"
