"""Vectors of query texts: the graph's embedder, opened when a query first needs it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from omnigraph.errors import InternalError
from omnigraph.lang.catalog import NodeType

if TYPE_CHECKING:
    from omnigraph.clock import Clock
    from omnigraph.embedding import CheckedEmbedder, Embedder
    from omnigraph.graph.arrays import Floats
    from omnigraph.lang import EdgeType
    from omnigraph.settings import EmbeddingSettings


class QueryEmbedder:
    """Embeds query texts; an embedder that was handed in wins over the settings."""

    def __init__(
        self, settings: EmbeddingSettings, clock: Clock, given: Embedder | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.given = given
        self._opened: CheckedEmbedder | None = None
        self._lock = threading.Lock()

    def embed(self, item: NodeType | EdgeType, name: str, text: str) -> Floats:
        """The vector of a text, for comparison with a property.

        Raises:
            EmbeddingUnavailable, EmbeddingInvalid, EmbeddingFailed: there is none.
            EmbeddingModelMismatch: the property was filled by another model.
        """
        from omnigraph.embedding import Purpose, require_model

        where = f"{item.name}.{name}"
        dimension = item.properties[name].type.vector_dim
        if dimension is None:
            raise InternalError(f"{where} is no vector")
        embedder = self.open()
        recorded = item.embeds.get(name) if isinstance(item, NodeType) else None
        require_model(embedder, None if recorded is None else recorded.model, where)
        vectors = embedder.embed([text], dimension=dimension, purpose=Purpose.QUERY)
        return np.asarray(vectors[0], np.float64)

    def open(self) -> CheckedEmbedder:
        """The embedder, behind its checks."""
        from omnigraph.embedding import checked, open_embedder

        with self._lock:
            if self._opened is None:
                if self.given is None:
                    self._opened = open_embedder(self._settings, self._clock)
                else:
                    self._opened = checked(self.given, batch_texts=self._settings.batch_texts)
            return self._opened

    def close(self) -> None:
        """Release its connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
