"""Opens a graph with an observer of its calls to the store, or with a clock that leaps."""

from pathlib import Path
from unittest.mock import patch

from tests.crash.leaping import Leaping, standing_clock

from omnigraph.clock import Clock, SystemClock
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
    return _coordinator(root, settings, SystemClock(), observer)


def open_leaping(root: Path, settings: Settings) -> GraphCoordinator:
    """The graph, read-write, that waits for nobody's lease: its clock leaps over it instead."""
    clock = standing_clock()
    ttl_ms = settings.storage.lease_ttl_ms
    # Opening takes leases, too, before there is a coordinator to be told.
    with patch("omnigraph.graph.lifecycle.coordinator.Pauses", lambda _: Leaping(clock, ttl_ms)):
        return _coordinator(root, settings, clock, None)


def _coordinator(
    root: Path, settings: Settings, clock: Clock, observer: CallObserver | None
) -> GraphCoordinator:
    ids = UlidSource(SystemClock())
    location = parse_location(root, settings.storage)
    storage = open_storage(location, settings.storage, ids, observer=observer)
    return GraphCoordinator(storage, settings.storage, clock, ids)
