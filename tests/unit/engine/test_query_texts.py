"""Texts as query vectors: embedded once, by the graph's own embedder, with the recorded model."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.engine.graphs import Opened, ask, fill, first_of

from omnigraph import Graph
from omnigraph.embedding import Purpose
from omnigraph.errors import (
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    InvalidQueryVector,
)

SCHEMA = """
node Doc {
  slug: String @key
  body: String?
  vec: Vector(3)? @embed(body, model="letters")
  free: Vector(2)?
}
"""
LETTERS = "abc"


class LetterEmbedder:
    """Counts letters: texts with the same letters are near each other."""

    def __init__(self, model: str = "letters") -> None:
        self.model = model
        self.calls: list[tuple[tuple[str, ...], int, Purpose]] = []

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        self.calls.append((tuple(texts), dimension, purpose))
        rows = [[float(text.count(each)) for each in LETTERS[:dimension]] for text in texts]
        lengths = [math.hypot(*row) or 1.0 for row in rows]
        parts = [[part / length for part in row] for row, length in zip(rows, lengths, strict=True)]
        return np.asarray(parts, np.float32)


DOCS: list[dict[str, object]] = [
    {"slug": "a", "vec": [1, 0, 0], "free": [1, 0]},
    {"slug": "b", "vec": [0, 1, 0], "free": [0, 1]},
    {"slug": "c", "vec": [0, 0, 1], "free": None},
    {"slug": "n"},
]


def stored(graphs: Opened, embedder: LetterEmbedder | None = None, **env: str) -> Graph:
    graph = graphs.init(SCHEMA, embedder=embedder, **env)
    fill(graph, Doc=DOCS)
    return graph


def nearest(graph: Graph, text: str, column: str = "vec", limit: int = 9) -> list[str]:
    tail = f"order {{ nearest($d.{column}, $q) }} limit {limit}"
    found = ask(graph, "$d: Doc", "$d", declared="$q: String", params={"q": text}, tail=tail)
    return first_of(found)


def test_a_text_is_embedded_for_the_dimension_of_the_property(graphs: Opened) -> None:
    embedder = LetterEmbedder()
    graph = stored(graphs, embedder)
    assert nearest(graph, "bbbba c") == ["b", "a", "c"]
    assert nearest(graph, "ccb") == ["c", "b", "a"]
    assert nearest(graph, "aab", "free", limit=1) == ["a"]
    assert embedder.calls == [
        (("bbbba c",), 3, Purpose.QUERY),
        (("ccb",), 3, Purpose.QUERY),
        (("aab",), 2, Purpose.QUERY),
    ]
    found = ask(graph, "$d: Doc", '$d, nearest($d.vec, "ab") as away')
    assert found[0][1] == pytest.approx(1 - 1 / math.sqrt(2), abs=1e-7)
    assert found[2][1] == pytest.approx(1.0, abs=1e-7)
    assert found[3][1] is None


def test_a_text_is_embedded_once_in_a_request(graphs: Opened) -> None:
    embedder = LetterEmbedder()
    graph = stored(graphs, embedder)
    found = ask(
        graph,
        "$d: Doc $e: Doc nearest($d.vec, $q) < 2 nearest($e.vec, $q) < 2",
        "$d, nearest($d.vec, $q) as away, nearest($e.vec, $q) as other",
        declared="$q: String",
        params={"q": "aab"},
        tail="order { nearest($d.vec, $q), $e } limit 5",
    )
    assert len(found) == 5
    assert [call[0] for call in embedder.calls] == [("aab",)]
    nearest(graph, "aab")
    assert len(embedder.calls) == 2


def test_nothing_is_embedded_for_vectors_and_other_queries(graphs: Opened) -> None:
    embedder = LetterEmbedder("another model")
    graph = stored(graphs, embedder)
    assert first_of(ask(graph, "$d: Doc", "$d")) == ["a", "b", "c", "n"]
    tail = "order { nearest($d.vec, [0, 2, 1]) } limit 1"
    assert first_of(ask(graph, "$d: Doc", "$d", tail=tail)) == ["b"]
    null = ask(graph, "$d: Doc", "nearest($d.vec, $q)", declared="$q: String?", params={"q": None})
    assert null == [(None,)] * 4
    assert embedder.calls == []


def test_another_model_than_the_recorded_one_is_refused_and_named(graphs: Opened) -> None:
    embedder = LetterEmbedder("other")
    graph = stored(graphs, embedder)
    with pytest.raises(EmbeddingModelMismatch, match=r"'letters'.*'other'") as caught:
        nearest(graph, "aab")
    assert caught.value.details == {"where": "Doc.vec", "recorded": "letters", "embedder": "other"}
    assert embedder.calls == []
    # A property that records no model takes any.
    assert nearest(graph, "aab", "free", limit=1) == ["a"]


def test_an_injected_embedder_wins_over_the_settings(graphs: Opened) -> None:
    embedder = LetterEmbedder()
    graph = stored(graphs, embedder, EMBED_PROVIDER="mock")
    assert nearest(graph, "cc", limit=1) == ["c"]
    assert len(embedder.calls) == 1


def test_an_opened_graph_takes_its_own_embedder(graphs: Opened) -> None:
    graph = stored(graphs)
    embedder = LetterEmbedder()
    other = graphs.again(graph, embedder=embedder)
    assert nearest(other, "cc", limit=1) == ["c"]
    assert len(embedder.calls) == 1


def test_an_empty_text_and_a_vector_without_direction_are_refused(graphs: Opened) -> None:
    graph = stored(graphs, LetterEmbedder())
    with pytest.raises(EmbeddingInvalid):
        nearest(graph, "")
    with pytest.raises((EmbeddingInvalid, InvalidQueryVector)):
        nearest(graph, "xyz")
    assert nearest(graph, "a", limit=1) == ["a"]


def test_an_error_of_the_embedder_leaves_the_graph_usable(graphs: Opened) -> None:
    class Broken(LetterEmbedder):
        def embed(
            self, texts: Sequence[str], *, dimension: int, purpose: Purpose
        ) -> npt.NDArray[np.float32]:
            if texts[0] == "fail":
                return np.ones((1, dimension + 1), np.float32)
            return super().embed(texts, dimension=dimension, purpose=purpose)

    graph = stored(graphs, Broken())
    with pytest.raises(EmbeddingInvalid):
        nearest(graph, "fail")
    assert nearest(graph, "b", limit=1) == ["b"]


def test_rrf_embeds_the_text_of_its_arm(graphs: Opened) -> None:
    embedder = LetterEmbedder()
    graph = graphs.init(SCHEMA, embedder=embedder)
    docs = [{**row, "body": f"word {row['slug']}"} for row in DOCS]
    fill(graph, Doc=docs)
    call = 'rrf(nearest($d.vec, "bb"), bm25($d.body, "c"))'
    found = ask(graph, "$d: Doc", "$d", tail=f"order {{ {call} }} limit 1")
    assert first_of(found) in (["b"], ["c"])
    assert [each[0] for each in embedder.calls] == [("bb",)]
