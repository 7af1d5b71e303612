"""Vectors that a write leaves out: asked for once, and never those of another schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from omnigraph.embedding import MockEmbedder, Purpose, checked
from omnigraph.errors import EmbeddingModelMismatch
from omnigraph.graph.load.vector_filling import VectorFiller
from omnigraph.lang import compile_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from omnigraph.lang.catalog import NodeType


@dataclass
class Asked:
    """An embedder that remembers what it was asked for."""

    model: str = "mock"
    texts: list[str] = field(default_factory=list)

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        self.texts += texts
        return MockEmbedder().embed(texts, dimension=dimension, purpose=purpose)


def doc(vector: str) -> NodeType:
    return compile_schema(f"node Doc {{ t: String  v: {vector} }}").node_types["Doc"]


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def filler(asked: Asked) -> VectorFiller:
    return VectorFiller(open_embedder=lambda: checked(asked, batch_texts=96))


def test_a_text_is_embedded_once_however_often_a_write_is_prepared(
    filler: VectorFiller, asked: Asked
) -> None:
    item = doc('Vector(3) @embed("t")')
    first = filler.vectors(item, "v", ["a", "b", "a"])
    filler.close()
    assert filler.vectors(item, "v", ["b"])[0].tolist() == first[1].tolist()
    assert asked.texts == ["a", "b"]


def test_a_vector_of_another_dimension_is_not_used_again(
    filler: VectorFiller, asked: Asked
) -> None:
    (short,) = filler.vectors(doc('Vector(3) @embed("t")'), "v", ["a"])
    (long,) = filler.vectors(doc('Vector(4) @embed("t")'), "v", ["a"])
    assert (len(short), len(long)) == (3, 4)
    assert asked.texts == ["a", "a"]


def test_a_model_that_is_recorded_later_is_compared_though_the_text_is_known(
    filler: VectorFiller,
) -> None:
    filler.vectors(doc('Vector(3) @embed("t")'), "v", ["a"])
    filler.vectors(doc('Vector(3) @embed("t", model="mock")'), "v", ["a"])
    with pytest.raises(EmbeddingModelMismatch, match="'other'"):
        filler.vectors(doc('Vector(3) @embed("t", model="other")'), "v", ["a"])
