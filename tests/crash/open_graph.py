"""Opens a graph with an observer of its calls to the store."""

from pathlib import Path

from omnigraph.clock import SystemClock
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.ids import UlidSource
from omnigraph.settings import Settings
from omnigraph.storage.calls import CallObserver
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location


def open_coordinator(
    root: Path, settings: Settings, *, observer: CallObserver | None = None
) -> GraphCoordinator:
    """The graph, read-write, with every call to its store shown to the observer."""
    clock = SystemClock()
    ids = UlidSource(clock)
    location = parse_location(root, settings.storage)
    storage = open_storage(location, settings.storage, ids, observer=observer)
    return GraphCoordinator(storage, settings.storage, clock, ids)
