"""Applying a schema: what is refused, what ids and names mean, and who else may be at work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    committed,
    killed_at,
    listing,
    once,
    require_settled,
)
from tests.unit.graph.schema_apply.evolving import BEFORE, content, fill, person

from omnigraph.errors import (
    BranchBusy,
    InvalidArgument,
    ReadOnlyGraph,
    ReadSetChanged,
    SchemaApplyBlocked,
    SchemaInvalid,
    SchemaRefused,
)
from omnigraph.failpoints import armed
from omnigraph.graph.schema_apply import apply as apply_module
from omnigraph.graph.validation import stored_rows
from omnigraph.lang import compile_schema, plan_migration

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph import Graph

P = "node P { k: String @key }"
PX = "node P { k: String @key  x: I32? }"


def _values(graph: Graph, name: str) -> dict[str, object]:
    rows = graph.query(f"query q() {{ match {{ $p: P }} return {{ $p.k, $p.{name} }} }}")
    return {str(row["p.k"]): row[f"p.{name}"] for row in rows}


def _told(refused: SchemaRefused) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", refused.details["diagnostics"])  # cast: JSON


def _add(graph: Graph, key: str, **values: int) -> None:
    given = "".join(f", {name}: {value}" for name, value in values.items())
    graph.mutate(f'query add() {{ insert P {{ k: "{key}"{given} }} }}')


# --- refusals ---------------------------------------------------------------------------------

REFUSED = {
    "OG-MF-103": person("level: I64"),
    "OG-MF-104": person(age="I32"),
    "OG-MF-106": person(age="I64?"),
    "OG-MF-108": person(name="String", email="String @key"),
    "OG-ED-101": BEFORE.replace("Knows: Person -> Person", "Knows: Person -> City"),
    "OG-RN-101": person('years: I32? @rename_from("old")'),
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_step_that_cannot_be_done_refuses_the_whole_schema(graphs: Opened, code: str) -> None:
    graph = graphs.init(BEFORE)
    fill(graph)
    before = listing(graphs.root)
    with pytest.raises(SchemaRefused, match=code) as refused:
        graph.schema.apply(f"{REFUSED[code]}\nnode Other {{}}")
    assert code in {item["code"] for item in _told(refused.value)}
    assert listing(graphs.root) == before, "nothing was written"


def _indexed(graph: Graph, name: str) -> set[str | None]:
    """The properties of a type that have an index."""
    snapshot = graph.snapshot()
    handle = snapshot.handle(snapshot.type(name))
    return {index.property_name for index in graph._graph.tables.index_coverage(handle)}


EMBEDDED = "node Doc {{ slug: String @key  title: String?  body: String?  vec: Vector(2)? {} }}"


@pytest.mark.parametrize("wanted", ['@embed(title, model="m")', '@embed(body, model="other")'])
def test_the_source_and_the_model_of_an_embedding_cannot_be_changed(
    graphs: Opened, wanted: str
) -> None:
    graph = graphs.init(EMBEDDED.format('@embed(body, model="m")'))
    before = listing(graphs.root)
    plan = graph.schema.plan(EMBEDDED.format(wanted))
    assert not plan.supported
    with pytest.raises(SchemaRefused, match="OG-VE-101") as refused:
        graph.schema.apply(plan)
    assert {item["code"] for item in _told(refused.value)} == {"OG-VE-101"}
    assert listing(graphs.root) == before, "nothing was written"


def test_an_index_that_is_dropped_is_removed_by_the_next_build(graphs: Opened) -> None:
    graph = graphs.init(BEFORE)
    fill(graph)
    graph.maintenance.ensure_indices()
    rows, built = content(graph), _indexed(graph, "City")
    assert "size" in built
    graph.schema.apply(BEFORE.replace("I32 @index", "I32"))
    graph.maintenance.ensure_indices()
    assert _indexed(graph, "City") == built - {"size"}
    assert content(graph) == rows
    assert graph.maintenance.ensure_indices().commit is None


RULES = {
    "@unique(email)": ["p1", "p2"],
    "@range(age, 0..40)": ["p0", "p1", "p2", "p8"],
    '@check(email, "^m")': ["p9"],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows_per_pass", [1_000, 3])
def test_rows_that_break_a_new_rule_refuse_it_with_their_number_and_examples(
    graphs: Opened, monkeypatch: pytest.MonkeyPatch, rule: str, rows_per_pass: int
) -> None:
    monkeypatch.setattr(stored_rows, "ROWS_PER_PASS", rows_per_pass)
    graph = graphs.init(person())
    given = [
        {"name": f"p{number}", "age": 10 * (number - 3), "email": f"m{max(number, 2)}"}
        for number in range(9)
    ]
    with graph.write() as writer:
        writer.append("Person", pa.Table.from_pylist([*given, {"name": "p9", "email": "x"}]))
        committed(writer.commit())
    plan = graph.schema.plan(person(rule))
    assert (plan.supported, plan.steps[0].code) == (True, "OG-MF-107"), "the scan decides"
    with pytest.raises(SchemaRefused, match="OG-MF-107") as refused:
        graph.schema.apply(plan)
    (told,) = _told(refused.value)
    examples = [item["entity_id"] for item in told["examples"]]
    assert examples == RULES[rule]
    assert told["count"] == len(examples)
    assert content(graph)["Person"][0]["name"] == "p0"


def test_many_violations_are_counted_and_twenty_are_shown(graphs: Opened) -> None:
    graph = graphs.init(PX)
    with graph.write() as writer:
        rows = [{"k": f"k{number:03d}", "x": -1} for number in range(50)]
        writer.append("P", pa.Table.from_pylist(rows))
        committed(writer.commit())
    with pytest.raises(SchemaRefused) as refused:
        graph.schema.apply("node P { k: String @key  x: I32?  @range(x, 0..) }")
    (told,) = _told(refused.value)
    assert (told["count"], len(told["examples"])) == (50, 20)


def test_a_cardinality_is_held_against_the_edges(graphs: Opened) -> None:
    graph = graphs.init(BEFORE)
    fill(graph)
    once_only = BEFORE.replace("Knows: Person -> Person {", "Knows: Person -> Person @card(0..1) {")
    with pytest.raises(SchemaRefused, match=r"@card.*1 violation.*'ada'"):
        graph.schema.apply(once_only)


def test_a_new_property_is_checked_with_the_default_that_rows_get(graphs: Opened) -> None:
    graph = graphs.init(P)
    _add(graph, "a")
    wanted = "node P { k: String @key  n: I32 @default(1)  @unique(n) }"
    assert graph.schema.apply(wanted).applied, "one row is unique"
    _add(graph, "b", n=2)
    wanted = "node P { k: String @key  n: I32  m: I32 @default(1)  @unique(m) }"
    with pytest.raises(SchemaRefused, match=r"@unique\(m\).*1 violation"):
        graph.schema.apply(wanted)


def test_a_schema_that_does_not_compile_changes_nothing(graphs: Opened) -> None:
    graph = graphs.init(P)
    for call in (graph.schema.plan, graph.schema.apply):
        with pytest.raises(SchemaInvalid):
            call("node {")


def test_a_read_only_graph_plans_and_does_not_apply(graphs: Opened) -> None:
    graphs.init(P)
    reader = graphs.read_only()
    assert reader.schema.plan(PX).supported
    with pytest.raises(ReadOnlyGraph):
        reader.schema.apply(PX)


def test_other_branches_are_named_and_block_the_schema(graphs: Opened) -> None:
    graph = graphs.init(P)
    graph.branches.create("b")
    graph.branches.create("a")
    with pytest.raises(SchemaApplyBlocked, match="a, b") as blocked:
        graph.schema.apply(PX)
    assert blocked.value.details["branches"] == ["a", "b"]
    assert not graph.schema.apply(P).applied, "what changes nothing is not in anybody's way"
    graph.branches.delete("a")
    graph.branches.delete("b")
    assert graph.schema.apply(PX).applied


# --- plans ------------------------------------------------------------------------------------


def test_a_plan_of_another_schema_is_refused(graphs: Opened) -> None:
    graph = graphs.init(P)
    plan = graph.schema.plan("node P { k: String @key  y: I32? }")
    graph.schema.apply(PX)
    with pytest.raises(ReadSetChanged, match="plan again") as refused:
        graph.schema.apply(plan)
    assert refused.value.details["member"] == "schema"


def test_a_plan_is_bound_to_a_graph_and_to_what_it_may_lose(graphs: Opened) -> None:
    graph = graphs.init(PX)
    loose = plan_migration(compile_schema(PX), compile_schema(P))
    with pytest.raises(InvalidArgument, match=r"graph\.schema\.plan"):
        graph.schema.apply(loose)
    with pytest.raises(InvalidArgument, match="allow_data_loss"):
        graph.schema.apply(graph.schema.plan(P), allow_data_loss=True)


# --- identity ---------------------------------------------------------------------------------


def test_a_chain_of_renames_keeps_rows_ids_and_history(graphs: Opened) -> None:
    graph = graphs.init(PX)
    _add(graph, "a", x=1)
    first = graph.snapshot()
    for old, new in (("x", "y"), ("y", "z")):
        graph.schema.apply(f'node P {{ k: String @key  {new}: I32? @rename_from("{old}") }}')
    graph.schema.apply('node Q @rename_from("P") { k: String @key  z: I32? @rename_from("y") }')
    graph.schema.apply('node R @rename_from("Q") { k: String @key  z: I32? }\nnode P {}')
    (row,) = graph.snapshot().scan("R").read_all().to_pylist()
    assert row == {"id": "a", "k": "a", "z": 1}
    assert graph.snapshot().count("P") == 0, "the old name is free"
    assert first.scan("P").read_all().to_pylist() == [{"id": "a", "k": "a", "x": 1}]
    catalog = graph.schema.catalog
    assert (catalog.node_types["R"].type_id, catalog.node_types["P"].type_id) == (1, 2)
    assert catalog.node_types["R"].properties["z"].column == "x"


def test_names_that_move_between_columns_are_not_mixed_up_by_a_cache(graphs: Opened) -> None:
    graph = graphs.init("node P { k: String @key  a: String?  b: String? }")
    graph.mutate('query q() { insert P { k: "1", a: "wolf", b: "fox" } }')
    query = 'query q() {{ match {{ $p: P  search($p.{0}, "fox") }} return {{ $p.k }} }}'
    assert len(graph.query(query.format("a"))) == 0, "the texts of a are kept in memory"
    graph.schema.apply('node P { k: String @key  c: String? @rename_from("a")  b: String? }')
    graph.schema.apply('node P { k: String @key  c: String?  a: String? @rename_from("b") }')
    assert len(graph.query(query.format("a"))) == 1
    assert len(graph.query(query.format("c"))) == 0


def test_a_dropped_name_that_comes_back_is_something_new(graphs: Opened) -> None:
    graph = graphs.init(PX)
    _add(graph, "a", x=1)
    graph.schema.apply(P)
    _add(graph, "b")
    graph.schema.apply(PX)
    assert _values(graph, "x") == {"a": None, "b": None}
    prop = graph.schema.catalog.node_types["P"].properties["x"]
    assert (prop.property_id, prop.column) == (3, "x__3")
    _add(graph, "c", x=2)
    graph.schema.apply(P)
    graph.schema.apply(PX)
    assert _values(graph, "x") == {"a": None, "b": None, "c": None}


def test_a_dropped_type_that_comes_back_has_another_table_and_a_new_id(graphs: Opened) -> None:
    graph = graphs.init(P)
    assert graph.schema.catalog.node_types["P"].type_id == 1
    for number in range(2, 4):
        graph.schema.apply(f"{P}\nnode T {{ k: String @key }}")
        graph.mutate('query q() { insert T { k: "a" } }')
        assert graph.schema.catalog.node_types["T"].type_id == number, "never given twice"
        graph.schema.apply(P)
    graph.schema.apply(f"{P}\nnode T {{ k: String @key }}")
    assert graph.snapshot().count("T") == 0
    assert graph.snapshot(at=2).count("T") == 1


def test_a_text_index_works_before_it_is_trained_and_after(graphs: Opened) -> None:
    graph = graphs.init("node P { k: String @key  t: String? }")
    graph.mutate('query q() { insert P { k: "1", t: "Running Wolves" } }')
    graph.schema.apply("node P { k: String @key  t: String? @index }")
    query = 'query q() { match { $p: P  search($p.t, "run") } return { $p.k } }'
    assert len(graph.query(query)) == 1
    assert "ephemeral" not in str(graph.explain(query))
    graph.maintenance.ensure_indices()
    assert len(graph.query(query)) == 1


@pytest.mark.parametrize("after", [P, PX])
def test_an_index_that_nobody_declares_any_more_is_in_no_ones_way(
    graphs: Opened, after: str
) -> None:
    graph = graphs.init("node P { k: String @key  x: I32? @index }")
    for key in "ab":
        _add(graph, key, x=1)
    graph.maintenance.ensure_indices()
    graph.schema.apply(after)
    _add(graph, "c")
    graph.maintenance.optimize()
    assert graph.snapshot().count("P") == len(graph.snapshot().scan("P").read_all()) == 3
    require_settled(graph)


@pytest.mark.parametrize("after", [P, PX])
def test_the_next_build_removes_an_index_that_nobody_declares_any_more(
    graphs: Opened, after: str
) -> None:
    graph = graphs.init("node P { k: String @key  x: I32? @index }")
    _add(graph, "a", x=1)
    graph.maintenance.ensure_indices()
    graph.schema.apply(after)
    assert graph.maintenance.ensure_indices().commit is not None
    snapshot = graph.snapshot()
    handle = snapshot.handle(snapshot.type("P"))
    names = {index.name for index in graph._graph.tables.index_coverage(handle)}
    assert names == {"ix_id", "ix_1_btree", "ix_1_inverted"}
    assert graph.maintenance.ensure_indices().commit is None


# --- beside others ----------------------------------------------------------------------------


def test_writers_that_are_faster_make_an_apply_prepare_again(graphs: Opened) -> None:
    graph, other = graphs.init(PX), graphs.open()
    _add(graph, "a", x=1)
    wanted = "node P { k: String @key  x: I32?  n: I32 @default(5) }"
    with armed("schema_apply.post_stage_pre_lease", once(lambda: _add(other, "b", x=2))):
        assert graph.schema.apply(wanted).applied
    assert _values(graph, "n") == {"a": 5, "b": 5}
    require_settled(graph)


def test_a_row_that_breaks_the_rule_meanwhile_refuses_it(graphs: Opened) -> None:
    graph, other = graphs.init(PX), graphs.open()
    _add(graph, "a", x=1)
    wanted = "node P { k: String @key  x: I32?  @range(x, 0..) }"
    with (
        armed("schema_apply.post_stage_pre_lease", once(lambda: _add(other, "b", x=-2))),
        pytest.raises(SchemaRefused, match="'b'"),
    ):
        graph.schema.apply(wanted)


def test_writers_wait_for_an_apply_that_was_overtaken_too_often(graphs: Opened) -> None:
    graph, other = graphs.init(PX), graphs.open(LEASE_WAIT_MS="50")
    keys = iter("abcdef")
    waited = []

    def overtake() -> None:
        try:
            _add(other, next(keys))
        except BranchBusy:
            waited.append(True)

    with armed("schema_apply.post_stage_pre_lease", overtake):
        assert graph.schema.apply(P).applied
    assert (waited, graph.snapshot().count("P")) == ([True], apply_module.OVERTAKEN)
    require_settled(graph)


def test_an_apply_that_never_lands_says_so(graphs: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_module, "ATTEMPTS", 2)
    graph, other = graphs.init(PX), graphs.open()
    keys = iter("abcdef")
    with (
        armed("schema_apply.post_stage_pre_lease", lambda: _add(other, next(keys))),
        pytest.raises(ReadSetChanged) as refused,
    ):
        graph.schema.apply(P)
    assert refused.value.details["member"] == "graph_head"
    assert graph.schema.source == PX


def _write(graph: Graph) -> None:
    with graph.write() as writer:
        writer.append("P", pa.table({"k": ["new"], "x": [1]}))
        writer.commit()


LOAD = json.dumps({"type": "P", "data": {"k": "new", "x": 1}}).encode()
WRITES = {
    "mutation": lambda graph: _add(graph, "new", x=1),
    "load": lambda graph: graph.load(LOAD, mode="append"),
    "write": _write,
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_prepared_on_the_old_schema_is_prepared_again(graphs: Opened, kind: str) -> None:
    graph, other = graphs.init(PX), graphs.open()
    wanted = "node P { k: String @key  x: I32?  n: I32 @default(5) }"
    point = f"{'mutation' if kind == 'write' else kind}.post_stage_pre_lease"
    with armed(point, once(lambda: other.schema.apply(wanted))):
        WRITES[kind](graph)
    assert _values(graph, "n") == {"new": 5}, "the default of the new schema"
    assert [commit.kind for commit in graph.commits][1] == "schema_apply"


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_that_the_new_schema_does_not_allow_is_refused(graphs: Opened, kind: str) -> None:
    graph, other = graphs.init(PX), graphs.open()
    point = f"{'mutation' if kind == 'write' else kind}.post_stage_pre_lease"
    with (
        armed(point, once(lambda: other.schema.apply(P))),
        pytest.raises(Exception, match="x") as refused,
    ):
        WRITES[kind](graph)
    assert not isinstance(refused.value, KeyError | AttributeError)
    assert graph.snapshot().count("P") == 0


def test_of_two_that_apply_the_second_plans_on_the_schema_of_the_first(graphs: Opened) -> None:
    graph, other = graphs.init(P), graphs.open()
    wanted = "node P { k: String @key  x: I32?  y: I32? }"
    point = "schema_apply.post_stage_pre_lease"
    seen = []

    def second() -> None:
        # The first holds the lease of the schema: the second waits for it and gives up.
        with pytest.raises(BranchBusy, match="schema"):
            graphs.open(LEASE_WAIT_MS="50").schema.apply(wanted)
        seen.append(True)

    with armed(point, once(second)):
        graph.schema.apply(PX)
    assert seen
    steps = other.schema.apply(wanted).steps
    assert [step.property_name for step in steps] == ["y"]


def test_a_branch_cannot_be_created_while_a_schema_is_applied(graphs: Opened) -> None:
    graph, other = graphs.init(P), graphs.open(LEASE_WAIT_MS="50")

    def create() -> None:
        with pytest.raises(BranchBusy):
            other.branches.create("b")

    with armed("schema_apply.post_stage_pre_lease", once(create)):
        graph.schema.apply(PX)


def test_a_table_that_a_dead_apply_left_is_not_used(graphs: Opened) -> None:
    graph = graphs.init(P)
    wanted = f"{P}\nnode T {{ k: String @key }}"
    with killed_at("schema_apply.post_phase_a"), pytest.raises(Killed):
        graph.schema.apply(wanted)
    graph = graphs.open()
    assert graph.schema.source == P
    assert graph.schema.apply(wanted).applied
    item = graph.schema.catalog.node_types["T"]
    assert (item.type_id, item.incarnation) == (2, 2)
    graph.mutate('query q() { insert T { k: "a" } }')
    require_settled(graph)


def test_a_name_that_an_undone_apply_wanted_is_free(graphs: Opened) -> None:
    graph = graphs.init(P)
    _add(graph, "a")
    wanted = 'node Q @rename_from("P") { k: String @key  n: I32 @default(5)  m: I32? }'
    with killed_at("schema_apply.between_links"), pytest.raises(Killed):
        graph.schema.apply(wanted)
    graph = graphs.open()
    assert [table.table_key for table in graph.snapshot().tables] == ["node:P"]
    graph.schema.apply(f"{P}\nnode Q {{ k: String @key }}")
    graph.mutate('query q() { insert Q { k: "a" } }')
    snapshot = graphs.open().snapshot()
    assert (snapshot.count("P"), snapshot.count("Q")) == (1, 1)


@pytest.mark.parametrize("left", [b"", b"node", b"node Other {}"])
def test_a_schema_that_a_power_cut_tore_is_written_anew(
    graphs: Opened, tmp_path: Path, left: bytes
) -> None:
    twin = Opened(tmp_path / "twin")
    schema_hash = (twin.init(P), twin.open().schema.apply(PX), twin.open().schema.hash)[-1]
    twin.close()
    graph = graphs.init(P)
    folder = graphs.root / "__schema" / schema_hash
    folder.mkdir()
    (folder / "schema.pg").write_bytes(left)
    graph.schema.apply(PX)
    assert graphs.open().schema.source == PX
