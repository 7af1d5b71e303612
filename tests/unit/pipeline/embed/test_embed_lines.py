"""Which records of a file are embedded or cleaned, what their texts are, and what is written."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.errors import InvalidArgument, SourceError
from omnigraph.pipeline.embed.file_lines import FileMode, JudgedLine, LineChoice, judge, render
from omnigraph.pipeline.embed.file_spec import (
    DEFAULT_OUTPUT,
    EmbedSpec,
    Selector,
    TypeSpec,
    read_manifest,
    read_spec,
)

SPEC = EmbedSpec(
    dimension=2,
    types={"Doc": TypeSpec(target="vec", fields=("title", "tags", "year", "gone"))},
)
DOC = {"title": " A title ", "tags": ["x", "", None, "y"], "year": 1.50, "gone": None}


def judged(
    record: dict[str, Any],
    mode: FileMode = FileMode.FILL_MISSING,
    **choice: Any,  # noqa: ANN401 - as the choice takes them
) -> JudgedLine:
    line = json.dumps(record).encode()
    return judge(line, "f, line 1", LineChoice(spec=SPEC, mode=mode, **choice))


def doc(**data: object) -> dict[str, Any]:
    return {"type": "Doc", "data": DOC | data}


def test_the_text_has_the_type_and_every_field_that_says_something() -> None:
    assert judged(doc()).text == "type: Doc\ntitle: A title\ntags: x, y\nyear: 1.5"
    assert judged({"type": "Doc", "data": {}}).text == "type: Doc"


@pytest.mark.parametrize("held", [{}, {"vec": None}, {"vec": []}])
def test_a_record_without_a_vector_gets_one(held: dict[str, object]) -> None:
    assert judged(doc(**held)).text is not None


def test_a_record_with_a_vector_keeps_it_unless_told_otherwise() -> None:
    record = doc(vec=[1, 0])
    assert judged(record).text is None
    assert judged(record, FileMode.REEMBED_ALL).text is not None
    assert judged(record, selectors=(Selector.parse("year=1.5"),)).text is not None
    assert not judged(record, selectors=(Selector.parse("year=2"),)).is_selected


def test_types_narrow_and_records_of_others_pass() -> None:
    assert judged({"type": "Other", "data": {}}).is_selected
    assert judged({"type": "Other", "data": {}}).text is None
    assert not judged(doc(), types=frozenset({"Other"})).is_selected
    edge = judged({"edge": "Cites", "from": "a", "to": "b"})
    assert not edge.is_selected
    assert edge.written(None) == edge.line


@pytest.mark.parametrize(
    ("selector", "hits"),
    [
        ("title=A title", True),
        ("Doc:title = A title ", True),
        ("Other:title=A title", False),
        ("tags=x, y", True),
        ("gone=", True),
        ("missing=", False),
        ("year=1.5", True),
        ("flag=true", True),
    ],
)
def test_a_selector_compares_what_a_text_would_show(selector: str, hits: bool) -> None:  # noqa: FBT001
    choice = (Selector.parse(selector),)
    assert judged(doc(flag=True), selectors=choice).is_selected is hits


@pytest.mark.parametrize("text", ["", "title", "=x", ":a=b", "T:=b"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="field=value"):
        Selector.parse(text)


def test_mode_names_tell_selected_from_missing() -> None:
    selectors = (Selector.parse("a=b"),)
    assert LineChoice(spec=SPEC, mode=FileMode.FILL_MISSING).mode_name == "fill_missing"
    assert (
        LineChoice(spec=SPEC, mode=FileMode.FILL_MISSING, selectors=selectors).mode_name
        == "reembed_selected"
    )
    assert LineChoice(spec=SPEC, mode=FileMode.CLEAN, selectors=selectors).mode_name == "clean"


def test_every_other_member_keeps_its_bytes() -> None:
    line = (
        b'{"type":"Doc", "data":{"n":1.10,"big":123456789012345678901234567890,'
        b'"far":1e400,"s":"\\u00e9"},"more":[1.0]}'
    )
    found = judge(line, "f", LineChoice(spec=SPEC, mode=FileMode.FILL_MISSING))
    written = found.written(np.array([0.1, math.sqrt(0.99)], np.float32))
    assert written == (
        b'{"type":"Doc","data":{"n":1.10,"big":123456789012345678901234567890,'
        b'"far":1e400,"s":"\\u00e9","vec":[0.1,0.9949874]},"more":[1.0]}'
    )
    assert np.float32(json.loads(written)["data"]["vec"][1]) == np.float32(math.sqrt(0.99))


def test_cleaning_removes_the_member_and_counts_only_where_it_was() -> None:
    found = judged(doc(vec=[1, 0]), FileMode.CLEAN)
    assert found.is_cleaned
    assert json.loads(found.written(None)) == doc()
    other = judged(doc(), FileMode.CLEAN)
    assert (other.is_cleaned, other.written(None)) == (False, other.line)


@pytest.mark.parametrize(
    "line", [b"[1]", b"{", b"\xff", b'{"type":"Doc"}', b'{"type":"Doc","data":[]}']
)
def test_a_line_that_is_no_record_is_refused_with_its_place(line: bytes) -> None:
    with pytest.raises(SourceError, match=r"^f, line 7: "):
        judge(line, "f, line 7", LineChoice(spec=SPEC, mode=FileMode.FILL_MISSING))


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (3, "3"), ({"a": 1}, '{"a":1}'), ([1, [2]], "1, 2")]
)
def test_values_are_rendered_as_json_unless_they_are_text(value: object, text: str) -> None:
    assert render(value) == text


def test_a_spec_is_json_or_yaml() -> None:
    data = b'{"dimension": 2, "types": {"Doc": {"target": "vec", "fields": ["title"]}}}'
    expected = EmbedSpec(dimension=2, types={"Doc": TypeSpec(target="vec", fields=("title",))})
    assert read_spec(data, "s") == expected
    yaml = b"dimension: 2\ntypes:\n  Doc: { target: vec, fields: [title] }\n"
    assert read_spec(yaml, "s") == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("dimension: 0\ntypes: {A: {target: v, fields: [x]}}", "dimension is 0"),
        ("dimension: 2\ntypes: {}", "types is empty"),
        ("dimension: 2\ntypes: {A: {target: v, fields: []}}", "types.A needs"),
        ("types: {}", "dimension"),
        ("dimension: 2\ntypes: {A: {target: v, field: [x]}}", "field"),
        ("a: [", "s: "),
    ],
)
def test_a_broken_spec_names_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        read_spec(text.encode(), "s")


def test_a_manifest_has_paths_from_its_own_folder() -> None:
    spec = "embeddings: {dimension: 2, types: {Doc: {target: vec, fields: [title]}}}\n"
    found = read_manifest(
        f"{spec}graph: {{slug: x}}\nsources: {{raw_seed: ./a.jsonl}}\n"
        "artifacts: {embedded_seed: out/b.jsonl}\n".encode(),
        Path("seeds/m.yaml"),
    )
    assert (found.source, found.output) == (Path("seeds/a.jsonl"), Path("seeds/out/b.jsonl"))
    old = read_manifest(f"{spec}seed: {{data: a.jsonl}}\n".encode(), Path("m.yaml"))
    assert (old.source, old.output) == (Path("a.jsonl"), DEFAULT_OUTPUT)
    with pytest.raises(InvalidArgument, match=r"sources\.raw_seed is missing"):
        read_manifest(spec.encode(), Path("m.yaml"))
