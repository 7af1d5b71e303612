"""Read queries on Spark: the rows, types and errors of the engine; frames, plans, time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.exported_graph import make_people

from omnigraph import Graph
from omnigraph.errors import (
    BranchNotFound,
    DeadlineExceeded,
    InvalidArgument,
    InvalidQueryVector,
    NumericOverflow,
    ParameterError,
    QueryInvalid,
    ResourceLimit,
)
from omnigraph.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from omnigraph.pipeline.spark.session import PipelineSession

    Door = Callable[..., CompletedProcess[str]]

SCHEMA = """
interface Noted { note: String? }
node Sign implements Noted { name: String @key }
node Thing implements Noted {
  name: String @key
  title: String? @index
  note: String?
  small: U32?
  large: U64?
  count: I64?
  weight: F64?
  short: F32?
  day: Date?
  at: DateTime?
  numbers: [U32]?
  vec: Vector(2)?
  photo: Blob?
}
edge Next: Thing -> Thing { since: Date? }
"""
LINES = """
{"type":"Thing","data":{"name":"a","title":"Fox and hen","note":"red fox","small":4294967295,\
"large":18446744073709551615,"count":9223372036854775807,"weight":1e300,"short":0.5,\
"day":"2024-02-29","at":"2024-01-01T10:00:00.123Z","numbers":[1,null],"vec":[0.5,-1],\
"photo":"base64:aGk="}}
{"type":"Thing","data":{"name":"b","title":"A hen","note":"Straße İ","small":7,"large":1,\
"count":-2,"weight":1.0,"vec":[1,0]}}
{"type":"Sign","data":{"name":"b","note":"red fox"}}
{"type":"Thing","data":{"name":"c","weight":-1e300,"vec":[0,0],"at":"1969-12-31T23:30:00.5Z"}}
{"edge":"Next","from":"a","to":"b","data":{"id":"e","since":"2020-01-01"}}
{"edge":"Next","from":"b","to":"c","data":{"id":"f"}}
{"edge":"Next","from":"c","to":"c","data":{"id":"g"}}
""".encode()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, session: PipelineSession) -> Iterator[Graph]:
    session.require_alive()
    settings = load_settings({"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_QUERY_TIMEOUT_MS": "0"})
    path: Path = tmp_path_factory.mktemp("spark") / "graph"
    with Graph.init(path, schema=SCHEMA, settings=settings) as opened:
        opened.load(LINES, mode="append", engine="local")
        yield opened


QUERIES = {
    "every type": "match { $t: Thing } return { $t.name, $t.small, $t.large, $t.count, $t.short,"
    " $t.day, $t.at, $t.numbers, $t.vec }",
    "nothing": 'match { $t: Thing  $t.name = "zed" } return { $t.small, $t.vec, $t.at }',
    "limit 0": "match { $t: Thing } return { $t.large } limit 0",
    "times": "match { $t: Thing } return { year($t.at) as y, month($t.at) as m, day($t.at) as d,"
    " hour($t.at) as h, year($t.day) as of_day }",
    "many values": "match { $t: Thing  $t.count in $counts or $t.weight in $weights }"
    " return { $t }",
    "a large limit": "match { $t: Thing } return { $t.name } order { $t.name desc }"
    " limit 1000000000 offset 1",
    "an offset": "match { $t: Thing  $u: Thing } return { $t, $u } offset 4",
    "walks": "match { $t: Thing  $t next{1,3} $u  $u next $v } return { $t, $u, hops($t, $u) as n,"
    " path($t, $u) as way, $v }",
    "edges": "match { $t: Thing  $t $w:<next> $u } return { $t, $u, $w.since }",
    "filtered edges": "match { $t: Thing  $t $w:next $u  $w.since is null or"
    ' $w.since < date("2021-01-01")  $w.since >= date("2020-01-01") } return { $t, $u, $w.since }',
    "blocks": "match { $t: Thing  not { $t next $v  $v.weight > 0.0 }  optional { $t next $u }"
    " exists { $x next $t } } return { $t, $u.weight, count { $t <next> $_ } as n }",
    "words": "match { $t: Thing } return { $t.name, lower($t.note) as l, upper($t.note) as u,"
    ' search($t.title, "hens") as s, fuzzy($t.note, "fxo") as f, bm25($t.title, "fox hen") as r }',
    "distances": "match { $t: Thing } return { $t.name, nearest($t.vec, [1, 0]) as d } order { d }"
    " limit 2",
    "fusion": "match { $t: Thing } return { $t.name, rrf(nearest($t.vec, [1, 0]),"
    ' bm25($t.title, "hen")) as score } order { score desc } limit 5',
    "sums": "match { $t: Thing } return { sum($t.weight) as w, sum($t.large) as l, avg($t.count)"
    " as c, collect($t.name) as names, count(distinct $t.small) as n, max($t.at) as m }",
    "no sums": 'match { $t: Thing  $t.name = "zed" } return { sum($t.weight) as w,'
    " avg($t.small) as a, collect($t.name) as names, count($t) as n }",
    "groups": "match { $t: Thing  $t <next> $u } return { $t.day, sum($u.weight) as w, count($u)"
    " as n } having { n > 1 } order { n desc } limit 3 offset 0",
    "interfaces": "match { $x: Noted  count { $x next $_ } < 2  not { $x next $v  $v.weight < 0.0 }"
    "  optional { $x next $y } } return { $x, $y, type($x) as kind, $x.note,"
    ' search($x.note, "fox") as f } order { $x desc }',
    "groups of interfaces": "match { $x: Noted  $t: Thing } return { $x, count(distinct $x) as n,"
    " collect(distinct $x) as ids, sum($t.weight) as w }",
    "sets of interfaces": "match { $x: Noted } return { count(distinct $x) as n,"
    " collect(distinct $x) as ids }",
    "blobs": "match { $t: Thing  $t.photo is null } return { $t.name }",
    "products": "match { $t: Thing  $u: Thing  $t.small = $u.large or $t.weight < $u.weight }"
    " return { $t, $u }",
}


_PARAMS = "$counts: [I64], $weights: [F64]"
_GIVEN = {"counts": list(range(-500, 0)), "weights": [0.5 * at for at in range(400)]}


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_rows_order_and_types_are_those_of_the_engine(graph: Graph, text: str) -> None:
    source = f"query q({_PARAMS if '$counts' in text else ''}) {{ {text} }}"
    params = _GIVEN if "$counts" in text else None
    here = graph.query(source, params=params, executor="local")
    there = graph.query(source, params=params, executor="spark")
    assert there.to_arrow().schema.equals(here.to_arrow().schema)
    assert there.to_arrow().equals(here.to_arrow())
    assert (there.query_name, there.target, there.graph_commit_id) == (
        here.query_name,
        here.target,
        here.graph_commit_id,
    )


ERRORS = {
    "match { $t: Thing } return { $t.count + 1 as n }": NumericOverflow,
    "match { $t: Thing } return { $t.weight * $t.weight as n }": NumericOverflow,
    "match { $t: Thing } return { $t.large % 2 as n }": NumericOverflow,
    "match { $t: Thing } return { $t.name, nearest($t.vec, [0, 0]) as d }": InvalidQueryVector,
    "match { $t: Thing } return { $t.nope }": QueryInvalid,
}


@pytest.mark.parametrize("text", ERRORS)
def test_what_the_engine_refuses_spark_refuses_alike(graph: Graph, text: str) -> None:
    told = []
    for executor in ("local", "spark"):
        with pytest.raises(ERRORS[text]) as caught:
            graph.query(f"query q() {{ {text} }}", executor=executor)
        told.append((caught.value.message, caught.value.details))
    assert told[0] == told[1]


def test_a_frame_is_lazy_ordered_and_has_the_names_of_the_result(
    graph: Graph, session: PipelineSession
) -> None:
    pipeline = graph.pipeline(session.spark)
    frame = pipeline.query(
        "query q($least: I64) { match { $t: Thing  $t.small >= $least }"
        " return { $t.name, $t.large as large } order { large } }",
        params={"least": 1},
    )
    assert frame.columns == ["t.name", "large"]
    rows = frame.toArrow().to_pylist()
    assert [(row["t.name"], int(row["large"])) for row in rows] == [("b", 1), ("a", 2**64 - 1)]
    assert frame.filter("`t.name` = 'a'").count() == 1
    with pytest.raises(ParameterError):
        pipeline.query("query q($x: I64) { match { $t: Thing } return { $t, $x as x } }")
    with pytest.raises(BranchNotFound):
        pipeline.query("query q() { match { $t: Thing } return { $t } }", branch="nope")


def test_the_command_prints_the_rows_that_it_prints_in_this_process(
    call: Door, tmp_path: Path, session: PipelineSession
) -> None:
    session.require_alive()
    people = make_people(tmp_path / "people.omni")
    text = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.age desc } }"
    words = ["--store", people, "-e", text, "--timeout", "0"]
    here, there = (
        call("query", *words, "--format", "csv", "--engine", engine)
        for engine in ("local", "spark")
    )
    assert (there.returncode, there.stdout) == (0, here.stdout), there.stderr
    assert len(here.stdout.splitlines()) == 3
    plan = call("explain", *words, "--engine", "spark", "--json")
    assert plan.returncode == 0, plan.stderr
    told = json.loads(plan.stdout)
    assert (told.get("plan") or told)["executor"] == "spark"


def test_an_older_state_is_read(graph: Graph) -> None:
    source = "query q() { match { $t: Thing } return { count($t) as n } }"
    graph.branches.create("more")
    more = b'{"type":"Thing","data":{"name":"d"}}'
    graph.load(more, mode="append", branch="more", engine="local")
    counts = [
        graph.query(source, branch=branch, executor="spark").to_dicts()[0]["n"]
        for branch in ("main", "more")
    ]
    assert counts == [3, 4]


def test_a_list_that_is_too_long_is_refused_with_its_length(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.pipeline.query.groups.MAX_COLLECTED", 2)
    with pytest.raises(ResourceLimit, match="a list of 3 values, more than 2") as caught:
        graph.query(
            "query q() { match { $t: Thing } return { collect($t.name) as names } }",
            executor="spark",
        )
    assert caught.value.details == {"resource": "collected values", "limit": 2, "actual": 3}


def test_the_time_of_a_query_ends_it(graph: Graph) -> None:
    with pytest.raises(DeadlineExceeded, match="longer than 50 ms on Spark"):
        graph.query(
            "query q() { match { $t: Thing  $t next{1,4} $u } return { $t, $u } }",
            executor="spark",
            timeout_s=0.05,
        )


def test_the_plan_shows_what_spark_would_do(graph: Graph) -> None:
    source = "query q() { match { $t: Thing  $t next{1,4} $u  $u.small > 3 } return { $t, $u } }"
    plan = graph.explain(source, executor="spark")
    told = plan.to_dict()
    assert told["executor"] == "spark"
    assert told["ops"][1]["mode"] == "join"
    assert "why" not in told["ops"][1]
    assert "Physical Plan" in told["spark_plan"]
    assert "MapInArrow" in str(plan)
    with pytest.raises(InvalidArgument, match="not measured"):
        graph.explain(source, executor="spark", analyze=True)


def test_the_environment_and_the_size_choose_the_lane(graph: Graph) -> None:
    source = "query q() { match { $t: Thing  $u: Thing } return { $t, $u } }"
    path = str(graph._graph.storage.location)
    for environ, at_most in (({"OMNIGRAPH_ENGINE": "spark"}, None), ({}, "5")):
        given = {"OMNIGRAPH_QUERY_TIMEOUT_MS": "0", **environ}
        if at_most is not None:
            given["OMNIGRAPH_MAX_BINDING_ROWS"] = at_most
        with Graph.open(path, mode="read_only", settings=load_settings(given)) as opened:
            assert len(opened.query(source)) == 9
            if at_most is not None:
                with pytest.raises(ResourceLimit):
                    opened.query(source, executor="local")
