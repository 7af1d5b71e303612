"""Planner and schema hash agree on what a change is; accepted ids survive every evolution."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property.profiles import many, more, quick
from tests.property.strategies import GeneratedSchema, schemas

from omnigraph.lang import Catalog, accept_schema, compile_schema, plan_migration, restore_schema

_pairs = st.tuples(schemas(), schemas())
_histories = st.lists(schemas(), min_size=1, max_size=4)


def _check_plan_and_hash(accepted: Catalog, desired: Catalog) -> None:
    plan = plan_migration(accepted, desired)
    is_empty = not plan.steps and not plan.diagnostics
    assert is_empty == (accepted.schema_hash == desired.schema_hash)


@quick(8)
@given(_pairs)
def test_a_plan_is_empty_exactly_when_the_hashes_are_equal(
    pair: tuple[GeneratedSchema, GeneratedSchema],
) -> None:
    first, second = pair
    _check_plan_and_hash(first.catalog, first.catalog)
    _check_plan_and_hash(first.catalog, compile_schema(first.source + "\n// again"))
    _check_plan_and_hash(first.catalog, second.catalog)


@many
@given(_pairs)
def test_a_plan_is_always_empty_exactly_when_the_hashes_are_equal(
    pair: tuple[GeneratedSchema, GeneratedSchema],
) -> None:
    _check_plan_and_hash(pair[0].catalog, pair[1].catalog)


@quick(10)
@given(_histories)
def test_ids_are_unique_never_reused_and_read_back(history: list[GeneratedSchema]) -> None:
    _check_ids(history)


@more(40)
@given(_histories)
def test_ids_are_always_unique_never_reused_and_read_back(history: list[GeneratedSchema]) -> None:
    _check_ids(history)


def _check_ids(history: list[GeneratedSchema]) -> None:
    accepted = None
    given_out: dict[int, str] = {}
    for schema in history:
        before = set(given_out)
        accepted = accept_schema(schema.catalog, accepted)
        catalog = accepted.catalog
        for kind, items in (("node", catalog.node_types), ("edge", catalog.edge_types)):
            for name, item in items.items():
                columns = [found.column for found in item.properties.values()]
                retired = accepted.retired_columns.get(item.type_id or 0, ())
                assert len({*columns, *retired}) == len(columns) + len(retired)
                for found in item.properties.values():
                    number = found.property_id or 0
                    owner = f"{kind}:{item.type_id}"
                    assert given_out.setdefault(number, owner) == owner, (name, found.name)
        assert all(number < accepted.next_property_id for number in given_out)
        assert before <= set(given_out)
        assert restore_schema(schema.catalog, accepted.ids_json()) == accepted
