"""Vectors without a model: a pure function of model, dimension and text.

Equal texts get equal vectors and different texts unrelated ones, on every machine and in every
process, to the last bit. They carry no meaning: neighbours by them are accidental.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from omnigraph.embedding.embedder import Purpose

_PERSON: Final = b"omnigraph embed"
_BLOCK_BYTES: Final = 64
_VALUES_PER_BLOCK: Final = _BLOCK_BYTES // 4


class MockEmbedder:
    """The embedder of the provider `mock`."""

    __slots__ = ("_model",)

    is_mock: ClassVar[bool] = True
    """It stands in for every model, so that no recorded one is held against it."""

    def __init__(self, model: str = "mock") -> None:
        self._model = model

    @property
    def model(self) -> str:
        """The text that is compared with `@embed(model=…)`."""
        return self._model

    def embed(
        self,
        texts: Sequence[str],
        *,
        dimension: int,
        purpose: Purpose,  # noqa: ARG002 - a query finds the equal document
    ) -> npt.NDArray[np.float32]:
        """One vector of length 1 per text."""
        rows = np.empty((len(texts), dimension), dtype=np.float32)
        for at, text in enumerate(texts):
            rows[at] = _vector(self._model, dimension, text)
        return rows


def _vector(model: str, dimension: int, text: str) -> npt.NDArray[np.float64]:
    seed = _digest(_sized(model.encode()) + _sized(str(dimension).encode()) + _sized(text.encode()))
    blocks = -(-dimension // _VALUES_PER_BLOCK)
    stream = b"".join(_digest(seed + at.to_bytes(8, "little")) for at in range(blocks))
    drawn = np.frombuffer(stream, dtype="<u4")[:dimension].astype(np.float64)
    # Odd numerators: every value is exact in float64, and none is zero.
    values = (2 * drawn + 1) / 2**32 - 1
    # The sum of an array differs between machines in its last bits; the sum of fsum does not.
    length: np.float64 = np.float64(math.sqrt(math.fsum((values * values).tolist())))
    unit: npt.NDArray[np.float64] = values / length
    return unit


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_BLOCK_BYTES, person=_PERSON).digest()


def _sized(data: bytes) -> bytes:
    """The bytes after their number, so that no two triples run together to the same bytes."""
    return len(data).to_bytes(8, "little") + data
