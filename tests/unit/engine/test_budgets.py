"""Budgets and refusals: a query that may not go on says so, and nothing else is broken."""

import subprocess
import sys
import threading
import time

import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import Opened, SteppedClock, ask, engine_at, fill, first_of

from omnigraph import Graph
from omnigraph.engine.engine import QueryRequest
from omnigraph.errors import (
    BranchNotFound,
    Cancelled,
    CommitNotFound,
    DeadlineExceeded,
    InvalidArgument,
    OmnigraphError,
    ParameterError,
    QueryInvalid,
    QuerySelectionError,
    ResourceLimit,
)
from omnigraph.graph.query.budget import Budget, CancelToken
from omnigraph.graph.query.target import QueryTarget

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  vec: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""
NUMBER = 120
EVERYBODY = "query q() { match { $p: Person } return { $p } }"
HEAVY = (
    "query q() { match { $a: Person $b: Person $c: Person $a.age != $b.age $b.age != $c.age }"
    " return { $a, $b, $c } }"
)
QUERIES = {
    "scan": EVERYBODY,
    "filter": "query q() { match { $p: Person $p.age > 3 } return { $p.name } }",
    "walk": "query q() { match { $p: Person $p knows{1,3} $f } return { $p, $f } }",
    "edges": "query q() { match { $p: Person $p $w:knows $f } return { $w.since } }",
    "cross": "query q() { match { $p: Person $q: Person } return { $p, $q } }",
    "join": "query q() { match { $p: Person $q: Person $p.age = $q.age } return { $p, $q } }",
    "negation": "query q() { match { $p: Person not { $p knows $f $f.age > 2 } } return { $p } }",
    "text": 'query q() { match { $p: Person search($p.bio, "fox") } return { $p } }',
    "fuzzy": 'query q() { match { $p: Person fuzzy($p.bio, "fix", 1) } return { $p } }',
    "nearest": (
        "query q() { match { $p: Person } return { $p } order { nearest($p.vec, [1, 1]) } limit 3 }"
    ),
    "groups": "query q() { match { $p: Person $p knows $f } return { $p.age, count($f) } }",
    "order": "query q() { match { $p: Person } return { $p } order { $p.bio desc } }",
    "optional": (
        "query q() { match { $p: Person optional { $p knows $f $f.age > 5 } } return { $p, $f } }"
    ),
    "counts": "query q() { match { $p: Person count { $p knows{1,2} $_ } > 3 } return { $p } }",
    "paths": "query q() { match { $p: Person $p knows{1,3} $f } return { path($p, $f) as way } }",
    "values": (
        "query q() { match { $p: Person $p knows $f $p.age + $f.age > 3 or $f.age in [1, 2] }"
        " return { upper($p.bio) as shout } }"
    ),
    "collected": (
        "query q() { match { $p: Person } return { $p.age, collect(distinct $p.bio) as all } }"
    ),
    "distinct": "query q() { match { $p: Person } return distinct { $p.bio } order { $p.bio } }",
}


def people() -> list[dict[str, object]]:
    return [
        {
            "name": f"p{number:03}",
            "age": number % 7,
            "bio": f"fox {number} " + "x" * 300,
            "vec": [1.0, number / 10],
        }
        for number in range(NUMBER)
    ]


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    made = shared.init(SCHEMA)
    fill(made, Person=people())
    edges = [
        {"src": f"p{at:03}", "dst": f"p{(at * step + 1) % NUMBER:03}", "since": at}
        for at in range(NUMBER)
        for step in (1, 2, 3, 5)
    ]
    fill(made, Knows=edges)
    return made


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_may_run_out_of_time_at_every_step_and_leaves_the_graph_as_it_was(
    graph: Graph, name: str
) -> None:
    wanted = graph.query(QUERIES[name]).to_arrow()
    clock = SteppedClock()
    request = request_of(graph, QUERIES[name])
    assert engine_at(graph, clock).query(request).to_arrow() == wanted
    assert clock.calls > 2
    late = 0
    for number in range(2, clock.calls + 1):
        try:
            found = engine_at(graph, SteppedClock(number)).query(request).to_arrow()
        except DeadlineExceeded as error:
            late += 1
            told = {"timeout_ms": 30_000, "phase": "query"}
            assert error.details == told  # noqa: PT017 - it may not be late
        else:
            assert found == wanted
    assert late
    assert graph.query(QUERIES[name]).to_arrow() == wanted


@pytest.mark.parametrize("share", thinned([0.01, 0.05, 0.001]))
def test_a_heavy_query_ends_when_its_time_is_up(graph: Graph, share: float) -> None:
    with pytest.raises(DeadlineExceeded):
        graph.query(HEAVY, timeout_s=share * quickest(graph, HEAVY))
    assert len(graph.query(EVERYBODY)) == NUMBER


def quickest(graph: Graph, source: str) -> float:
    """The seconds that the query takes here at the least: machines differ."""
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        graph.query(source)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def test_the_time_of_the_settings_holds_unless_a_request_gives_its_own(
    graph: Graph, shared: Opened
) -> None:
    short = shared.again(graph, QUERY_TIMEOUT_MS="1")
    with pytest.raises(DeadlineExceeded, match="OMNIGRAPH_QUERY_TIMEOUT_MS"):
        short.query(HEAVY)
    assert len(short.query(EVERYBODY, timeout_s=30)) == NUMBER
    assert len(short.query(EVERYBODY, timeout_s=0)) == NUMBER


# --- rows and memory --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limit", "rows"),
    [
        ("cross", 100, NUMBER),
        ("cross", NUMBER * NUMBER - 1, NUMBER * NUMBER),
        ("scan", NUMBER - 1, NUMBER),
        ("walk", 300, None),
        ("edges", 300, 4 * NUMBER),
        ("join", 300, None),
        ("optional", 150, None),
        ("paths", 300, None),
    ],
)
def test_a_match_with_too_many_rows_is_refused(
    graph: Graph, shared: Opened, name: str, limit: int, rows: int | None
) -> None:
    narrow = shared.again(graph, MAX_BINDING_ROWS=str(limit))
    with pytest.raises(ResourceLimit, match="OMNIGRAPH_MAX_BINDING_ROWS") as caught:
        narrow.query(QUERIES[name])
    details = caught.value.details
    assert details["resource"] == "query_binding_rows"
    assert details["limit"] == limit
    actual = details["actual"]
    assert isinstance(actual, int)
    assert actual > limit
    if rows is not None:
        assert actual == rows
    source = 'query q() { match { $p: Person { name: "p001" } } return { $p } }'
    assert len(narrow.query(source)) == 1


def test_exactly_as_many_rows_as_allowed_are_held(graph: Graph, shared: Opened) -> None:
    exact = shared.again(graph, MAX_BINDING_ROWS=str(NUMBER * NUMBER))
    assert len(exact.query(QUERIES["cross"])) == NUMBER * NUMBER


def test_a_cross_product_is_refused_before_it_is_built(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    fill(graph, Person=[{"name": f"p{at:05}"} for at in range(3_000)])
    match = "$a: Person $b: Person $c: Person $d: Person"
    source = f"query q() {{ match {{ {match} }} return {{ $a, $b, $c, $d }} }}"
    with pytest.raises(ResourceLimit, match="cross product") as caught:
        graph.query(source)
    assert caught.value.details == {
        "resource": "query_binding_rows",
        "limit": 5_000_000,
        "actual": 9_000_000,
    }


def test_a_limit_of_the_query_does_not_excuse_what_must_be_held(
    graph: Graph, shared: Opened
) -> None:
    narrow = shared.again(graph, MAX_BINDING_ROWS="500")
    with pytest.raises(ResourceLimit):
        narrow.query("query q() { match { $p: Person $q: Person } return { $p } limit 1 }")


@pytest.mark.parametrize(
    "name",
    ["filter", "text", "fuzzy", "order", "nearest", "values", "collected", "distinct"],
)
def test_a_query_that_takes_too_much_memory_is_refused(
    graph: Graph, shared: Opened, name: str
) -> None:
    narrow = shared.again(graph, QUERY_MEMORY_BYTES="600")
    with pytest.raises(ResourceLimit, match="OMNIGRAPH_QUERY_MEMORY_BYTES") as caught:
        narrow.query(QUERIES[name])
    assert caught.value.details["resource"] == "query_memory_bytes"
    assert caught.value.details["limit"] == 600
    wide = shared.again(graph, QUERY_MEMORY_BYTES="50000000")
    assert len(wide.query(QUERIES[name])) > 0


@pytest.mark.parametrize(
    ("clauses", "count"),
    [
        ("$p.vec is null", 1),
        ("$p.vec is not null", 3_000),
        ("not ($p.tags is null) or $p.vec is null", 3_000),
        ("$p.tags is null $p.vec is not null", 1),
    ],
)
def test_a_test_for_null_reads_no_vector_and_no_list(
    graphs: Opened, clauses: str, count: int
) -> None:
    """The vectors take 768,000 bytes, the lists some more."""
    graph = graphs.init("node P { k: String @key  vec: Vector(64)?  tags: [String]? }")
    rows = [{"vec": [1.0] * 64, "tags": ["x" * 100] * 2}] * 2_999
    rows += [{"vec": None, "tags": ["x"]}, {"vec": [1.0] * 64, "tags": None}]
    fill(graph, P=[{"k": f"p{number}", **row} for number, row in enumerate(rows)])
    narrow = graphs.again(graph, QUERY_MEMORY_BYTES="200000")
    source = f"query q() {{ match {{ $p: P {clauses} }} return {{ count($p) as n }} }}"
    assert narrow.query(source).to_dicts() == [{"n": count}]
    assert "in memory" not in str(narrow.explain(source))


LARGE_TEXTS = """
import resource, sys, tempfile
from pathlib import Path
import pyarrow as pa
from omnigraph import Graph
from omnigraph.errors import ResourceLimit
from omnigraph.settings import load_settings

settings = load_settings(
    {"OMNIGRAPH_DURABILITY": "process", "OMNIGRAPH_QUERY_MEMORY_BYTES": "20000000"}
)
with tempfile.TemporaryDirectory() as folder:
    schema = "node P { k: String @key  bio: String  tags: [String]? }"
    with Graph.init(Path(folder) / "g", schema=schema, settings=settings) as graph:
        with graph.write() as writer:
            bios = [f"{at} " + "x" * 300 for at in range(800)]
            writer.append("P", pa.table({"k": [f"p{at:04}" for at in range(800)], "bio": bios}))
            writer.commit()
        graph.query("query q() { match { $a: P } return { $a.bio } }")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            source = f"query q($long: [String]) {{ {sys.argv[1]} }}"
            graph.query(source, params={"long": ["x" * 300]})
        except ResourceLimit as error:
            assert error.details["resource"] == "query_memory_bytes", error.details
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize(
    "query",
    thinned(
        [
            "match { $a: P $b: P $a.bio < $b.bio } return { count($a) as n }",
            "match { $a: P $b: P } return { $a.k, collect($b.bio) as c }",
            "match { $a: P $b: P } return { $a.k, upper($b.bio) as u, $b.bio }",
            "match { $a: P $b: P $a.k != $b.k } return { $a } order { $b.bio } limit 1",
            "match { $a: P $b: P } return { $a.bio, count($b.bio) as n, max($b.bio) as m }",
            "match { $a: P $b: P } return distinct { $a.k, $b.bio }",
            "match { $a: P $b: P } return { $a.k, coalesce($b.tags, $long) as l }",
        ],
        keep=3,
    ),
    ids=["filter", "collect", "values", "order", "groups", "distinct", "constants"],
)
def test_texts_of_many_rows_are_refused_or_never_held(query: str) -> None:
    """A text of each of the 640,000 rows takes 190 megabytes, and 20 are allowed."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE_TEXTS, query], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert int(done.stdout) < 150, "megabytes"


def test_errors_of_budgets_carry_json_values() -> None:
    budget = Budget(clock=SteppedClock(), timeout_ms=0, max_rows=5, memory_bytes=10)
    with pytest.raises(ResourceLimit) as rows:
        budget.require_rows(6, "a walk")
    assert rows.value.details == {"resource": "query_binding_rows", "limit": 5, "actual": 6}
    with pytest.raises(ResourceLimit) as size:
        budget.require_bytes(11, "a read")
    assert size.value.details == {"resource": "query_memory_bytes", "limit": 10, "actual": 11}
    budget.require_rows(5, "a walk")
    budget.require_bytes(10, "a read")


# --- cancellation -----------------------------------------------------------------------------


def request_of(graph: Graph, source: str, token: CancelToken | None = None) -> QueryRequest:
    return QueryRequest(
        source=source,
        snapshot=graph.snapshot(),
        target=QueryTarget(branch="main", snapshot=None),
        token=token,
    )


@pytest.mark.parametrize("name", QUERIES)
def test_a_cancelled_query_does_not_start(graph: Graph, name: str) -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        graph._engine.query(request_of(graph, QUERIES[name], token))
    assert len(graph.query(QUERIES[name])) > 0


def test_another_thread_ends_a_running_query(graph: Graph) -> None:
    token = CancelToken()
    ended: list[BaseException] = []
    started = threading.Event()

    def run() -> None:
        request = request_of(graph, QUERIES["walk"], token)
        started.set()
        try:
            while True:
                graph._engine.query(request)
        except OmnigraphError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(10)
    token.cancel()
    thread.join(30)
    assert not thread.is_alive()
    assert [type(each) for each in ended] == [Cancelled]
    assert len(graph.query(EVERYBODY)) == NUMBER


# --- what is asked ----------------------------------------------------------------------------


@pytest.fixture
def small(graphs: Opened) -> Graph:
    graph = graphs.init(SCHEMA)
    fill(graph, Person=[{"name": "ann", "age": 1}])
    return graph


def test_a_branch_and_a_snapshot_together_are_refused(small: Graph) -> None:
    head = small.snapshot().graph_commit_id
    with pytest.raises(InvalidArgument, match="not both"):
        small.query(EVERYBODY, branch="main", snapshot=head)


def test_an_unknown_branch_or_commit_is_not_found(small: Graph) -> None:
    with pytest.raises(BranchNotFound, match="nope"):
        small.query(EVERYBODY, branch="nope")
    with pytest.raises(CommitNotFound, match="01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        small.query(EVERYBODY, snapshot="01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize(
    ("source", "name", "reason"),
    [
        ('query m() { insert Person { name: "x" } }', None, "use_mutate"),
        ("query m() { delete Person where age > 1 }", "m", "use_mutate"),
        (f"{EVERYBODY} {EVERYBODY.replace('q()', 'r()')}", None, "query_name_required"),
        (EVERYBODY, "other", "query_not_found"),
    ],
)
def test_a_source_without_the_asked_query_is_refused(
    small: Graph, source: str, name: str | None, reason: str
) -> None:
    with pytest.raises(QuerySelectionError) as caught:
        small.query(source, name)
    assert caught.value.details["reason"] == reason


def test_the_named_query_of_a_source_runs(small: Graph) -> None:
    source = f"{EVERYBODY} query count() {{ match {{ $p: Person }} return {{ count($p) }} }}"
    result = small.query(source, "count")
    assert result.query_name == "count"
    assert result.to_dicts() == [{"count": 1}]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (None, "parameter_missing"),
        ({}, "parameter_missing"),
        ({"age": None}, "parameter_null"),
        ({"age": 1, "agee": 2}, "parameter_unknown"),
        ({"age": "one"}, "parameter_type"),
        ({"age": 1.5}, "parameter_type"),
        ({"age": 2**31}, "parameter_type"),
        ({"age": 1, "__now": 5}, "reserved_parameter"),
    ],
)
def test_parameters_are_checked_before_anything_is_read(
    small: Graph, params: dict[str, object] | None, reason: str
) -> None:
    source = "query q($age: I32) { match { $p: Person { age: $age } } return { $p } }"
    with pytest.raises(ParameterError) as caught:
        small.query(source, params=params)
    assert caught.value.details["reason"] == reason
    assert len(small.query(source, params={"$age": "1"})) == 1


def test_a_query_that_does_not_check_reports_all_its_findings(small: Graph) -> None:
    source = "query q() { match { $p: Persn $q: Person $q.agee > 1 } return { $q.x } }"
    with pytest.raises(QueryInvalid) as caught:
        small.query(source)
    assert caught.value.details["total"] == 3


def test_an_executor_that_there_is_not_is_refused(small: Graph) -> None:
    with pytest.raises(InvalidArgument) as caught:
        small.query(EVERYBODY, executor="magic")  # type: ignore[arg-type]  # it is no executor
    assert caught.value.details["argument"] == "executor"
    assert first_of(ask(small, "$p: Person", "$p")) == ["ann"]
