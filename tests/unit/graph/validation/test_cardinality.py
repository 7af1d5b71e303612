"""Check 7: edges per source on the final image."""

import pytest
from tests.unit.graph.validation.memory_rows import MemoryRows, Record, delta_of

from omnigraph.graph.validation import Code, TableDelta, validate
from omnigraph.lang import Catalog, compile_schema


def _edge(one: str, src: str, dst: str) -> Record:
    return {"id": one, "src": src, "dst": dst}


@pytest.fixture
def committed(catalog: Catalog) -> MemoryRows:
    return MemoryRows(
        catalog,
        {
            "Person": [{"slug": slug, "active": True} for slug in ("p", "q", "r")],
            "Team": [{"id": name, "name": name} for name in ("s", "t", "u")],
            "MemberOf": [_edge("m1", "p", "t")],
            "Owns": [_edge("o1", "t", "p"), _edge("o2", "t", "q"), _edge("o3", "s", "p")],
        },
    )


def _broken(catalog: Catalog, committed: MemoryRows, *deltas: TableDelta) -> list[str]:
    found = validate(catalog, deltas, committed)
    assert found.counts.keys() <= {Code.CARDINALITY_VIOLATION}
    return [one.message for one in found.violations]


def test_a_source_may_not_gain_more_than_its_maximum(
    catalog: Catalog, committed: MemoryRows
) -> None:
    delta = delta_of(catalog.edge_types["MemberOf"], [_edge("m2", "p", "u"), _edge("m3", "q", "u")])
    (violation,) = validate(catalog, [delta], committed).violations
    assert violation.message == "@card violation on edge MemberOf: source 'p' has 2 edges (max 1)"
    assert violation.to_dict() == {
        "code": "cardinality_violation",
        "message": violation.message,
        "type": "MemberOf",
        "kind": "edge",
        "property": "src",
        "entity_id": "p",
        "value": 2,
        "limit": 1,
    }


def test_an_edge_written_again_counts_once(catalog: Catalog, committed: MemoryRows) -> None:
    delta = delta_of(catalog.edge_types["MemberOf"], [_edge("m1", "p", "u")])
    assert not _broken(catalog, committed, delta)


def test_a_moved_edge_counts_for_the_old_and_the_new_source(
    catalog: Catalog, committed: MemoryRows
) -> None:
    delta = delta_of(catalog.edge_types["Owns"], [_edge("o3", "t", "r")])
    assert _broken(catalog, committed, delta) == [
        "@card violation on edge Owns: source 's' has 0 edges (min 1)",
        "@card violation on edge Owns: source 't' has 3 edges (max 2)",
    ]


def test_a_source_emptied_by_a_delete_breaks_its_minimum(
    catalog: Catalog, committed: MemoryRows
) -> None:
    delta = delta_of(catalog.edge_types["Owns"], removed=["o1", "o3"])
    assert _broken(catalog, committed, delta) == [
        "@card violation on edge Owns: source 's' has 0 edges (min 1)"
    ]


def test_a_source_that_is_deleted_itself_is_skipped(
    catalog: Catalog, committed: MemoryRows
) -> None:
    edges = delta_of(catalog.edge_types["Owns"], removed=["o3"])
    team = catalog.node_types["Team"]
    assert not _broken(catalog, committed, edges, delta_of(team, removed=["s"]))
    kept = [{"id": "t", "name": "t"}]
    member = delta_of(catalog.edge_types["MemberOf"])
    assert not _broken(catalog, committed, edges, delta_of(team, kept, replaces_all=True), member)


def test_a_node_that_never_had_an_edge_is_not_asked_for_one(
    catalog: Catalog, committed: MemoryRows
) -> None:
    delta = delta_of(catalog.node_types["Team"], [{"id": "v", "name": "new"}])
    assert not _broken(catalog, committed, delta)


def test_a_replaced_edge_table_counts_as_empty(catalog: Catalog, committed: MemoryRows) -> None:
    delta = delta_of(
        catalog.edge_types["MemberOf"],
        [_edge("n1", "p", "s"), _edge("n2", "q", "s"), _edge("n3", "q", "t")],
        replaces_all=True,
    )
    assert _broken(catalog, committed, delta) == [
        "@card violation on edge MemberOf: source 'q' has 2 edges (max 1)"
    ]


def test_one_edge_is_written_in_the_singular() -> None:
    catalog = compile_schema("node A { k: String @key }\nedge E: A -> A @card(2..)")
    committed = MemoryRows(catalog, {"A": [{"k": "a"}]})
    delta = delta_of(catalog.edge_types["E"], [_edge("e", "a", "a")])
    assert _broken(catalog, committed, delta) == [
        "@card violation on edge E: source 'a' has 1 edge (min 2)"
    ]
