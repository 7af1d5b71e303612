"""Mistakes of a mapping are told all at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.errors import SourceError
from omnigraph.lang import compile_schema
from omnigraph.pipeline.spec.column_map import (
    TargetSpec,
    look_at_mapping,
    mistakes_told,
    plan_mapping,
    type_mistakes,
)
from omnigraph.pipeline.spec.pipeline_spec import Column, Dedupe, Keep, KeyParts

CATALOG = compile_schema(
    "node P { name: String @key  age: I32?  born: Date?  home: String }  edge K: P -> P"
)


def mapped(**columns: str) -> dict[str, Column]:
    return {name: Column(name=each) for name, each in columns.items()}


def mistakes(spec: TargetSpec, *names: str) -> list[tuple[object, str]]:
    with pytest.raises(SourceError) as told:
        plan_mapping(CATALOG, spec, names)
    found = told.value.details.get("mistakes")
    if found is None:
        return [(told.value.details.get("property"), told.value.message)]
    assert isinstance(found, list)
    assert told.value.message.startswith(f"{len(found)} mistakes, the first: ")
    assert found[0]["message"] in told.value.message
    return [(each.get("property"), each["message"]) for each in found]


def test_all_mistakes_of_a_mapping_are_in_one_error() -> None:
    spec = TargetSpec(
        type="node:P",
        columns=mapped(nam="a", age="b", home="c", born="d"),
        dedupe=Dedupe(by=("a",), order="e", keep=Keep.LAST),
    )
    assert [name for name, _ in mistakes(spec, "a", "b")] == ["nam", "home", "born", ":dedupe"]


def test_every_property_without_a_value_is_told_and_a_misspelled_one_only_once() -> None:
    spec = TargetSpec(type="node:P", columns=mapped(age="a"))
    assert [name for name, _ in mistakes(spec, "a")] == ["name", "home"]
    spec = TargetSpec(type="node:P", columns=mapped(nam="a", home="a"))
    assert [name for name, _ in mistakes(spec, "a")] == ["nam"]
    keys = {end: KeyParts(parts=mapped(nr="a")) for end in ("src", "dst")}
    spec = TargetSpec(type="edge:K", columns={}, ends=keys)
    assert [name for name, _ in mistakes(spec, "a")] == ["src", "dst"]


def test_every_column_without_a_property_is_told() -> None:
    ((_, told),) = mistakes(TargetSpec(type="node:P"), "name", "nmae", "town", "home")
    assert "no property for the columns `nmae`, `town`; did you mean `name`?" in told
    names = [f"c{number}" for number in range(30)]
    ((_, told),) = mistakes(TargetSpec(type="node:P"), "name", "home", *names)
    assert "`c18`, `c19` and 10 more; it has: `age`" in told


def test_types_of_what_is_right_are_looked_at_beside_what_is_wrong() -> None:
    spec = TargetSpec(type="node:P", columns=mapped(nam="a", home="b", age="c", born="d"))
    mapping, wrong = look_at_mapping(CATALOG, spec, ("b", "c", "d"))
    assert [each.details["property"] for each in wrong] == ["nam"]
    types: dict[str, pa.DataType] = {"home": pa.int64(), "age": pa.int32(), "born": pa.string()}
    found = type_mistakes(mapping, types)
    assert [each.details["property"] for each in found] == ["home", "born"]


def test_each_mistake_has_its_place_and_no_value_of_a_variable() -> None:
    spec = TargetSpec(
        type="node:P",
        columns=mapped(nam="a", ag="hidden"),
        places={"": "f:1:1", "nam": "f:2:3", "ag": "f:4:5"},
        filled=("hidden",),
    )
    with pytest.raises(SourceError) as told, mistakes_told("people", spec):
        plan_mapping(CATALOG, spec, ("a",))
    found = told.value.details["mistakes"]
    assert isinstance(found, list)
    assert [(each["place"], each["source"]) for each in found] == [
        ("f:2:3", "people"),
        ("f:4:5", "people"),
    ]
    assert told.value.message.startswith("2 mistakes, the first: f:2:3: source 'people': ")
    assert "hidden" not in f"{told.value.message}{told.value.details}"
