"""Plans: what they say before a query runs, and what was measured when it did."""

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.errors import InvalidArgument, ParameterError, QuerySelectionError
from omnigraph.graph.query.plan import Plan

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key  age: I32? @index  bio: String? @index
  note: String?  vec: Vector(2)? @index }
node City implements Named { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""


@pytest.fixture(scope="module")
def graph(shared: Opened) -> Graph:
    graph = shared.init(SCHEMA)
    names = [f"p{number:02d}" for number in range(30)]
    with graph.write() as write:
        write.append(
            "Person",
            pa.table(
                {
                    "name": names,
                    "age": pa.array(range(30), pa.int32()),
                    "bio": ["red fox"] * 30,
                    "vec": pa.array([[1, 0]] * 30, pa.list_(pa.float32(), 2)),
                }
            ),
        )
        write.append("City", pa.table({"name": ["rome"]}))
        write.append("Knows", pa.table({"src": names[:-1], "dst": names[1:]}))
        write.append("LivesIn", pa.table({"src": names[:10], "dst": ["rome"] * 10}))
        write.commit()
    graph.maintenance.ensure_indices()
    return graph


def plan_of(
    graph: Graph,
    body: str,
    *,
    head: str = "",
    **options: Any,  # noqa: ANN401 - as `explain` takes them
) -> Plan:
    return graph.explain(f"query q({head}) {{ {body} }}", **options)


def test_a_scan_shows_its_columns_filters_indexes_and_estimate(graph: Graph) -> None:
    plan = plan_of(
        graph, 'match { $p: Person  $p.age > 3  $p.note contains "x" } return { $p.bio }'
    )
    (scan,) = plan.ops
    assert scan == {
        "op": "NodeScan",
        "var": "p",
        "type": "Person",
        "est_rows": 3,
        "columns": ["id", "age", "bio", "note"],
        "filters": [
            {"text": "p.age > 3", "pushed": True, "index": "age BTREE", "coverage": 1.0},
            {"text": 'p.note contains "x"', "pushed": False},
        ],
    }
    assert plan.order == ("p.id",)
    assert plan.limit is None


def test_an_interface_shows_the_scan_of_each_type(graph: Graph) -> None:
    query = 'match { $x: Named { name: "rome" }  type($x) = "City" } return { $x.name }'
    plan = plan_of(graph, query)
    (scan,) = plan.ops
    of_type = {"text": 'type(x) = "City"', "pushed": True}
    by_name = {"text": 'x.name = "rome"', "pushed": True}
    assert scan["filters"] == [by_name, of_type]
    assert scan["columns"] == ["id", "name"]
    assert [(each["type"], each["est_rows"]) for each in scan["types"]] == [
        ("City", 1),
        ("Person", 1),
    ]
    indexed = by_name | {"index": "name BTREE", "coverage": 1.0}
    assert [each["filters"] for each in scan["types"]] == [[indexed, of_type]] * 2
    assert plan.order == ("x.id", "type(x)")
    lines = str(plan).splitlines()
    assert lines[1:3] == [
        "  scan Named as x reading id, name (about 2 rows)",
        "    scan City as x reading id, name (about 1 row)",
    ]


def test_searches_of_an_interface_and_of_optional_variables_are_shown(graph: Graph) -> None:
    plan = plan_of(
        graph,
        'match { $x: Named search($x.name, "a")  optional { $p: Person  $p.name = $x.name } }'
        ' return { bm25($p.bio, "b") as score }',
    )
    assert [call["property"] for call in plan.search] == ["Person.bio", "City.name", "Person.name"]


def test_a_key_leads_to_one_row_and_a_walk_says_why_it_goes_its_way(graph: Graph) -> None:
    plan = plan_of(
        graph,
        "match { $p: Person { name: $n }  $p knows{1,2} $f } return { $f.name }",
        head="$n: String",
    )
    scan, walk = plan.ops
    assert scan["est_rows"] == 1
    assert (walk["edge"], walk["direction"], walk["hops"]) == ("Knows", "out", [1, 2])
    assert (walk["mode"], walk["why"]["coverage"]) == ("indexed", 1.0)
    assert walk["why"]["frontier_rows"] == 1
    assert walk["why"]["edge_rows"] == 29
    assert walk["why"]["csr_cost"] == 43.5


def test_a_plan_is_made_of_nothing_that_was_run(graph: Graph) -> None:
    body = 'match { $p: Person } return { $p.name } order { nearest($p.vec, "text") } limit 2'
    plan = plan_of(graph, body)
    assert plan.search == (
        {
            "kind": "nearest",
            "property": "Person.vec",
            "mode": "exact",
            "index": "IVF_FLAT",
            "coverage": 1.0,
        },
    )
    assert "rows" not in plan.ops[0]
    assert plan.measured == {}


def test_text_calls_show_their_index_and_what_is_copied(graph: Graph) -> None:
    plan = plan_of(
        graph,
        'match { $p: Person  search($p.note, "a")  fuzzy($p.bio, "b") }'
        ' return { $p.name, bm25($p.bio, "c") as s }',
    )
    by_kind = {each["kind"]: each for each in plan.search}
    assert by_kind["search"]["text"] == "ephemeral"
    assert by_kind["fuzzy"]["text"] == "scan"
    assert (by_kind["bm25"]["text"], by_kind["bm25"]["statistics"]) == ("index", "exact")
    assert any(each.startswith("L202") for each in plan.warnings)


def test_a_cross_product_is_warned_of(graph: Graph) -> None:
    plan = plan_of(graph, "match { $p: Person  $q: Person } return { $p.name, $q.age }")
    assert "cross product of $p and $q: est 900 rows" in plan.warnings
    assert any(each.startswith("L205") for each in plan.warnings)


def test_the_order_is_total_and_shown_whole(graph: Graph) -> None:
    plan = plan_of(
        graph,
        "match { $p: Person  $p $k:knows $f } return { $p.name, $f.name } order { $p.age desc }"
        " limit 3",
    )
    assert plan.order == ("p.age desc", "f.id", "k.id", "p.id")
    assert plan.ops[1]["mode"] == "edges"
    grouped = plan_of(
        graph, "match { $p: Person } return { $p.age, count($p) as n } order { n desc }"
    )
    assert grouped.order == ("n desc", "p.age")


def test_analyze_runs_the_query_and_adds_what_was_measured(graph: Graph) -> None:
    plan = plan_of(
        graph,
        "match { $p: Person  $p.age < 5  $p knows $f  not { $f livesIn $_ } } return { $f.name }",
        analyze=True,
    )
    assert [op["op"] for op in plan.ops] == ["NodeScan", "Expand", "AntiJoin"]
    assert [op["rows"] for op in plan.ops] == [5, 5, 0]
    assert all(op["elapsed_ms"] >= 0 for op in plan.ops)
    assert plan.measured["rows"] == 0


def test_what_comes_after_the_match_is_shown(graph: Graph) -> None:
    plan = plan_of(
        graph,
        """match { $p: Person $p knows $f }
        return { $p.bio, count { $p livesIn $c $c.name = "rome" } as homes,
          count(distinct $f.age) as ages }
        having { ages > $n or homes = 0 } order { ages desc } limit 3 offset 2""",
        head="$n: I64",
        params={"n": 1},
    )
    found = json.loads(plan.to_json())
    block = 'count { p out LivesIn c, c.name = "rome" }'
    assert found["groups"] == {
        "by": ["p.bio", f"{block} as homes"],
        "aggregates": ["count(distinct f.age) as ages"],
    }
    assert found["having"] == ["ages > $n or homes = 0"]
    assert (found["limit"], found["offset"]) == (3, 2)
    assert "distinct" not in found
    (counted,) = found["counts"]
    assert counted["text"] == block
    assert [step["op"] for step in counted["inner"]] == ["Expand"]
    lines = str(plan).splitlines()
    assert lines[0] == "q on local; order ages desc, p.bio, homes; limit 3; offset 2"
    at = lines.index("  count for each row")
    assert lines[at + 1].startswith("    expand p LivesIn out to c")
    assert lines[-2] == f"  group by p.bio, {block} as homes: count(distinct f.age) as ages"
    assert lines[-1] == "  having ages > $n or homes = 0"


def test_distinct_rows_and_one_group_are_shown(graph: Graph) -> None:
    distinct = plan_of(graph, "match { $p: Person } return distinct { $p.bio }")
    assert json.loads(distinct.to_json())["distinct"] is True
    assert str(distinct).splitlines()[0] == "q on local; distinct; order p.bio"
    total = plan_of(graph, "match { $p: Person } return { count($p) as n, max($p.age) as oldest }")
    assert str(total).splitlines()[-1] == "  one group: count(p.id) as n, max(p.age) as oldest"


def test_the_json_is_that_of_the_contract_and_the_text_a_tree(graph: Graph) -> None:
    plan = plan_of(graph, "match { $p: Person  not { $p livesIn $c } } return { $p.name }")
    found = json.loads(plan.to_json())
    assert set(found) == {
        "query", "snapshot", "executor", "ops", "search", "order", "limit", "warnings",
    }  # fmt: skip
    head = graph.snapshot().graph_commit_id
    assert found["snapshot"] == {"branch": "main", "graph_commit_id": head}
    assert found["ops"][1]["inner"][0]["op"] == "Expand"
    lines = str(plan).splitlines()
    assert lines[0] == "q on local; order p.id"
    assert lines[1] == "  scan Person as p reading id, name (about 30 rows)"
    assert lines[2].startswith("  where not")
    assert lines[3].startswith("    expand p LivesIn out to c")


def test_parameters_are_checked_when_given_and_needed_to_run(graph: Graph) -> None:
    body = "match { $p: Person  $p.age > $least } return { $p.name }"
    (scan,) = plan_of(graph, body, head="$least: I32").ops
    assert scan["filters"][0]["text"] == "p.age > $least"
    with pytest.raises(ParameterError):
        plan_of(graph, body, head="$least: I32", params={"other": 1})
    with pytest.raises(ParameterError):
        plan_of(graph, body, head="$least: I32", analyze=True)


def test_what_cannot_be_explained_is_refused(graph: Graph) -> None:
    with pytest.raises(QuerySelectionError):
        plan_of(graph, "delete Person where age > 1")
    with pytest.raises(InvalidArgument, match="not both"):
        plan_of(graph, "match { $p: Person } return { $p }", branch="main", snapshot="main@x")
    with pytest.raises(InvalidArgument, match="a plan for Spark is not measured"):
        plan_of(graph, "match { $p: Person } return { $p }", executor="spark", analyze=True)
    with pytest.raises(InvalidArgument, match="'auto', 'local' or 'spark'"):
        plan_of(graph, "match { $p: Person } return { $p }", executor="sprak")
