"""Vectors of texts: when a write fills them, with what, and how often the embedder is asked."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from tests.unit.engine.graphs import Opened, fill

from omnigraph import Graph
from omnigraph.embedding import MockEmbedder, Purpose
from omnigraph.errors import (
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    EmbeddingUnavailable,
    KeyConflict,
    LoadRejected,
)
from omnigraph.failpoints import armed

SCHEMA = """
node Doc {
  name: String @key
  body: String?
  title: String? @default("untitled")
  code: String? @unique
  vec: Vector(4) @embed("body")
  other: Vector(3)? @embed("title")
}
node Plain { name: String @key  v: Vector(2)? }
edge Cites: Doc -> Doc @card(0..2)
"""


class Counting:
    """The mock, with what it was asked."""

    def __init__(self, model: str = "mock") -> None:
        self._mock = MockEmbedder(model)
        self.asked: list[tuple[int, Purpose, list[str]]] = []

    @property
    def model(self) -> str:
        return self._mock.model

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        self.asked.append((dimension, purpose, list(texts)))
        return self._mock.embed(texts, dimension=dimension, purpose=purpose)

    @property
    def texts(self) -> list[str]:
        return [text for _, _, texts in self.asked for text in texts]


def doc(name: str, body: str | None, **more: object) -> dict[str, object]:
    return {"type": "Doc", "data": {"name": name, "body": body, **more}}


def lines(*records: dict[str, object]) -> bytes:
    return "\n".join(json.dumps(each) for each in records).encode()


def vectors(graph: Graph, column: str = "vec") -> dict[str, list[float] | None]:
    found = graph.snapshot().scan("Doc", columns=["name", column]).read_all().to_pylist()
    return {row["name"]: row[column] for row in found}


def mock(text: str, dimension: int = 4) -> list[float]:
    rows = MockEmbedder().embed([text], dimension=dimension, purpose=Purpose.DOCUMENT)
    return [float(part) for part in rows[0]]


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def graph(graphs: Opened, embedder: Counting) -> Graph:
    return graphs.init(SCHEMA, embedder=embedder)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_each_text_is_embedded_once_and_given_vectors_stay(
    graph: Graph, embedder: Counting, mode: str
) -> None:
    graph.load(
        lines(
            doc("a", "red"),
            doc("b", "blue"),
            doc("c", "red", vec=[1, 0, 0, -0.0]),
            doc("d", "red"),
            doc("e", None, vec=[0, 1, 0, 0]),
        ),
        mode=mode,  # type: ignore[arg-type]  # one of the three
    )
    assert embedder.asked == [(4, Purpose.DOCUMENT, ["red", "blue"])]
    assert vectors(graph) == {
        "a": mock("red"),
        "b": mock("blue"),
        "c": [1, 0, 0, 0],
        "d": mock("red"),
        "e": [0, 1, 0, 0],
    }
    assert set(vectors(graph, "other").values()) == {None}


def test_nullable_vectors_are_filled_on_request_only(graph: Graph, embedder: Counting) -> None:
    graph.load(
        lines(
            doc("a", "x"),
            doc("b", "x", title="t"),
            doc("c", "x", title=None),
            doc("d", "x", title="t", other=[1, 2, 3]),
        ),
        mode="append",
        embed=True,
    )
    assert vectors(graph, "other") == {
        "a": mock("untitled", 3),
        "b": mock("t", 3),
        "c": None,
        "d": [1, 2, 3],
    }
    assert sorted(embedder.texts) == ["t", "untitled", "x"]


def test_tables_are_filled_as_lines_are(graph: Graph, embedder: Counting) -> None:
    graph.load({"Doc": pa.table({"name": ["a", "b"], "body": ["x", "x"]})}, mode="append")
    assert vectors(graph) == {"a": mock("x"), "b": mock("x")}
    assert embedder.texts == ["x"]


def test_a_row_without_a_text_and_without_a_vector_is_refused(
    graph: Graph, embedder: Counting
) -> None:
    with pytest.raises(LoadRejected) as caught:
        graph.load(lines(doc("a", "x"), doc("b", None)), mode="append")
    details: Any = caught.value.details  # Any: JSON
    (found,) = details["violations"]
    assert (found["code"], found["property"], found["input_line"]) == ("required_missing", "vec", 2)
    assert embedder.asked == []


def test_the_embedder_is_not_asked_for_a_load_that_is_refused_or_rehearsed(
    graph: Graph, embedder: Counting
) -> None:
    graph.load(lines(doc("a", None, vec=[1, 0, 0, 0])), mode="append")
    with pytest.raises(KeyConflict):
        graph.load(lines(doc("a", "x")), mode="append")
    with pytest.raises(LoadRejected):
        graph.load(lines(doc("b", "x"), doc("b", "y")), mode="merge")
    with pytest.raises(LoadRejected):
        graph.load(lines(doc("b", "x")) + b"\n{", mode="merge")
    graph.load(lines(doc("b", "x")), mode="merge", dry_run=True)
    assert embedder.asked == []


def test_a_load_that_is_prepared_again_asks_for_no_text_twice(
    graphs: Opened, graph: Graph, embedder: Counting
) -> None:
    other = graphs.again(graph)
    graph.load(lines(doc("old", None, vec=[1, 0, 0, 0])), mode="append")
    prepared: list[int] = []

    def overtake() -> None:
        prepared.append(1)
        if len(prepared) == 1:
            # The load asks how many documents the old one cites, so it has to ask again.
            fill(other, Cites=[{"src": "old", "dst": "old"}])

    with armed("load.post_stage_pre_lease", overtake):
        cites: dict[str, object] = {"edge": "Cites", "from": "old", "to": "a"}
        graph.load(lines(doc("a", "x"), doc("b", "y"), cites), mode="merge")
    assert len(prepared) == 2
    assert embedder.texts == ["x", "y"]
    assert vectors(graph) == {"a": mock("x"), "b": mock("y"), "old": [1, 0, 0, 0]}


def test_many_texts_are_asked_for_in_parts(graph: Graph, embedder: Counting) -> None:
    graph.load(lines(*(doc(f"n{at}", f"t{at % 250}") for at in range(400))), mode="append")
    assert embedder.texts == [f"t{at}" for at in range(250)]
    assert max(len(texts) for _, _, texts in embedder.asked) <= 96
    assert vectors(graph)["n399"] == mock("t149")


def test_without_an_embedder_a_load_that_needs_one_fails_and_another_does_not(
    graphs: Opened,
) -> None:
    graph = graphs.init(SCHEMA)
    graph.load(lines(doc("a", "x", vec=[1, 0, 0, 0])), mode="append")
    with pytest.raises(EmbeddingUnavailable):
        graph.load(lines(doc("b", "x")), mode="append")
    assert list(vectors(graph)) == ["a"]


def test_an_empty_text_has_no_vector(graph: Graph) -> None:
    with pytest.raises(EmbeddingInvalid):
        graph.load(lines(doc("a", "")), mode="append")
    assert vectors(graph) == {}


def test_vectors_of_another_model_are_not_made(graphs: Opened) -> None:
    schema = 'node Doc { name: String @key  body: String  vec: Vector(4) @embed(body, model="m") }'
    graph = graphs.init(schema, embedder=Counting("other"))
    with pytest.raises(EmbeddingModelMismatch, match=r"Doc\.vec"):
        graph.load(lines(doc("a", "x")), mode="append")
    right = graphs.again(graph, embedder=Counting("m"))
    assert right.load(lines(doc("a", "x")), mode="append").commit is not None


def test_the_mock_fills_vectors_of_any_recorded_model(graphs: Opened) -> None:
    schema = 'node Doc { name: String @key  body: String  vec: Vector(4) @embed(body, model="m") }'
    graph = graphs.init(schema, embedder=MockEmbedder())
    graph.load(lines(doc("a", "x")), mode="append")
    graph.mutate('query q() { insert Doc { name: "b", body: "y" } }')
    assert vectors(graph) == {"a": mock("x"), "b": mock("y")}


def test_a_vector_that_stands_for_no_text_is_left_alone(graph: Graph, embedder: Counting) -> None:
    graph.load(b'{"type":"Plain","data":{"name":"a"}}', mode="append", embed=True)
    assert embedder.asked == []
    assert graph.snapshot().scan("Plain", columns=["v"]).read_all()["v"].to_pylist() == [None]


def test_an_explicit_null_for_a_required_vector_is_refused_as_in_a_mutation(
    graph: Graph, embedder: Counting
) -> None:
    with pytest.raises(LoadRejected, match=r"Doc\.vec: expected Vector\(4\), got null"):
        graph.load(lines(doc("a", "text", vec=None)), mode="append")
    assert embedder.asked == []
