"""Metadata of a schema may have any name in quotes; without them `init` takes it for a mistake."""

from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import SchemaInvalid
from omnigraph.lang import compile_schema, lint
from omnigraph.lang.diagnostics import Findings
from omnigraph.lang.schema_compiler import require_meant_annotations
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.schema_printer import print_schema
from omnigraph.lang.source import Source

MISSPELT = 'node P @descripton("d") { k: String @key @required  n: String? @indx @pii @note(1) }\n'
QUOTED = (
    'node P @"descripton"("d") { k: String @key @"required"  n: String? @"indx" @pii @note(1) }\n'
)


def test_a_graph_is_not_made_with_annotations_that_look_like_others(tmp_path: Path) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        Graph.init(tmp_path / "graph", schema=MISSPELT)
    found = caught.value.details["diagnostics"]
    assert isinstance(found, list)
    assert [each["code"] for each in found if isinstance(each, dict)] == ["S024"] * 3
    assert 'Metadata of this name is written `@"indx"`' in caught.value.message
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("name", ["kye", "eky", "keys", "crad", "inedx", "uniqe"])
def test_a_letter_at_a_wrong_place_is_a_mistake_also_in_a_short_name(name: str) -> None:
    with pytest.raises(SchemaInvalid, match="did you mean"):
        require_meant_annotations(f"node P {{ k: String @{name} }}")


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ("node P { n: I32  @rnage(n, 0..1) }", "range"),
        ('node P { n: String  @chek(n, "a") }', "check"),
        ("node P { n: I32  @uniqe(n, m)  m: I32 }", "unique"),
        ("node P { n: I32 }  edge E: P -> P @crad(1..1)", "card"),
    ],
)
def test_a_misspelt_annotation_is_told_whatever_stands_in_its_parentheses(
    schema: str, meant: str
) -> None:
    with pytest.raises(SchemaInvalid, match=f"is not known; did you mean `@{meant}`"):
        compile_schema(schema)


def test_metadata_in_quotes_is_kept_and_means_nothing(tmp_path: Path) -> None:
    with Graph.init(tmp_path / "graph", schema=QUOTED) as graph:
        notes = graph.snapshot().catalog.node_types["P"].properties["n"].annotations
        assert {name: value.value for name, value in notes.items()} == {
            "indx": None,
            "pii": None,
            "note": 1,
        }
    assert compile_schema(QUOTED).schema_hash == compile_schema(MISSPELT).schema_hash


def test_a_schema_that_exists_is_read_and_linted_with_a_warning() -> None:
    query = "query q() { match { $p: P } return { $p.k, $p.n } }"
    for schema, codes in ((MISSPELT, ["L207"] * 3), (QUOTED, [])):
        report = lint(compile_schema(schema), query)
        assert [each.code for each in report.findings if each.code == "L207"] == codes


def test_quotes_are_printed_again() -> None:
    findings = Findings(Source.decode(QUOTED, None))
    printed = print_schema(parse_schema(findings))
    assert '@"descripton"("d")' in printed
    assert '@"indx" @pii' in printed


@pytest.mark.parametrize("name", ["key", "index", "", "Big", "a b", "a\\n"])
def test_quotes_hold_a_name_that_means_nothing(name: str) -> None:
    with pytest.raises(SchemaInvalid, match="quotes are for metadata"):
        compile_schema(f'node P {{ n: String @"{name}" }}')
