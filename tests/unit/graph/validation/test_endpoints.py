"""Check 6: endpoints on the final image, and edges that would be left behind."""

import pytest
from tests.unit.graph.validation.memory_rows import MemoryRows, Record, delta_of

from omnigraph.graph.validation import Code, Findings, TableDelta, validate
from omnigraph.lang import Catalog

_PEOPLE: list[Record] = [{"slug": slug, "active": True} for slug in ("a", "b", "c")]


@pytest.fixture
def committed(catalog: Catalog) -> MemoryRows:
    edges = [
        {"id": "ab", "src": "a", "dst": "b"},
        {"id": "ba", "src": "b", "dst": "a"},
        {"id": "aa", "src": "a", "dst": "a"},
        {"id": "cb", "src": "c", "dst": "b"},
    ]
    return MemoryRows(catalog, {"Person": _PEOPLE, "Knows": edges})


def _people(catalog: Catalog, *slugs: str, **options: object) -> TableDelta:
    rows = [{"slug": slug, "active": True} for slug in slugs]
    return delta_of(catalog.node_types["Person"], rows, **options)  # type: ignore[arg-type]  # options of delta_of


def _knows(catalog: Catalog, *edges: tuple[str, str, str], **options: object) -> TableDelta:
    rows = [{"id": one, "src": src, "dst": dst} for one, src, dst in edges]
    return delta_of(catalog.edge_types["Knows"], rows, **options)  # type: ignore[arg-type]  # options of delta_of


def _orphans(found: Findings) -> list[tuple[str | None, str]]:
    assert found.counts.keys() <= {Code.ORPHAN_EDGE}
    assert found.total == len(found.violations)
    return [(one.subject.entity_id, one.message) for one in found.violations]


def test_an_edge_needs_both_nodes(catalog: Catalog, committed: MemoryRows) -> None:
    found = validate(catalog, [_knows(catalog, ("e", "x", "y"), ("d", "a", "y"))], committed)
    assert _orphans(found) == [
        ("d", "dst 'y' not found in Person"),
        ("e", "src 'x' not found in Person"),
        ("e", "dst 'y' not found in Person"),
    ]
    assert found.violations[0].to_dict() == {
        "code": "orphan_edge",
        "message": "dst 'y' not found in Person",
        "type": "Knows",
        "kind": "edge",
        "property": "dst",
        "entity_id": "d",
        "value": "y",
        "limit": "Person",
    }


def test_nodes_of_the_same_write_count(catalog: Catalog, committed: MemoryRows) -> None:
    deltas = [_knows(catalog, ("e", "x", "a")), _people(catalog, "x")]
    assert not validate(catalog, deltas, committed).total


def test_removed_nodes_do_not_count(catalog: Catalog, committed: MemoryRows) -> None:
    deltas = [
        _people(catalog, removed=["c"]),
        _knows(catalog, ("e", "a", "c"), removed=["cb"]),
    ]
    assert _orphans(validate(catalog, deltas, committed)) == [("e", "dst 'c' not found in Person")]


def test_a_node_removed_and_written_again_stays(catalog: Catalog, committed: MemoryRows) -> None:
    deltas = [_people(catalog, "c", removed=["c"]), _knows(catalog, ("e", "a", "c"))]
    assert not validate(catalog, deltas, committed).total


@pytest.mark.parametrize("how", ["removed", "overwrite"])
def test_a_removed_node_may_not_leave_edges_behind(
    catalog: Catalog, committed: MemoryRows, how: str
) -> None:
    nodes = (
        _people(catalog, removed=["a"])
        if how == "removed"
        else _people(catalog, "b", "c", replaces_all=True)
    )
    assert _orphans(validate(catalog, [nodes], committed)) == [
        ("aa", "src 'a' not found in Person"),
        ("aa", "dst 'a' not found in Person"),
        ("ab", "src 'a' not found in Person"),
        ("ba", "dst 'a' not found in Person"),
    ]


def test_edges_removed_changed_or_replaced_are_not_left_behind(
    catalog: Catalog, committed: MemoryRows
) -> None:
    gone = _people(catalog, removed=["a"])
    cascade = _knows(catalog, removed=["aa", "ab", "ba"])
    moved = _knows(catalog, ("ab", "c", "b"), ("ba", "b", "c"), removed=["aa"])
    replaced = _knows(catalog, ("ab", "c", "b"), replaces_all=True)
    for edges in (cascade, moved, replaced):
        assert not validate(catalog, [gone, edges], committed).total


def test_an_edge_that_is_changed_and_still_points_to_the_removed_node_is_reported_once(
    catalog: Catalog, committed: MemoryRows
) -> None:
    deltas = [
        _people(catalog, removed=["a"]),
        _knows(catalog, ("ab", "a", "b"), removed=["aa", "ba"]),
    ]
    assert _orphans(validate(catalog, deltas, committed)) == [("ab", "src 'a' not found in Person")]


def test_nodes_replaced_by_the_same_ids_keep_their_edges(
    catalog: Catalog, committed: MemoryRows
) -> None:
    nodes = _people(catalog, "a", "b", "c", replaces_all=True)
    assert not validate(catalog, [nodes], committed).total


def test_equal_ids_of_another_type_do_not_help(catalog: Catalog, committed: MemoryRows) -> None:
    member = delta_of(catalog.edge_types["MemberOf"], [{"id": "m", "src": "a", "dst": "b"}])
    assert _orphans(validate(catalog, [member], committed)) == [("m", "dst 'b' not found in Team")]


def test_many_edges_left_behind_are_counted_and_cut(catalog: Catalog) -> None:
    edges = [{"id": f"e{at:03}", "src": "a", "dst": "b"} for at in range(100)]
    committed = MemoryRows(catalog, {"Person": _PEOPLE, "Knows": edges})
    found = validate(catalog, [_people(catalog, "b", replaces_all=True)], committed, limit=3)
    assert found.total == 100
    assert [one.subject.entity_id for one in found.violations] == ["e000", "e001", "e002"]
