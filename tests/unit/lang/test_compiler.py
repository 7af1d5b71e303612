"""Choosing a query, and the entry points."""

import pytest

from omnigraph.errors import QueryInvalid, QuerySelectionError, SchemaInvalid
from omnigraph.lang import compile_query, compile_schema, parse_query_file, select_query
from omnigraph.limits import MAX_DIAGNOSTICS, MAX_SCHEMA_PROPERTIES

CATALOG = compile_schema("node A { k: String @key }")
READ = "query all() { match { $a: A } return { $a.k } }"
WRITE = "query add($k: String) { insert A { k: $k } }"


def _reason(source: str, name: str | None = None, *, expect_mutation: bool | None = None) -> object:
    with pytest.raises(QuerySelectionError) as caught:
        compile_query(CATALOG, source, name, expect_mutation=expect_mutation)
    return caught.value.details["reason"]


def test_the_only_query_needs_no_name() -> None:
    assert compile_query(CATALOG, READ).query.name == "all"
    assert select_query(READ).name == "all"


def test_a_missing_or_unknown_name_lists_what_the_file_has() -> None:
    assert _reason(READ + WRITE) == "query_name_required"
    assert _reason("") == "query_name_required"
    assert _reason(READ + WRITE, "alll") == "query_not_found"
    with pytest.raises(QuerySelectionError, match="did you mean `all`"):
        select_query(READ + WRITE, "alll")


def test_the_other_entry_point_is_named() -> None:
    assert _reason(READ, expect_mutation=True) == "use_query"
    assert _reason(WRITE, expect_mutation=False) == "use_mutate"
    assert compile_query(CATALOG, WRITE, expect_mutation=True).query.is_mutation


def test_a_query_beside_a_broken_one_can_be_compiled() -> None:
    source = READ + "query bad() { match { $a: A } return { $a.nope } }"
    assert compile_query(CATALOG, source, "all").operation.result[0].name == "a.k"
    with pytest.raises(QueryInvalid):
        compile_query(CATALOG, source, "bad")


def test_a_file_is_parsed_whole() -> None:
    assert [query.name for query in parse_query_file(READ + WRITE)] == ["all", "add"]
    assert parse_query_file("// nothing") == ()


def test_the_stored_entry_may_carry_another_tool_name() -> None:
    entry = compile_query(CATALOG, WRITE).stored(tool_name="add_a")
    assert entry.to_dict() == {
        "name": "add",
        "tool_name": "add_a",
        "mutation": True,
        "params": [{"name": "k", "kind": "string", "nullable": False}],
    }


def test_interfaces_cannot_multiply_without_bound() -> None:
    properties = " ".join(f"p{number}: I32" for number in range(1_000))
    nodes = " ".join(f"node N{number} implements I {{}}" for number in range(100))
    assert MAX_SCHEMA_PROPERTIES < 1_000 * 101
    with pytest.raises(SchemaInvalid) as caught:
        compile_schema(f"interface I {{ {properties} }} {nodes}")
    assert "more than 100,000 properties" in caught.value.message
    assert caught.value.details["total"] == 1


def test_checking_stops_after_a_hundred_findings_and_says_so() -> None:
    columns = " ".join(f"$a.x{number}" for number in range(500))
    with pytest.raises(QueryInvalid) as caught:
        compile_query(CATALOG, f"query q() {{ match {{ $a: A }} return {{ {columns} }} }}")
    assert caught.value.details["total"] == MAX_DIAGNOSTICS
    assert caught.value.message.endswith("more than 100 errors; the rest is not shown")
