"""Which changes of a schema end what a comparison can tell, and which it looks through.

Stand-ins for snapshots: what a type is in both schemas decides, not how it got there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from omnigraph.errors import ChangeSchemaBoundary
from omnigraph.graph.changes import diff as diff_module
from omnigraph.graph.changes.entity_change import ChangeFilter
from omnigraph.lang import compile_schema
from omnigraph.lang.accepted import accept_schema

if TYPE_CHECKING:
    from omnigraph.lang import Catalog


class Side:
    """As much of a snapshot as pairing tables needs."""

    def __init__(self, catalog: Catalog, rows: dict[str, int]) -> None:
        self.catalog = catalog
        self.graph_commit_id = "01J"
        self._rows = rows

    def pin(self, item: Any) -> Any:  # noqa: ANN401 - a type, and what a pin has
        return PinStand(row_count=self._rows.get(item.name, 0))


class PinStand:
    """A pin that equals no other."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count


def paired(
    old: str, new: str, types: frozenset[str] = frozenset(), **rows: int
) -> list[Any]:  # Any: tables side by side
    before = accept_schema(compile_schema(old))
    after = accept_schema(compile_schema(new), before)
    sides: list[Any] = [Side(each.catalog, rows) for each in (before, after)]
    tables = ChangeFilter(types=types).tables(*(side.catalog for side in sides))
    return list(diff_module._pair_tables(sides[0], sides[1], frozenset(), tables))


@pytest.mark.parametrize(
    ("new", "columns"),
    [
        ("node A { name: String @key  b: I32? }", [("name", "name"), ("b", "b")]),
        (
            'node A { c: I32? @rename_from("b")  name: String @key }',
            [("b", "c"), ("name", "name")],
        ),
        ("node A { name: String @key  b: I32? @index }", [("name", "name"), ("b", "b")]),
        ('node B @rename_from("A") { name: String @key  b: I32? }', [("name", "name"), ("b", "b")]),
        ("node A { name: String @key  b: I32? } node New {}", [("name", "name"), ("b", "b")]),
    ],
)
def test_renames_indexes_and_empty_types_are_no_boundary(
    new: str, columns: list[tuple[str, str]]
) -> None:
    table, *_ = paired("node A { name: String @key  b: I32? }", new, A=2, B=2)
    assert sorted(table.columns) == sorted(columns)


def test_more_values_of_an_enum_are_no_boundary() -> None:
    (table,) = paired("node A { e: enum(x, y)? }", "node A { e: enum(x, y, z)? }", A=1)
    assert table.columns == (("e", "e"),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("node A { b: I32? }", "node A { b: I32?  c: I32? }"),
        ("node A { b: I32?  c: I32? }", "node A { b: I32? }"),
        ("node A { b: I32? } node Gone {}", "node A { b: I32? }"),
        ("node A { b: I32? }", "node A { b: I32? } node Gone {}"),
    ],
    ids=["a property more", "a property less", "a type less", "a type more"],
)
def test_other_properties_and_populated_types_of_one_side_are_a_boundary(
    old: str, new: str
) -> None:
    with pytest.raises(ChangeSchemaBoundary, match="cannot be told") as caught:
        paired(old, new, A=1, Gone=1)
    named = "Gone" if "Gone" in old + new else "A"
    assert caught.value.details == {"graph_commit_id": "01J", "type_name": named}


def test_types_that_nobody_asks_for_are_no_boundary() -> None:
    old = "node A { b: I32? } node Gone {} node Same {}"
    new = "node A { b: I32?  c: I32? } node Same {}"
    wanted = frozenset({"Same"})
    assert [table.key for table in paired(old, new, wanted, A=1, Gone=1)] == ["node:Same"]


@pytest.mark.parametrize("name", ["A", "B", "node:A", "node:B"])
def test_a_renamed_type_is_found_by_both_names(name: str) -> None:
    old, new = "node A {} node Other {}", 'node B @rename_from("A") {} node Other {}'
    assert [table.key for table in paired(old, new, frozenset({name}))] == ["node:B"]


def test_an_empty_type_of_one_side_has_no_changes() -> None:
    both = ("node A { b: I32? }", "node A { b: I32? } node Gone {}")
    for schemas in (both, both[::-1]):
        assert [table.key for table in paired(*schemas, A=1)] == ["node:A"]
