"""The door through which every embedder is used, ours and injected ones alike.

It checks texts before and vectors after, so that nobody else has to. An embedder behind it never
sees an empty list, an empty text, or more texts at once than the settings allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from omnigraph.embedding.embedder import is_mock
from omnigraph.embedding.texts import check_texts, in_batches
from omnigraph.embedding.vectors import to_vectors
from omnigraph.errors import EmbeddingFailed, InvalidArgument, OmnigraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from omnigraph.embedding.embedder import Embedder, Purpose


class CheckedEmbedder:
    """An embedder that keeps the contract, or says at which text it was broken.

    Calls from several threads are as safe as those of the embedder behind it; ours are safe.
    """

    __slots__ = ("_batch_texts", "_embedder", "_release")

    def __init__(
        self, embedder: Embedder, *, batch_texts: int | None, release: Callable[[], None] | None
    ) -> None:
        self._embedder = embedder
        self._batch_texts = batch_texts
        self._release = release

    @property
    def model(self) -> str:
        """The text that is compared with `@embed(model=…)`."""
        return self._embedder.model

    @property
    def is_mock(self) -> bool:
        """Whether the mock is behind it."""
        return is_mock(self._embedder)

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        """One vector of length 1 per text, in order, in an array of shape (texts, dimension).

        No text means no call to the provider, and needs no key.

        Raises:
            InvalidArgument: `texts` is one text, or `dimension` is below 1.
            EmbeddingInvalid: an empty text, or a vector that breaks the contract; `position`.
            EmbeddingUnavailable: no key, no such embedder, or the provider refused.
            EmbeddingFailed: no answer within the deadline and the attempts; may be sent again.
        """
        check_texts(texts)
        if dimension < 1:
            raise InvalidArgument(
                f"dimension must be at least 1, not {dimension}", argument="dimension"
            )
        vectors = np.empty((len(texts), dimension), dtype=np.float32)
        for first, batch in in_batches(texts, self._batch_texts or max(1, len(texts))):
            rows = self._call(batch, dimension, purpose)
            vectors[first : first + len(batch)] = to_vectors(
                rows, count=len(batch), dimension=dimension, first=first
            )
        return vectors

    def close(self) -> None:
        """Release the connections of an embedder that was opened here.

        No call may be under way. A later one opens connections again. An injected embedder belongs
        to whoever made it, and is not closed.
        """
        if self._release is not None:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, batch: Sequence[str], dimension: int, purpose: Purpose) -> object:
        try:
            return self._embedder.embed(batch, dimension=dimension, purpose=purpose)
        except OmnigraphError:
            raise
        except Exception as error:  # An injected embedder may raise anything.
            name = type(self._embedder).__name__
            raise EmbeddingFailed(
                f"embedder {name} raised {type(error).__name__} for {len(batch)} texts; its cause"
                " tells more",
                provider=name,
                status=None,
                attempts=1,
            ) from error


def checked(embedder: Embedder, *, batch_texts: int) -> CheckedEmbedder:
    """The embedder behind the checks, in calls of at most `batch_texts` texts.

    One that is checked already is returned as it is.

    Raises:
        InvalidArgument: the object is no embedder.
    """
    if isinstance(embedder, CheckedEmbedder):
        return embedder
    fault = describe_fault(embedder)
    if fault:
        raise InvalidArgument(f"the embedder {fault}", argument="embedder")
    return CheckedEmbedder(embedder, batch_texts=batch_texts, release=None)


def describe_fault(candidate: object) -> str:
    """Why an object is no embedder, to be read after its name; empty if it is one."""
    if isinstance(candidate, type):
        return f"is the class {candidate.__name__}; name an object of it"
    model = getattr(candidate, "model", None)
    if not isinstance(model, str) or not model:
        return f"of type {type(candidate).__name__} has no text `model`"
    if not callable(getattr(candidate, "embed", None)):
        return f"of type {type(candidate).__name__} has no method `embed`"
    return ""
