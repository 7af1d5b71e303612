"""The public Python API of an embedded graph."""

from omnigraph.api.graph import Graph

__all__ = ["Graph"]
