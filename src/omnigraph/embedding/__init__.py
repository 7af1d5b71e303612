"""The one client that turns text into vectors, for queries, writes and the pipeline."""

from omnigraph.embedding.checked import CheckedEmbedder, checked
from omnigraph.embedding.embedder import Embedder, Purpose, require_model
from omnigraph.embedding.mock import MockEmbedder
from omnigraph.embedding.opening import open_embedder

__all__ = [
    "CheckedEmbedder",
    "Embedder",
    "MockEmbedder",
    "Purpose",
    "checked",
    "open_embedder",
    "require_model",
]
