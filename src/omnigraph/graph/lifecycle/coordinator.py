"""An open graph: the parts that its readers and writers share, and how it opens.

A read-only open writes no byte and needs only rights to read. A read-write open first makes sure
that the store can hold a graph, migrates it, and settles what crashed writers left.
"""

from __future__ import annotations

import logging
import threading
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchBusy,
    GraphNotFound,
    InvalidArgument,
    ManifestCorrupt,
    OmnigraphError,
    ReadOnlyGraph,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.graph.commit.protocol import CommitParts, CommitProtocol
from omnigraph.graph.lifecycle.deleted_branches import Reclaimer
from omnigraph.graph.lifecycle.init_claim import find_claim, release_stale_claim
from omnigraph.graph.lifecycle.line_upkeep import WIDTH, WIDTH_ON_OBJECT_STORES, LineUpkeep
from omnigraph.graph.lifecycle.tail_folding import is_small, with_fold
from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
from omnigraph.graph.manifest.migrations import MIGRATIONS, migrate_on_open, oldest_migratable
from omnigraph.graph.manifest.pauses import Pauses
from omnigraph.graph.manifest.publisher import ManifestBatchPublisher
from omnigraph.graph.manifest.schemas import Schemas
from omnigraph.graph.manifest.stamp import (
    INTERNAL_MANIFEST_SCHEMA_VERSION,
    Stamp,
    decode_stamp,
    require_readable,
)
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.leases import SCHEMA_SCOPE, LeaseLost, Leases, branch_scope
from omnigraph.graph.recovery.process_identity import this_process
from omnigraph.graph.recovery.recovery import Recovery
from omnigraph.graph.recovery.sidecars import Sidecars
from omnigraph.ids import MAIN_BRANCH_ID, BranchId
from omnigraph.storage.location import require_folder
from omnigraph.storage.probe import probe_store
from omnigraph.storage.signals import ObjectMissing, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.clock import Clock
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.migrations import Migration
    from omnigraph.ids import GraphId, IdSource
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import StagedWrite
    from omnigraph.storage.manifest import LineHandle

log = logging.getLogger(__name__)

_OPEN_WAIT_MS = 2_000


class OpenMode(StrEnum):
    """What a handle may do."""

    READ_WRITE = "read_write"
    READ_ONLY = "read_only"


class GraphCoordinator:
    """The shared state of one open graph."""

    def __init__(
        self,
        storage: GraphStorage,
        settings: StorageSettings,
        clock: Clock,
        ids: IdSource,
        *,
        mode: OpenMode = OpenMode.READ_WRITE,
        keeps_leases: bool = False,
        migrations: tuple[Migration, ...] = MIGRATIONS,
        fills_clone: bool = False,
    ) -> None:
        self.storage = storage
        self.tables = storage.tables
        self.clock = clock
        self.ids = ids
        self.mode = mode
        self.maintenance_concurrency = settings.maintenance_concurrency
        self.kept_versions = settings.maintenance_keep_versions
        self.retention_days = settings.maintenance_retention_days
        self.lease_ttl_ms = settings.lease_ttl_ms
        self.pauses = Pauses(ids)
        process = this_process()
        self.process = process
        self._migrations = migrations
        self._fills_clone = fills_clone
        self.stamp = self._mended_stamp()
        self.schemas = Schemas(storage.objects)
        self.sidecars = Sidecars(storage.objects)
        self.leases = Leases(
            storage.objects,
            clock,
            ids,
            self.pauses,
            settings,
            process,
            linger_ms=settings.lease_linger_ms if keeps_leases else 0,
        )
        self.lines = ManifestCoordinator(
            storage.manifest, self._check_stamp, may_mend=mode is OpenMode.READ_WRITE
        )
        self.publisher = ManifestBatchPublisher(storage.manifest, self.lines, self.pauses, clock)
        self.upkeep = LineUpkeep(
            storage.manifest,
            self.lines,
            self.leases,
            clock,
            width=WIDTH if storage.location.is_local else WIDTH_ON_OBJECT_STORES,
        )
        self.reclaimer = Reclaimer(storage)
        self.recovery = Recovery(
            sidecars=self.sidecars,
            lines=self.lines,
            tables=storage.tables,
            publisher=self.publisher,
            clock=clock,
            process=process,
        )
        self.protocol = CommitProtocol(
            CommitParts(
                graph_id=self.graph_id,
                clock=clock,
                ids=ids,
                pauses=self.pauses,
                tables=storage.tables,
                schemas=self.schemas,
                lines=self.lines,
                publisher=self.publisher,
                leases=self.leases,
                sidecars=self.sidecars,
                recovery=self.recovery,
                with_upkeep=self._with_upkeep if settings.auto_maintenance else _as_it_is,
                after_publish=self._after_publish,
            )
        )
        self.on_folded: Callable[[BranchId], None] | None = None
        """Told of a branch after a small write to it that folded the tail of a table."""
        self._folded: set[BranchId] = set()
        self._closing = threading.Lock()
        self._is_closed = False
        self._endings: list[Callable[[], None]] = []
        if mode is OpenMode.READ_WRITE:
            self._make_writable()

    @property
    def graph_id(self) -> GraphId:
        """The identity of the graph."""
        return self.stamp.graph_id

    def require_writable(self) -> None:
        """Refuse a write on a read-only handle.

        Raises:
            ReadOnlyGraph: the graph was opened with mode `read_only`.
        """
        if self.mode is OpenMode.READ_ONLY:
            raise ReadOnlyGraph(
                "this graph is open read-only; open it with mode='read_write' to change it"
            )

    def branch_id(self, name: str) -> BranchId:
        """The id of the live branch of that name.

        Raises:
            BranchNotFound: there is none.
            InvalidArgument: it is no name at all.
        """
        return self.lines.branch_id(name)

    def _with_upkeep(self, txn: WriteTxn, staged: StagedWrite) -> StagedWrite:
        kept_up = with_fold(self.tables, staged, txn.stamp)
        if kept_up is not staged and is_small(staged):
            self._folded.add(txn.branch_id)
        return kept_up

    def _after_publish(self, branch_id: BranchId) -> None:
        if branch_id in self._folded:
            self._folded.discard(branch_id)
            if self.on_folded is not None:
                self.on_folded(branch_id)
        self.upkeep.after_publish(branch_id)

    def refresh(self) -> None:
        """See the newest heads, and finish writes that only lack their publish."""
        self.lines.read(MAIN_BRANCH_ID)
        if self.mode is OpenMode.READ_WRITE:
            self._sweep(wait_ms=0, may_restore=False)

    def at_close(self, end: Callable[[], None]) -> None:
        """Have something that runs in the background ended before leases are released.

        Raises:
            InvalidArgument: the graph is closed.
        """
        with self._closing:
            if self._is_closed:
                raise InvalidArgument("this graph is closed; open it again")
            self._endings.append(end)

    def close(self) -> None:
        """End what runs in the background and release leases; safe twice."""
        with self._closing:
            self._is_closed = True
            endings, self._endings = self._endings, []
        for end in reversed(endings):
            end()
        self.upkeep.close()
        self.reclaimer.close()
        self.leases.close()

    def _mended_stamp(self) -> Stamp:
        """The stamp; a head that a power cut tore is set aside by whoever may write."""
        try:
            return self._opened_stamp()
        except (ManifestCorrupt, StorageUnavailable):
            if self.mode is OpenMode.READ_ONLY or not self.storage.location.is_local:
                raise
            self.storage.manifest.remove_torn()
            return self._opened_stamp()

    def _opened_stamp(self) -> Stamp:
        require_folder(self.storage.location)
        try:
            handle = self.storage.manifest.open_line(MAIN_BRANCH_ID)
        except ObjectMissing as error:
            raise self._not_a_graph() from error
        except StorageInternalError as error:
            raise ManifestCorrupt(
                f"the manifest at {self.storage.location} cannot be read ({error.message}); if the"
                " machine lost power, open the graph read-write once, else restore __manifest from"
                " a copy",
                location=str(self.storage.location),
            ) from error
        if self.storage.manifest.is_fence(handle):
            raise self._not_a_graph()
        stamp = self._check_stamp(handle)
        if stamp.is_unfinished and not self._fills_clone:
            raise self._not_a_graph()
        return stamp

    def _not_a_graph(self) -> GraphNotFound:
        location = self.storage.location
        claim = find_claim(self.storage.objects)
        if claim is None:
            hint = "create one with Graph.init or `omnigraph init`"
        else:
            hint = (
                f"an init or a clone is under way or was cut off ({claim.holder}); if it is gone,"
                " run `omnigraph init --force` or `omnigraph clone --force`"
            )
        return GraphNotFound(f"there is no graph at {location}; {hint}", location=str(location))

    def _check_stamp(self, handle: LineHandle) -> Stamp:
        stamp = decode_stamp(self.storage.manifest.stamp(handle))
        oldest = oldest_migratable(self._migrations, INTERNAL_MANIFEST_SCHEMA_VERSION)
        require_readable(stamp, readable_from=oldest)
        return stamp

    def _make_writable(self) -> None:
        probe_store(self.storage.location, self.storage.objects, self.ids)
        if self.stamp.version < INTERNAL_MANIFEST_SCHEMA_VERSION:
            with self.leases.holding(SCHEMA_SCOPE):
                migrate_on_open(self.storage, self._migrations)
            self.stamp = self._opened_stamp()
        self._remove_torn()
        if not self._fills_clone:
            release_stale_claim(self.storage.objects, self.stamp.claim_id)
        self._sweep(wait_ms=_OPEN_WAIT_MS, may_restore=True)

    def _remove_torn(self) -> None:
        """Clear what a power cut left of a write that nobody was told of."""
        self.storage.manifest.remove_torn()
        self.sidecars.remove_torn()
        for sidecar in self.sidecars.list():
            for table in sidecar.tables:
                layout = bare_layout(table.ref, table.table_key, table.location)
                self.tables.remove_torn(layout, table.branch)

    def _sweep(self, *, wait_ms: int, may_restore: bool) -> None:
        """Settle sidecars of every branch whose lease can be had; what is blocked stays.

        A branch that cannot be settled is refused when it is written to, and hinders no other.
        """
        for branch_id in self.sidecars.branches():
            try:
                with self.leases.holding(
                    branch_scope(BranchId(branch_id)), wait_ms=wait_ms
                ) as lease:
                    self.recovery.heal(BranchId(branch_id), lease, may_restore=may_restore)
            except (BranchBusy, LeaseLost) as busy:
                log.info(
                    "recovery left to others", extra={"branch_id": branch_id, "why": str(busy)}
                )
            except (OmnigraphError, StorageSignal) as blocked:
                log.warning("recovery blocked", extra={"branch_id": branch_id, "why": str(blocked)})


def _as_it_is(txn: WriteTxn, staged: StagedWrite) -> StagedWrite:  # noqa: ARG001 - one of two
    """No upkeep."""
    return staged
