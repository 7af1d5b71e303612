"""The graph of a data source, opened in whichever process Spark calls it."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from omnigraph.clock import SystemClock
from omnigraph.ids import UlidSource
from omnigraph.pipeline.datasource.options import storage_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.storage.graph_storage import GraphStorage


def open_source_storage(root: str, overrides: Mapping[str, str]) -> GraphStorage:
    """The storage of the graph at this root, with settings that the options replace."""
    from omnigraph.storage.graph_storage import open_storage
    from omnigraph.storage.location import parse_location

    settings = storage_settings(overrides)
    return open_storage(parse_location(root, settings), settings, UlidSource(SystemClock()))


@contextmanager
def open_source_graph(
    root: str, overrides: Mapping[str, str], *, is_writable: bool = False
) -> Iterator[GraphCoordinator]:
    """The graph at this root, for the block."""
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator, OpenMode

    clock = SystemClock()
    graph = GraphCoordinator(
        open_source_storage(root, overrides),
        storage_settings(overrides),
        clock,
        UlidSource(clock),
        mode=OpenMode.READ_WRITE if is_writable else OpenMode.READ_ONLY,
    )
    with closing(graph):
        yield graph
