"""Everything of one graph that is stored, behind one object: control objects, manifest, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.failpoints import arm_from, parse_points
from omnigraph.storage.calls import StoreCalls
from omnigraph.storage.durability import durability_of
from omnigraph.storage.files import line_folder, version_name
from omnigraph.storage.manifest import ManifestStorage
from omnigraph.storage.objects import StorageAdapter
from omnigraph.storage.old_versions import OldVersions
from omnigraph.storage.table_store import TableStore

if TYPE_CHECKING:
    from omnigraph.ids import IdSource
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.calls import CallObserver
    from omnigraph.storage.durability import Durable
    from omnigraph.storage.handles import Pin
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
    old_versions: OldVersions

    def has_version(self, pin: Pin) -> bool:
        """Whether a version of a table is still there, asked of the store whatever is cached."""
        folder = line_folder(pin.location, pin.branch)
        return self.objects.head(f"{folder}/_versions/{version_name(pin.version)}") is not None

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
    tables = TableStore(
        location,
        calls,
        durable,
        ids,
        get=objects.get,
        delete=objects.delete,
        delete_prefix=objects.delete_prefix,
    )
    return GraphStorage(
        location=location,
        objects=objects,
        durable=durable,
        manifest=ManifestStorage(location, calls, durable, objects),
        tables=tables,
        old_versions=OldVersions(location, calls, objects, tables),
    )
