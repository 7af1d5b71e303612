"""The schema of a result is the one that the query promises, filled or empty."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.corpus.corpus_format import Case, read_cases
from tests.corpus.corpus_language import compile_case, expectations, query_text
from tests.extended import thinned
from tests.unit.engine.graphs import Opened, Row, fill

from omnigraph import Graph
from omnigraph.embedding.mock import MockEmbedder
from omnigraph.errors import InternalError
from omnigraph.lang import CompiledQuery, compile_query, parse_query_file
from omnigraph.lang.arrow_schema import arrow_field
from omnigraph.lang.types import PropType, Scalar

ROOT = Path(__file__).parents[3]
PAPERS = ROOT / "examples" / "papers"
CORPUS = ROOT / "tests" / "corpus"

ROWS: Mapping[str, dict[str, list[Row]]] = {
    "S": {
        "Person": [
            {"email": "a@b", "name": "Ann", "age": 30, "tags": ["x", None], "level": "junior"},
            {"email": "b@b", "name": "Bob"},
            {"email": "c@b", "name": "Ann Bob", "age": 4, "tags": [], "level": "senior"},
        ],
        "Team": [{"slug": "t", "title": "Team"}],
        "Doc": [
            {"slug": "d1", "title": "graph data", "vec": [1, 0, 0], "stars": 5},
            {"slug": "d2", "title": "other", "vec": [0, 1, 0]},
        ],
        "Knows": [
            {"src": "a@b", "dst": "b@b", "note": "n"},
            {"src": "a@b", "dst": "b@b"},
            {"src": "b@b", "dst": "c@b"},
            {"src": "c@b", "dst": "c@b"},
        ],
        "MemberOf": [{"src": "a@b", "dst": "t"}],
        "Wrote": [{"src": "a@b", "dst": "d1"}, {"src": "b@b", "dst": "d1"}],
    },
    "types": {
        "Thing": [
            {"k": "full", "s": "a text", "flag": True, "i": 1, "j": 2, "u": 3, "w": 4, "f": 0.5,
             "g": 1.5, "d": 19000, "t": 10**12, "v": [1, 2, 3], "ls": ["x"], "li": [1, None],
             "e": "a"},
            {"k": "empty"},
        ],
        "Box": [{"id": "box", "name": "n", "size": 1}],
        "Link": [{"src": "full", "dst": "empty", "weight": 0.5, "label": "l"}],
        "PutIn": [{"src": "full", "dst": "box"}],
    },
}  # fmt: skip


def _reads_by_schema() -> dict[str, list[tuple[str, Case, CompiledQuery]]]:
    """The accepted read queries of the corpus, by the schema that they refer to."""
    found: dict[str, list[tuple[str, Case, CompiledQuery]]] = defaultdict(list)
    for case in read_cases(CORPUS):
        schema = case.section("schema")
        is_run = schema is not None and schema.reference and schema.argument in ROWS
        if not is_run or expectations(case) or query_text(case) is None:
            continue
        for compiled in compile_case(case).queries:
            sizes = [each.type.vector_dim or 0 for each in compiled.params]
            if not compiled.query.is_mutation and max(sizes, default=0) < 1_000:
                assert schema is not None
                found[schema.argument].append((case.id, case, compiled))
    return found


READS = _reads_by_schema()


def value_of(kind: PropType) -> object:
    """Some value for a parameter."""
    by_scalar: dict[Scalar, Any] = {
        Scalar.STRING: "a",
        Scalar.BOOL: True,
        Scalar.DATE: "2024-01-01",
        Scalar.DATETIME: "2024-01-01T00:00:00Z",
        Scalar.BLOB: "base64:AA==",
    }
    if kind.scalar is Scalar.VECTOR:
        return [1.0] * (kind.vector_dim or 1)
    value = by_scalar.get(kind.scalar, 1)
    return [value] if kind.is_list else value


def promised(compiled: CompiledQuery) -> pa.Schema:
    return pa.schema([arrow_field(each.name, each.type) for each in compiled.operation.result])


@pytest.fixture(scope="module")
def by_schema(shared: Opened) -> dict[str, dict[str, Graph]]:
    made: dict[str, dict[str, Graph]] = {}
    for name, rows in ROWS.items():
        text = (CORPUS / "schemas" / f"{name}.pg").read_text(encoding="utf-8")
        made[name] = {
            state: shared.init(text, embedder=MockEmbedder("m1")) for state in ("empty", "filled")
        }
        fill(made[name]["filled"], branch="main", **rows)
    return made


@pytest.mark.parametrize("state", thinned(["filled", "empty"]))
@pytest.mark.parametrize("schema", ROWS)
def test_every_query_of_the_corpus_gives_what_its_descriptor_promises(
    by_schema: dict[str, dict[str, Graph]], schema: str, state: str
) -> None:
    assert len(READS[schema]) > 30
    graph = by_schema[schema][state]
    with_rows = 0
    broken: list[str] = []
    for name, case, compiled in READS[schema]:
        source = query_text(case)
        assert source is not None
        params = {each.name: value_of(each.type) for each in compiled.params}
        try:
            result = graph.query(source.data.decode(), compiled.query.name, params)
        except InternalError as error:
            broken.append(f"{name}: {error}")
            continue
        assert result.to_arrow().schema.equals(promised(compiled), check_metadata=True), name
        with_rows += len(result) > 0
    assert broken == []
    assert with_rows > 30 or state == "empty"


@pytest.fixture(scope="module")
def papers(shared: Opened) -> dict[str, Graph]:
    text = (PAPERS / "schema.pg").read_text(encoding="utf-8")
    made = {state: shared.init(text) for state in ("empty", "filled")}
    made["filled"].load(PAPERS / "papers-small.ndjson", mode="append")
    return made


def asked_of_papers(graph: Graph) -> dict[str, Mapping[str, object]]:
    """Parameters with which every query of the example finds something in the sample."""
    source = (PAPERS / "queries.gq").read_text(encoding="utf-8")
    found = graph.query(
        "query q() { match { $a: Author $a wrote $p $p hasTopic $t $q cites $p }"
        " return { $p.slug, $p.embedding, $p.abstract, $t.slug as topic, $a.handle, $q.slug as by }"
        " limit 1 }"
    ).to_dicts()
    some = found[0] if found else {}
    given: dict[str, object] = {
        "slug": some.get("p.slug", "p2020-0001"),
        "handle": some.get("a.handle", "zelma-keloway"),
        "embedding": some.get("p.embedding", [1.0] * 16),
        "topic": some.get("topic", "t"),
        "exclude": "none",
        "text": str(some.get("p.abstract", "graph"))[:30],
        "phrase": "graph",
        "word": "graph",
        "keyword": "graph",
        "intent": "uses",
        "series": "none",
        "year": 2024,
        "before": "2100-01-01",
        "since": "1900-01-01",
    }
    return {
        query.name: {param.name: given[param.name] for param in query.params}
        for query in parse_query_file(source)
        if not query.is_mutation
    }


@pytest.mark.parametrize("state", thinned(["filled", "empty"]))
def test_every_query_of_the_example_gives_what_its_descriptor_promises(
    papers: dict[str, Graph], state: str
) -> None:
    graph = papers[state]
    source = (PAPERS / "queries.gq").read_text(encoding="utf-8")
    asked = asked_of_papers(graph)
    assert len(asked) == 15
    with_rows: list[str] = []
    for name, params in asked.items():
        compiled = compile_query(graph.schema.catalog, source, name)
        result = graph.query(source, name, params)
        assert result.to_arrow().schema.equals(promised(compiled), check_metadata=True), name
        if len(result):
            with_rows.append(name)
    if state == "empty":
        assert with_rows == []
    else:
        assert {"paper_by_slug", "papers_of_author", "most_cited", "topic_overview",
                "search_abstracts", "similar_papers", "hybrid_search"} <= {*with_rows}  # fmt: skip
