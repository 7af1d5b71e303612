"""The storage of the graph inside a task.

It is opened from what the driver ships, with the executor's own settings: credentials never travel.
Only a data source that was given settings of its own puts them in force, for the time of a call.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.clock import SystemClock
from omnigraph.ids import MAIN_BRANCH_ID, UlidSource
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.settings import StorageSettings
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import Pin, TableHandle, TableLayout


_IN_FORCE: Final[ContextVar[StorageSettings | None]] = ContextVar(
    "omnigraph_task_storage", default=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTable:
    """One version of one table, as a task gets it."""

    layout: TableLayout
    pin: Pin


@contextmanager
def storing_with(settings: StorageSettings) -> Iterator[None]:
    """Have `open_task_storage` use these settings for the block, in this thread."""
    token = _IN_FORCE.set(settings)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def open_task_storage(root: str) -> GraphStorage:
    """The storage of the graph at this root."""
    from omnigraph.storage.graph_storage import open_storage
    from omnigraph.storage.location import parse_location

    settings = _IN_FORCE.get() or load_process_settings().storage
    return open_storage(parse_location(root, settings), settings, UlidSource(SystemClock()))


def prove_access(root: str) -> None:
    """Read what every graph has.

    Raises:
        ObjectMissing: this process sees no graph there.
        OmnigraphError: it may not read it.
    """
    open_task_storage(root).manifest.open_line(MAIN_BRANCH_ID)


def open_task_table(storage: GraphStorage, table: TaskTable) -> TableHandle:
    """The table at its pin."""
    return storage.tables.open(table.layout, table.pin)
