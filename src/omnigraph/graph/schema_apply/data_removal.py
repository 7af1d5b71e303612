"""What a schema change that may lose data removes, once it is visible that the data is gone.

Of a table that lost columns every version from before goes, of a type that was dropped the whole
table. What a tag, a running job or another line of the table still needs stays: whoever asked for
the removal is told, and `cleanup` removes it when nobody needs it any more. The change itself has
landed, so nothing that goes wrong here undoes it, or is an error of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmnigraphError
from omnigraph.graph.history.named_rows import holding
from omnigraph.graph.maintenance.cleanup_facts import gather_facts, needed_now
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE
from omnigraph.graph.schema_apply.applied import KeptData
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.storage.handles import TableLayout

log = logging.getLogger(__name__)

_NEEDED: Final = "a tag, a running job or a branch still needs some of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedData:
    """Data of one table that nothing shows any more."""

    ref: TableRef
    table_key: str
    location: str
    below: int | None
    """The first version without it; `None` if the table itself is gone."""

    @property
    def layout(self) -> TableLayout:
        """The table, without its columns."""
        return bare_layout(self.ref, self.table_key, self.location)


def remove_dropped(graph: GraphCoordinator, dropped: Sequence[DroppedData]) -> list[KeptData]:
    """Remove what was dropped for good, and tell what stays and why."""
    if not dropped:
        return []
    try:
        with holding(graph, MAINTENANCE_SCOPE) as (lease,):
            found = (_remove(graph, table, lease.check) for table in dropped)
            return [kept for kept in found if kept is not None]
    except (OmnigraphError, StorageSignal) as error:
        return [_kept(table, str(error)) for table in dropped]


def _remove(
    graph: GraphCoordinator, table: DroppedData, check: Callable[[], None]
) -> KeptData | None:
    """Remove the data of one table, but for what somebody needs."""
    needed = _needed(graph, table.location)
    stored = [each.version for each in graph.storage.old_versions.of(table.location, None).versions]
    check()
    if table.below is not None:
        kept = needed.get(None, frozenset())
        old = {version for version in stored if version < table.below}
        graph.storage.old_versions.remove(table.layout, None, old - kept)
        return _kept(table, _NEEDED) if old & kept else None
    if needed:
        return _kept(table, _NEEDED)
    graph.storage.objects.delete_prefix(table.location)
    graph.storage.objects.remove_empty_folders(table.location)
    graph.tables.forget(table.layout, None, stored)
    return None


def _needed(graph: GraphCoordinator, location: str) -> dict[str | None, frozenset[int]]:
    """By line of a table: versions that tags, forks, armed writes and running jobs name."""
    facts = gather_facts(graph)
    found: dict[str | None, frozenset[int]] = {}
    for floor in (facts.forks, facts.tagged, *needed_now(graph).values()):
        for (where, branch), versions in floor.items():
            if where == location:
                found[branch] = found.get(branch, frozenset()) | versions
    return found


def _kept(table: DroppedData, reason: str) -> KeptData:
    log.warning("dropped data stays", extra={"table": table.table_key, "why": reason})
    return KeptData(table_key=table.table_key, reason=reason)
