"""What an embedder is, and the comparison of its model with the one that a schema records.

The mock is compared with none: its vectors mean nothing, whatever model they stand in for.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import EmbeddingModelMismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt


class Purpose(StrEnum):
    """What the vectors are for; some models embed a question and its answers differently."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Turns texts into vectors; whoever implements it must allow calls from several threads."""

    @property
    def model(self) -> str:
        """The text that is compared with `@embed(model=…)`."""
        ...

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        """One row of `dimension` values per text, in order."""
        ...


def require_model(embedder: Embedder, recorded_model: str | None, where: str) -> None:
    """Do nothing if the embedder's model is the recorded one, if none is recorded, or for the mock.

    `where` names what records it, as a reader of the error knows it: `Doc.vec`.

    Raises:
        EmbeddingModelMismatch: the two differ; vectors of different models cannot be compared.
    """
    if recorded_model is None or is_mock(embedder) or embedder.model == recorded_model:
        return
    raise EmbeddingModelMismatch(
        f"{where} records the embedding model {recorded_model!r}, and the embedder has"
        f" {embedder.model!r}; vectors of two models cannot be compared: configure the recorded"
        " model, or pass a vector",
        where=where,
        recorded=recorded_model,
        embedder=embedder.model,
    )


def is_mock(embedder: Embedder) -> bool:
    """Whether it is the mock, or has the mock behind it."""
    # No member of the protocol: an embedder that somebody wrote has a model and need not say so.
    return getattr(embedder, "is_mock", False) is True
