"""Everything of one graph that is stored, behind one object: control objects, manifest, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.failpoints import arm_from, parse_points
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import durability_of
from omnigraph.storage.manifest import ManifestStorage
from omnigraph.storage.objects import StorageAdapter
from omnigraph.storage.table_store import TableStore

if TYPE_CHECKING:
    from omnigraph.ids import IdSource
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.calls import CallObserver
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.location import GraphLocation
    from omnigraph.storage.table_store import TableStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStorage:
    """The parts that one graph is stored with."""

    location: GraphLocation
    objects: StorageAdapter
    manifest: ManifestStorage
    tables: TableStorage
    durable: Durable

    def sync_root(self) -> None:
        """Make the folder of the graph, and those above it, durable."""
        self.durable.sync_root()


def open_storage(
    location: GraphLocation,
    settings: StorageSettings,
    ids: IdSource,
    *,
    observer: CallObserver | None = None,
) -> GraphStorage:
    """The storage of the graph at a location; touches nothing yet."""
    if settings.testing and settings.failpoints:
        arm_from(parse_points(settings.failpoints))
    calls = StoreCalls(observer, root=str(location))
    durable = durability_of(location, settings.durability, calls)
    objects = StorageAdapter(location, calls, durable)
    return GraphStorage(
        location=location,
        objects=objects,
        durable=durable,
        manifest=ManifestStorage(location, calls, durable, objects),
        tables=TableStore(
            location, calls, durable, ids, get=objects.get, delete_prefix=objects.delete_prefix
        ),
    )
