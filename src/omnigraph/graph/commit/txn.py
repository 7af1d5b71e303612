"""One attempt to write: what was captured, what was asked, what is to be committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from omnigraph.errors import InvalidArgument
from omnigraph.graph.commit.read_set import ReadSet
from omnigraph.graph.manifest.intent import ParentRule, SidecarKind
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.storage.handles import WriteStamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.manifest.intent import CopiedCommit, NamedTable, PlannedPin, PlannedSchema
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.manifest.table_refs import CatalogTables
    from omnigraph.ids import BranchId, BranchName, CommitId, OperationId
    from omnigraph.lang import Catalog
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.table_store import TableStorage

_LONGEST_KEY: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What stays the same over all attempts of one write."""

    kind: SidecarKind
    branch: BranchName
    branch_id: BranchId | None = None
    """The branch that the caller means, if known: a later one of that name is another."""

    actor_id: str | None = None
    if_commit: str | None = None
    parent_rule: ParentRule = ParentRule.REPARENT
    idempotency_key: str | None = None
    request_digest: str | None = None
    job: str | None = None
    """The job that it is the commit of, if more than one process may come to make it."""
    attempts: int | None = None
    """How often it is prepared when others are faster, if not as often as usual."""
    operation_id: OperationId | None = None
    """What the first attempt is known by, if the caller was told before; others get their own."""
    prepares_under_lease: bool = False
    """Others wait while it is prepared: it may not be overtaken, and was too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxn:
    """Everything one attempt captured, from one read of the branch's line."""

    request: WriteRequest
    branch_id: BranchId
    line: ManifestLine
    tables: CatalogTables
    operation_id: OperationId
    commit_id: CommitId
    rollback_commit_id: CommitId
    authored_at: int
    store: TableStorage
    fork: Callable[[WriteTxn, TableRef], TableHandle]
    read_set: ReadSet = field(default_factory=ReadSet)

    @property
    def catalog(self) -> Catalog:
        """The catalog in force."""
        return self.tables.catalog

    @property
    def stamp(self) -> WriteStamp:
        """What the versions of this attempt carry."""
        return WriteStamp(operation_id=self.operation_id, kind=self.request.kind.value)

    def readable(self, ref: TableRef) -> TableHandle:
        """The table at its captured pin."""
        return self.store.open(self.tables.layouts[ref], pin_of(self.line.pins[ref]))

    def writable(self, ref: TableRef) -> TableHandle:
        """The table at its captured pin on the branch's own line, which is made if need be."""
        self.read_set.ask_nothing(ref)
        return self.fork(self, ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedHistory:
    """What a merge takes over of the history of another branch."""

    parent: CommitRow
    """The commit that is merged."""
    commits: tuple[CopiedCommit, ...] = ()
    """Those that the line does not know yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWrite:
    """What an attempt wants to commit: staged files and what goes with them."""

    staged: tuple[StagedWrite, ...] = ()
    is_strict: bool = False
    """It may not be prepared again by itself: it updates, deletes or replaces what it has seen."""

    registrations: tuple[NamedTable, ...] = ()
    tombstones: tuple[NamedTable, ...] = ()
    pins: tuple[PlannedPin, ...] = ()
    """Of tables that it does not move: those that it registers, and those that it renames."""
    schema_to: PlannedSchema | None = None
    merged: MergedHistory | None = None
    """The branch that is merged, if this is a merge; the commit is made also if no row changes."""
    stats: dict[str, Any] = field(default_factory=dict)
    handing_over: Callable[[], None] | None = None
    """Told right before the intent is written: from then on a recovery may commit the files."""

    @property
    def is_empty(self) -> bool:
        """Nothing would change: no commit is made."""
        return not (
            any(not write.is_noop for write in self.staged)
            or self.registrations
            or self.tombstones
            or self.schema_to
            or self.merged
        )


def checked_key(key: str | None) -> str | None:
    """An idempotency key that can be kept.

    Raises:
        InvalidArgument: it is none.
    """
    if key is None:
        return None
    is_printable = isinstance(key, str) and key.isascii() and key.isprintable()
    if not is_printable or not 1 <= len(key) <= _LONGEST_KEY:
        raise InvalidArgument(
            f"an idempotency key has 1 to {_LONGEST_KEY} printable ASCII characters",
            argument="idempotency_key",
        )
    return key
