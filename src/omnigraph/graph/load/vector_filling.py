"""Vectors that a write leaves out, made from the texts that they stand for.

A text is embedded once for each write, however often the write is prepared. With a memory, also
once for all processes and runs that share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embedding import Purpose, require_model
from omnigraph.errors import InternalError
from omnigraph.graph.arrays import one_array
from omnigraph.lang.catalog import NodeType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from omnigraph.embedding import CheckedEmbedder
    from omnigraph.lang.catalog import EdgeType

    Vector: TypeAlias = npt.NDArray[np.float32]

_TEXTS_AT_ONCE: Final = 96
"""A call to the embedder has one deadline, so a large load makes many."""


class VectorMemory(Protocol):
    """Vectors that outlive the write that asked for them."""

    def recall_texts(self, model: str, dimension: int, texts: Sequence[str]) -> list[Vector | None]:
        """For each text its vector, or `None`."""
        ...

    def keep_texts(self, model: str, dimension: int, texts: Sequence[str], vectors: Vector) -> None:
        """Remember what an embedder gave."""
        ...


@dataclass(kw_only=True)
class VectorFiller:
    """Fills vectors for one write."""

    open_embedder: Callable[[], CheckedEmbedder]
    """Called once, when the first text is embedded: a write without one needs no embedder."""
    fills_nullable: bool = False
    """Vectors that may be null are filled too."""
    memory: VectorMemory | None = None
    """Asked before the embedder is; for writes whose parts may run more than once."""
    _vectors: dict[tuple[str | None, int, str], Vector] = field(default_factory=dict)
    """By recorded model, dimension and text: the schema may change while a write is prepared."""
    _embedder: CheckedEmbedder | None = None

    def vectors(self, item: NodeType, name: str, texts: Sequence[str]) -> list[Vector]:
        """The vectors of texts for one property.

        Raises:
            EmbeddingUnavailable, EmbeddingInvalid, EmbeddingFailed: there are none.
            EmbeddingModelMismatch: the property belongs to another model.
        """
        model, dimension = item.embeds[name].model, item.properties[name].type.vector_dim
        if dimension is None:
            raise InternalError(f"{item.name}.{name} is no vector")
        missing = [
            each for each in dict.fromkeys(texts) if (model, dimension, each) not in self._vectors
        ]
        if missing:
            embedder = self._embedder = self._embedder or self.open_embedder()
            require_model(embedder, model, f"{item.name}.{name}")
            for start in range(0, len(missing), _TEXTS_AT_ONCE):
                chunk = missing[start : start + _TEXTS_AT_ONCE]
                for text, vector in zip(
                    chunk, self._embedded(embedder, dimension, chunk), strict=True
                ):
                    self._vectors[model, dimension, text] = vector
        return [self._vectors[model, dimension, text] for text in texts]

    def _embedded(
        self, embedder: CheckedEmbedder, dimension: int, texts: list[str]
    ) -> list[Vector]:
        known: list[Vector | None] = [None] * len(texts)
        if self.memory is not None:
            known = self.memory.recall_texts(embedder.model, dimension, texts)
        new = [text for text, vector in zip(texts, known, strict=True) if vector is None]
        vectors = embedder.embed(new, dimension=dimension, purpose=Purpose.DOCUMENT)
        if new and self.memory is not None:
            self.memory.keep_texts(embedder.model, dimension, new, vectors)
        fresh = iter(vectors)
        return [next(fresh) if vector is None else vector for vector in known]

    def close(self) -> None:
        """Let the embedder go, if one was opened; it is opened again when it is needed."""
        if self._embedder is not None:
            self._embedder.close()
            self._embedder = None

    def filled(self, item: NodeType | EdgeType, table: pa.Table) -> pa.Table:
        """The rows with every vector that may be filled.

        Raises:
            as `vectors`.
        """
        embeds = item.embeds if isinstance(item, NodeType) else {}
        for name, embed in embeds.items():
            if isinstance(item, NodeType) and (
                self.fills_nullable or not item.properties[name].type.nullable
            ):
                table = self._with_vectors(item, table, name, embed.source)
        return table

    def _with_vectors(self, item: NodeType, table: pa.Table, name: str, source: str) -> pa.Table:
        held: pa.Array[Any] = one_array(table[name])  # Any: a column of vectors
        texts: pa.Array[Any] = one_array(table[source])  # Any: as above
        wanted = pc.and_(held.is_null(), texts.is_valid())
        at = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
        if not len(at):
            return table
        made = self.vectors(item, name, [str(each) for each in texts.take(at).to_pylist()])
        column = with_vectors(held, at, np.stack(made))
        position = table.schema.get_field_index(name)
        return table.set_column(position, table.schema.field(position), column)


# Any: a column of vectors
def with_vectors(
    held: pa.Array[Any], at: npt.NDArray[np.int64], made: npt.NDArray[Any]
) -> pa.Array[Any]:
    """A column of vectors with others at some places."""
    size = held.type.list_size
    parts = np.zeros((len(held), size), np.float32)
    given = np.flatnonzero(held.is_valid().to_numpy(zero_copy_only=False))
    if len(given):
        parts[given] = pc.list_flatten(held).to_numpy(zero_copy_only=False).reshape(-1, size)
    parts[at] = made
    absent = np.ones(len(held), np.bool_)
    absent[at] = False
    absent[given] = False
    return pa.FixedSizeListArray.from_arrays(
        pa.array(parts.reshape(-1), pa.float32()),
        type=held.type,
        mask=pa.array(absent, pa.bool_()),
    )


def without_missing_vectors(item: NodeType | EdgeType, table: pa.Table) -> pa.Table:
    """The rows with zeros for required vectors that are missing: for rows that are only checked."""
    embeds = item.embeds if isinstance(item, NodeType) else {}
    for name in embeds:
        held: pa.Array[Any] = one_array(table[name])  # Any: a column of vectors
        if held.null_count and not item.properties[name].type.nullable:
            blank = [0.0] * held.type.list_size
            kept = [blank if each is None else each for each in held.to_pylist()]
            position = table.schema.get_field_index(name)
            table = table.set_column(
                position, table.schema.field(position), pa.array(kept, held.type)
            )
    return table
