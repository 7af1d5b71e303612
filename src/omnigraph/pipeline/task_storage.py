"""The storage of the graph inside a task.

It is opened from what the driver ships, with the executor's own settings: credentials never travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.clock import SystemClock
from omnigraph.ids import UlidSource
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import Pin, TableHandle, TableLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """One version of one table, as a task gets it."""

    layout: TableLayout
    pin: Pin


def open_task_storage(root: str) -> GraphStorage:
    """The storage of the graph at this root."""
    from omnigraph.storage.graph_storage import open_storage
    from omnigraph.storage.location import parse_location

    settings = load_process_settings().storage
    return open_storage(parse_location(root, settings), settings, UlidSource(SystemClock()))


def open_task_table(storage: GraphStorage, table: TaskTable) -> TableHandle:
    """The table at its pin."""
    return storage.tables.open(table.layout, table.pin)
