"""A literal fitted to the type of its column is answered by the index of the column."""

import datafusion
import lance
import pytest
from tests.unit.engine import values
from tests.unit.engine.graphs import Opened, fill, index

from omnigraph import Graph
from omnigraph.graph.query.pushdown import push_filters
from omnigraph.lang import ir
from omnigraph.storage.handles import TableHandle
from omnigraph.storage.predicates import Predicate, to_datafusion
from omnigraph.storage.reading import scanner_filter


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    # A list of unsigned numbers closes the way through the scanner for the whole table.
    schema = values.declare(indexed=True).replace("  u32s: [U32]?\n  u64s: [U64]?\n", "")
    made = shared.init(schema)
    listed = [
        {name: cell for name, cell in row.items() if name not in ("u32s", "u64s")}
        for row in values.rows()
    ]
    fill(made, Row=listed, Hub=[{"key": "hub"}], Has=values.edges())
    index(made)
    return made


def handle_of(graph: Graph) -> TableHandle:
    snapshot = graph.snapshot()
    return snapshot.handle(snapshot.type("Row"))


def predicate_of(graph: Graph, condition: str) -> Predicate:
    source = f"query q() {{ match {{ $r: Row {condition} }} return {{ $r }} }}"
    request = graph._request(source, None, None, None, None, None)
    query = graph._engine.compile(request).ir
    (scan,) = query.ops
    assert isinstance(scan, ir.NodeScan)
    pushed = push_filters(scan.filters, {})
    assert pushed.rest == ()
    assert pushed.predicate is not None
    return pushed.predicate


@pytest.mark.parametrize(
    "condition",
    [
        *("$r.i32 = 5", "$r.i32 < 5", "$r.i32 >= 4.5", "$r.i32 = 5.0", "$r.i32 <= -0.5"),
        *("$r.i64 = 9007199254740993", "$r.i64 > 9007199254740992.5", "$r.i64 <= 5", "5 > $r.i64"),
        *("$r.f32 = 0.1", "$r.f32 < 0.1", "$r.f32 <= 1", "$r.f32 > 0.1", "$r.f32 >= 16777217"),
        *("$r.f64 = 0.1", "$r.f64 < 5", "$r.f64 >= 9007199254740993"),
        *('$r.word = "a"', '$r.word < "b"', '$r.word >= "b"', '$r.word starts_with "a_"'),
        *('$r.level = "low"', "$r.flag = true", '$r.key = "r01"', '$r.key starts_with "r0"'),
        *('$r.day = date("1970-01-01")', '$r.day < date("2024-01-01")'),
        *('$r.at = datetime("1970-01-01")', '$r.at >= datetime("2024-01-01T00:00:00Z")'),
        '$r.word >= "a" $r.i32 > 0',
    ],
)
def test_the_scanner_answers_a_fitted_literal_by_an_index(graph: Graph, condition: str) -> None:
    handle = handle_of(graph)
    expression = scanner_filter(handle, predicate_of(graph, condition))
    assert expression is not None
    plan = handle.dataset.scanner(columns=["id"], filter=expression).explain_plan()
    assert "ScalarIndexQuery" in plan
    # Nothing is left for a filter behind the index.
    assert "full_filter=--" in plan or "FilterExec" not in plan


@pytest.mark.parametrize(
    "condition",
    [
        *("$r.u32 = 5", "$r.u32 < 4294967295", "$r.u32 >= 4.5"),
        *("$r.u64 = 9007199254740993", "$r.u64 > 9007199254740992.5", "$r.u64 <= 5.0"),
        *("$r.i64 < 5", "$r.f32 < 0.1", '$r.word starts_with "a"'),
    ],
)
def test_datafusion_answers_a_fitted_literal_by_an_index(graph: Graph, condition: str) -> None:
    handle = handle_of(graph)
    predicate = to_datafusion(predicate_of(graph, condition), handle.layout.columns)
    session = datafusion.SessionContext()
    frame = session.read_table(lance.FFILanceTableProvider(handle.dataset)).filter(predicate)
    plan = frame.select("id").execution_plan().display_indent()
    assert "ScalarIndexExec" in plan or "ScalarIndexQuery" in plan
