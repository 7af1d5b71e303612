"""`omnigraph analytics`: what it prints, keeps and writes, and every way to be refused."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pyarrow.parquet as pq
import pytest

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]

SCHEMA = """
node Person { name: String @key  rank: F64?  reach: I64? }
edge Knows: Person -> Person { since: I32? }
"""
LINES = "".join(
    [
        *(f'{{"type":"Person","data":{{"name":"{name}"}}}}\n' for name in ("Ada", "Bob", "Zoë")),
        '{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":3}}\n',
    ]
)
TABLE = """\
3 rows from branch main via degree
type   | id  | in_degree | out_degree | degree
-------+-----+-----------+------------+-------
Person | Ada | 0         | 1          | 1
Person | Bob | 1         | 0          | 1
Person | Zoë | 0         | 0          | 0
"""


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("this needs no Spark")

    monkeypatch.setattr("omnigraph.pipeline.pipeline.open_reachable_session", refuse)
    with Graph.init(tmp_path / "people.omni", schema=SCHEMA) as graph:
        graph.load(LINES.encode(), mode="append")
    return Path("people.omni")


def test_rows_are_printed_in_every_form(call: Door, people: Path) -> None:
    result = call("analytics", "degree", people, "--edge", "Knows")
    assert (result.returncode, result.stdout) == (0, TABLE)
    assert "engine local: the graph takes at most" in result.stderr
    csv = call("analytics", "degree", "--store", people, "--edge", "Knows", "--format", "csv")
    assert csv.stdout.splitlines()[1] == "Person,Ada,0,1,1"
    body = json.loads(call("analytics", "degree", people, "--edge", "Knows", "--json").stdout)
    assert (body["query_name"], body["row_count"]) == ("degree", 3)
    assert body["rows"][0] == {
        "type": "Person",
        "id": "Ada",
        "in_degree": 0,
        "out_degree": 1,
        "degree": 1,
    }


def test_parameters_are_taken_by_name(call: Door, people: Path) -> None:
    words = ["--param", "landmarks=Ada", "--param", "landmarks=Zoë", "--param", "weight=since"]
    result = call(
        "analytics", "shortest_paths", people, "--edge", "Knows", *words, "--format", "csv"
    )
    assert result.stdout.splitlines()[1:] == [
        "Person,Ada,Ada,0.0",
        "Person,Ada,Zoë,",
        "Person,Bob,Ada,3.0",
        "Person,Bob,Zoë,",
        "Person,Zoë,Ada,",
        "Person,Zoë,Zoë,0.0",
    ]


def test_values_are_written_to_a_property(call: Door, people: Path) -> None:
    words = ("analytics", "pagerank", people, "--edge", "Knows", "--write", "Person.rank")
    result = call(*words)
    assert result.returncode == 0
    assert result.stdout.startswith("node:Person  3 read  0 added  3 changed  0 removed\n")
    again = json.loads(call(*words, "--json").stdout)
    assert again["commit"] is None
    with Graph.open(people) as graph:
        ranks = graph.snapshot().scan("Person", columns=["rank"]).read_all()["rank"].to_numpy()
        assert ranks.sum() == pytest.approx(1)
        graph.branches.create("draft")
    chosen = ("--write", "Person.reach", "--column", "in_degree", "--branch", "draft")
    assert call("analytics", "degree", people, "--edge", "Knows", *chosen).returncode == 0
    with Graph.open(people) as graph:
        found = graph.query("query q() { match { $p: Person $p.reach > 0 } return { $p } }")
        assert len(found) == 0
        found = graph.query(
            "query q() { match { $p: Person $p.reach > 0 } return { $p.name } }", branch="draft"
        )
        assert found.to_dicts() == [{"p.name": "Bob"}]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_rows_are_kept_in_a_file(call: Door, people: Path, ending: str) -> None:
    result = call("analytics", "degree", people, "--edge", "Knows", "--out", f"rows.{ending}")
    assert (result.returncode, result.stdout) == (0, "")
    assert f"3 rows in rows.{ending}" in result.stderr
    if ending == "parquet":
        assert pq.read_table("rows.parquet")["id"].to_pylist() == ["Ada", "Bob", "Zoë"]
    else:
        assert len(Path(f"rows.{ending}").read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ranks", "--edge", "Knows"], "there is no analytics `ranks`"),
        (["pagernk", "--edge", "Knows"], "did you mean `pagerank`?"),
        (["degree", "--edge", "Knwos"], "did you mean `Knows`?"),
        (["pagerank", "--edge", "Knows", "--param", "damping=x"], "damping is a number"),
        (["pagerank", "--edge", "Knows", "--param", "max_iter=1.5"], "is a whole number, not"),
        (["pagerank", "--edge", "Knows", "--param", "damp=1"], "did you mean `damping`?"),
        (["degree", "--edge", "Knows", "--param", "damp=1"], "it has none"),
        (["degree", "--edge", "Knows", "--write", "Person.rank"], "declared as `rank: I64?`"),
        (["strongly_connected_components", "--edge", "Knows", "--engine", "spark"], "in this proc"),
    ],
)
def test_a_wrong_question_is_told(call: Door, people: Path, words: list[str], found: str) -> None:
    result = call("analytics", *words, "--store", people)
    assert (result.returncode, result.stdout) == (1, "")
    assert found in result.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], "--edge"),
        (["--edge", "Knows", "--param", "damping"], "expected KEY=VALUE"),
        (["--edge", "Knows", "--column", "degree"], "give --write too"),
        (["--edge", "Knows", "--out", "rows.txt"], "ends with .parquet, .csv, .jsonl"),
        (["--edge", "Knows", "--branch", "a", "--snapshot", "0"], "give one of them"),
        (["--edge", "Knows", "--write", "Person.reach", "--snapshot", "0"], "leave --snapshot out"),
        (["--edge", "Knows", "--engine", "local", "--spark-conf", "a=b"], "leave one"),
    ],
)
def test_a_wrong_command_line_is_told(
    call: Door, people: Path, words: list[str], found: str
) -> None:
    result = call("analytics", "degree", *words, "--store", people)
    assert (result.returncode, result.stdout) == (2, "")
    assert found in result.stderr


def test_a_server_has_no_analytics(call: Door) -> None:
    words = ("analytics", "degree", "--edge", "Knows", "--server", "http://127.0.0.1:1")
    result = call(*words)
    assert result.returncode == 2
    assert "it is a direct command" in result.stderr
