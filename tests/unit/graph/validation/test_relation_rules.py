"""The list of rules across rows: what it holds for which write, and in which order."""

import pytest
from tests.unit.graph.validation.memory_rows import MemoryRows, delta_of, item_of

from omnigraph.graph.validation import Code
from omnigraph.graph.validation.delta import prepare_write
from omnigraph.graph.validation.evaluator import rule_findings
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    EndRule,
    KeptEndRule,
    RelationRule,
    UniqueRule,
    compared_columns,
    list_rules,
)
from omnigraph.lang import Catalog


def _told(rule: RelationRule) -> tuple[object, ...]:
    asked = None if rule.asked is None else rule.asked.name
    match rule:
        case UniqueRule():
            return "unique", rule.item.name, rule.names, rule.place, asked
        case EndRule() | KeptEndRule():
            word = "end" if isinstance(rule, EndRule) else "kept end"
            return word, rule.item.name, rule.endpoint, asked
        case CardinalityRule():
            return "cardinality", rule.item.name, rule.low, rule.high, asked
        case _:
            return "new id", rule.item.name, asked


def _rules(catalog: Catalog, *names: str) -> list[tuple[object, ...]]:
    return [_told(rule) for rule in list_rules(catalog, (item_of(catalog, one) for one in names))]


def test_a_write_of_edges_has_the_rules_of_their_table_and_their_ends(catalog: Catalog) -> None:
    assert _rules(catalog, "Owns") == [
        ("new id", "Owns", "Owns"),
        ("unique", "Owns", ("id",), 0, None),
        ("unique", "Owns", ("src", "dst"), 1, "Owns"),
        ("end", "Owns", "src", "Team"),
        ("end", "Owns", "dst", "Person"),
        ("cardinality", "Owns", 1, 2, "Owns"),
    ]


def test_a_write_of_nodes_has_their_rules_and_those_of_edges_that_stay(catalog: Catalog) -> None:
    assert _rules(catalog, "Person") == [
        ("new id", "Person", "Person"),
        ("unique", "Person", ("slug",), 0, None),
        ("unique", "Person", ("email",), 1, "Person"),
        ("unique", "Person", ("a", "b"), 2, "Person"),
        ("kept end", "Knows", "src", "Knows"),
        ("kept end", "Knows", "dst", "Knows"),
        ("kept end", "MemberOf", "src", "MemberOf"),
        ("kept end", "Owns", "dst", "Owns"),
    ]


def test_rules_come_by_check_then_by_kind_and_name_of_the_table(catalog: Catalog) -> None:
    rules = list_rules(catalog, (item_of(catalog, one) for one in ("Owns", "Knows", "Team")))
    assert list(rules) == [*rules.keys, *rules.endpoints, *rules.cardinality]
    assert list(dict.fromkeys(rule.item.name for rule in rules.keys)) == ["Team", "Knows", "Owns"]
    assert [rule.item.name for rule in rules.cardinality] == ["Owns"]
    assert _rules(catalog, "Team", "Knows", "Owns") == [_told(rule) for rule in rules]


def test_a_write_of_nothing_has_no_rules(catalog: Catalog) -> None:
    assert _rules(catalog) == []


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("Person", ["id", "slug", "email", "a", "b"]),
        ("Team", ["id"]),
        ("Knows", ["id", "src", "dst"]),
        ("Owns", ["id", "src", "dst"]),
    ],
)
def test_compared_columns_are_those_of_the_rules(
    catalog: Catalog, name: str, names: list[str]
) -> None:
    assert compared_columns(item_of(catalog, name)) == names


def test_each_rule_finds_its_own_code_alone(catalog: Catalog) -> None:
    people = [{"slug": slug, "active": True, "email": "x@y"} for slug in ("a", "b")]
    owned = [{"id": "o1", "src": "t", "dst": "a"}, {"id": "o2", "src": "t", "dst": "a"}]
    deltas = [
        delta_of(catalog.node_types["Person"], people, strict=["a", "b"], removed=["c"]),
        delta_of(catalog.edge_types["Owns"], [*owned, {"id": "o3", "src": "t", "dst": "b"}]),
    ]
    committed = MemoryRows(
        catalog,
        {
            "Person": [{"slug": "a", "active": True}, {"slug": "c", "active": True}],
            "Knows": [{"id": "k", "src": "c", "dst": "a"}],
        },
    )
    write = prepare_write(catalog, deltas, committed)
    found = [(rule, rule_findings(write, rule, limit=10)) for rule in write.rules]
    assert [(_told(rule)[0], dict(each.counts)) for rule, each in found if each.total] == [
        ("new id", {Code.KEY_CONFLICT: 1}),
        ("unique", {Code.UNIQUE_VIOLATION: 1}),
        ("unique", {Code.UNIQUE_VIOLATION: 1}),
        ("kept end", {Code.ORPHAN_EDGE: 1}),
        ("end", {Code.ORPHAN_EDGE: 3}),
        ("cardinality", {Code.CARDINALITY_VIOLATION: 1}),
    ]
    assert all(each.counts.keys() <= {rule.code} for rule, each in found)
