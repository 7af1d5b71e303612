"""The commit protocol: one way for every writer from prepared files to a visible commit.

Settle what a dead writer left on the branch, prepare and stage without a lock; then, under the
branch's lease: heal, arbitrate, arm (A), move the tables (B), publish (C), disarm (D). From A on
the write runs to its end: what fails is settled by recovery on the spot, and the answer says what
became of it.

Between arbitration and A, a staged write moves to the versions that others made meanwhile. Where
that means to write many rows again, the lease is given back for it, and the result is arbitrated
anew.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchBusy,
    BranchNotFound,
    ConflictError,
    DriftNeedsRepair,
    Fenced,
    IdempotencyKeyReused,
    InternalError,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimit,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.commit.forks import fork_table, own_line
from omnigraph.graph.commit.plan import plan_intent, planned_tables, ref_of_staged, residue_table
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest, WriteTxn
from omnigraph.graph.manifest.intent import Intent, ParentRule, SidecarKind
from omnigraph.graph.manifest.publisher import (
    PublishContention,
    fenced,
    require_head,
    stands_at,
)
from omnigraph.graph.manifest.table_refs import pin_of
from omnigraph.graph.query.call_scope import check_call, note_replay
from omnigraph.graph.recovery.classify import foreign_versions
from omnigraph.graph.recovery.leases import LeaseLost, branch_scope
from omnigraph.graph.recovery.sidecars import Sidecar, SidecarLease
from omnigraph.ids import (
    BranchId,
    new_commit_id,
    new_operation_id,
)
from omnigraph.limits import (
    MAX_LINKS_PER_TABLE,
    MAX_MOVES_WITHOUT_LEASE,
    MAX_OPERATION_TABLES,
    MAX_REPREPARE_ATTEMPTS,
    MAX_ROWS_RESTAGED_UNDER_LEASE,
)
from omnigraph.storage.handles import Pin, lance_branch
from omnigraph.storage.signals import (
    CommitRefused,
    FragmentsChanged,
    Interleaved,
    NotDurable,
    ObjectMissing,
    StorageSignal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.pauses import Pauses
    from omnigraph.graph.manifest.publisher import ManifestBatchPublisher
    from omnigraph.graph.manifest.rows import CommitRow, PinRow, TableRef
    from omnigraph.graph.manifest.schemas import Schemas
    from omnigraph.graph.recovery.leases import Lease, Leases
    from omnigraph.graph.recovery.recovery import Recovery
    from omnigraph.graph.recovery.sidecars import Sidecars, SidecarTable
    from omnigraph.ids import GraphId, IdSource
    from omnigraph.storage.handles import StagedWrite, TableHandle
    from omnigraph.storage.table_store import TableStorage

    Prepare = Callable[[WriteTxn], PreparedWrite]

log = logging.getLogger(__name__)


class Stale(StorageSignal):
    """What was prepared does not hold any more and nothing happened: prepare it again."""

    def __init__(self, conflict: OmnigraphError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


class Overtaken(StorageSignal):
    """What was prepared holds, but takes long to move to this state of the line."""

    def __init__(self, line: ManifestLine) -> None:
        super().__init__("others wrote to the same tables; many rows are to be staged again")
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitParts:
    """What the protocol works with; all of it belongs to one open graph."""

    graph_id: GraphId
    clock: Clock
    ids: IdSource
    pauses: Pauses
    tables: TableStorage
    schemas: Schemas
    lines: ManifestCoordinator
    publisher: ManifestBatchPublisher
    leases: Leases
    sidecars: Sidecars
    recovery: Recovery
    with_upkeep: Callable[[WriteTxn, StagedWrite], StagedWrite]
    """What a table needs besides when a write moves it, as further links of the write."""
    after_publish: Callable[[BranchId], None]
    """Told of a branch when a write to it has landed and its lease is given back."""


class CommitProtocol:
    """Runs writes on the branches of one open graph."""

    def __init__(self, parts: CommitParts) -> None:
        self._parts = parts

    def run(self, request: WriteRequest, prepare: Prepare) -> CommitRow | None:
        """Prepare, stage and commit, again when others were faster; `None` if nothing changes.

        `prepare` reads and stages through the `WriteTxn` it is given and must give the same change
        when it is called again.
        """
        authored_at = self._parts.clock.now_us()
        for attempt in range(request.attempts or MAX_REPREPARE_ATTEMPTS):
            try:
                return self._attempt(request, prepare, authored_at)
            except Stale as stale:
                conflict = stale.conflict
                request = replace(request, operation_id=None)
                self._parts.pauses.between_attempts(attempt)
            except StorageSignal as signal:
                self._require_branch(request)
                raise InternalError(
                    f"the commit protocol met a state of storage that it does not know ({signal});"
                    " nothing is half visible: please report it with the log"
                ) from signal
        raise conflict

    def _require_branch(self, request: WriteRequest) -> None:
        """Say so when what a write met is only that its branch, and its files, were deleted."""
        try:
            self._parts.lines.branch_id(request.branch)
        except BranchNotFound as gone:
            raise _deleted(request.branch) from gone

    def capture(self, request: WriteRequest, authored_at: int) -> WriteTxn:
        """Read the branch once: head, schema, pins.

        Raises:
            BranchNotFound: there is no such branch.
            StorageUnsupported: the graph was moved since the branch was made.
        """
        return self._captured(request, self._branch_id(request), authored_at)

    def _captured(self, request: WriteRequest, branch_id: BranchId, authored_at: int) -> WriteTxn:
        parts = self._parts
        line = parts.lines.read(branch_id)
        parts.lines.require_writable(line)
        return WriteTxn(
            request=request,
            branch_id=branch_id,
            line=line,
            tables=parts.schemas.tables(line.schema.schema_hash),
            operation_id=request.operation_id or new_operation_id(parts.ids),
            commit_id=new_commit_id(parts.ids),
            rollback_commit_id=new_commit_id(parts.ids),
            authored_at=authored_at,
            store=parts.tables,
            fork=self._writable,
        )

    def _branch_id(self, request: WriteRequest) -> BranchId:
        branch_id = self._parts.lines.branch_id(request.branch)
        if request.branch_id not in (None, branch_id):
            raise _deleted(request.branch)
        return branch_id

    def _heal_first(self, branch_id: BranchId) -> None:
        """Settle what dead writers left, so that the write is prepared on what it will find.

        Nobody is waited for: beside a live writer a sidecar is no trouble but the ordinary state of
        a busy branch, and a write prepared before it lands is judged by arbitration. A holder is
        dead when it is known to be gone, or was seen to stand still for its time to live.

        Raises:
            RecoveryBlocked, StorageVersionTooNew: the branch cannot be written to.
        """
        parts = self._parts
        if not parts.sidecars.of(branch_id):
            return
        try:
            with parts.leases.holding(branch_scope(branch_id), wait_ms=0) as lease:
                parts.recovery.heal(branch_id, lease)
        except (BranchBusy, LeaseLost) as busy:
            log.info("recovery left to others", extra={"branch_id": branch_id, "why": str(busy)})

    def _attempt(
        self, request: WriteRequest, prepare: Prepare, authored_at: int
    ) -> CommitRow | None:
        check_call("capture")
        branch_id = self._branch_id(request)
        self._heal_first(branch_id)
        if request.prepares_under_lease:
            with self._parts.leases.holding(branch_scope(branch_id)) as lease:
                self._parts.recovery.heal(branch_id, lease)
                txn = self._captured(request, branch_id, authored_at)
                commit = self._prepared_and_landed(txn, prepare, lease)
        else:
            txn = self._captured(request, branch_id, authored_at)
            commit = self._prepared_and_landed(txn, prepare, None)
        if commit is not None:
            self._parts.after_publish(branch_id)
        return commit

    def _prepared_and_landed(
        self, txn: WriteTxn, prepare: Prepare, lease: Lease | None
    ) -> CommitRow | None:
        """One attempt; under a lease that is held already, or one that is taken when all is staged.

        Raises:
            Stale: it must be prepared again.
        """
        request, kind = txn.request, txn.request.kind
        repeated = self._first_receipt(request, txn.line)
        if repeated is not None:
            return repeated
        # Only now: the first send of the same request may have moved the head itself.
        require_head(request.if_commit, txn.line)
        maybe_fail(f"{kind}.post_capture")
        prepared = self._prepared(txn, prepare)
        _require_size(prepared)
        if prepared.is_empty:
            require_head(request.if_commit, self._parts.lines.read(txn.branch_id))
            return None
        for staged in prepared.staged:
            self._parts.tables.sync_staged(staged)
        maybe_fail(f"{kind}.post_stage_pre_lease")
        check_call("stage")
        if lease is None:
            return self._committed(txn, prepared)
        return self._landed(txn, prepared, lease, must_land=True)

    def _prepared(self, txn: WriteTxn, prepare: Prepare) -> PreparedWrite:
        """What the writer makes of the captured state.

        Raises:
            Stale: others moved its tables on, and a cleanup removed the versions that it reads.
        """
        try:
            return prepare(txn)
        except ObjectMissing as missing:
            line = self._line_now(txn)
            if line.pins == txn.line.pins:
                raise
            moved = _changed("graph_head", txn.line.head.commit_id, line.head.commit_id)
            raise Stale(moved) from missing

    def _committed(self, txn: WriteTxn, prepared: PreparedWrite) -> CommitRow:
        """The commit of what was staged, on the versions that its tables have by then.

        A writer that is overtaken each time it has staged again without the lease does it under
        the lease at last: others then wait for it instead of it for them.
        """
        for moves_left in reversed(range(MAX_MOVES_WITHOUT_LEASE + 1)):
            with self._parts.leases.holding(branch_scope(txn.branch_id)) as lease:
                try:
                    return self._landed(txn, prepared, lease, must_land=not moves_left)
                except Overtaken as overtaken:
                    line = overtaken.line
            prepared = replace(prepared, staged=self._moved(txn, prepared, line))
            maybe_fail("restage.post_move_pre_lease")
        raise InternalError("a write that had to land under its lease did not; please report this")

    def _landed(
        self, txn: WriteTxn, prepared: PreparedWrite, lease: Lease, *, must_land: bool
    ) -> CommitRow:
        try:
            return self._under_lease(txn, prepared, lease, must_land=must_land)
        except LeaseLost as lost:
            raise Stale(_changed("graph_head", str(lost))) from lost

    def _under_lease(
        self, txn: WriteTxn, prepared: PreparedWrite, lease: Lease, *, must_land: bool
    ) -> CommitRow:
        self._parts.recovery.heal(txn.branch_id, lease)
        line = self._line_now(txn)
        repeated = self._first_receipt(txn.request, line, absent_at=txn.line.handle.version)
        if repeated is not None:
            return repeated
        require_head(txn.request.if_commit, line)
        self._arbitrate(txn, prepared, line)
        if not must_land and any(_takes_long(staged, line) for staged in prepared.staged):
            raise Overtaken(line)
        moving = self._moved(txn, prepared, line)
        for staged in moving:
            self._require_no_drift(staged, line, lease, txn)
        moving = tuple(self._parts.with_upkeep(txn, staged) for staged in moving)
        maybe_fail(f"{txn.request.kind}.post_lease_pre_sidecar")
        # The last look: once the intent is written, the commit runs to its end.
        check_call("lease")
        if prepared.handing_over is not None:
            prepared.handing_over()
        sidecar = self._sidecar(
            txn.request.kind,
            txn.branch_id,
            plan_intent(txn, prepared, moving, line),
            planned_tables(prepared, moving),
            lease,
            line,
            rollback_commit_id=txn.rollback_commit_id,
        )
        return self._commit(sidecar, moving, prepared, lease, armed_at=line.handle.version)

    def _line_now(self, txn: WriteTxn) -> ManifestLine:
        """The line as it is now, if the branch is still the one that was captured."""
        if self._parts.lines.branch_id(txn.request.branch) != txn.branch_id:
            raise _deleted(txn.request.branch)
        return self._parts.lines.read(txn.branch_id)

    def _arbitrate(self, txn: WriteTxn, prepared: PreparedWrite, line: ManifestLine) -> None:
        """Hold what was prepared against the line as it is now.

        Raises:
            Stale: it must be prepared again.
            ReadSetChanged: it must be, and a strict write may not be by itself.
        """
        if line.schema.schema_hash != txn.line.schema.schema_hash:
            raise Stale(_changed("schema", txn.line.schema.schema_hash, line.schema.schema_hash))
        head = txn.line.head.commit_id
        if txn.request.parent_rule is ParentRule.EXACT and line.head.commit_id != head:
            moved = _changed("graph_head", head, line.head.commit_id)
            raise Stale(moved) if stands_at(line, head) else moved
        self._require_unaffected(txn, prepared, line)

    def _moved(
        self, txn: WriteTxn, prepared: PreparedWrite, line: ManifestLine
    ) -> tuple[StagedWrite, ...]:
        """The staged writes that do something, on the pins of a line, in ascending `table_id`.

        Raises:
            Stale: they must be prepared again.
        """
        moving = sorted(
            (staged for staged in prepared.staged if not staged.is_noop),
            key=lambda staged: staged.base.layout.table_id,
        )
        moved = tuple(self._on_pin(staged, line, txn) for staged in moving)
        if any(staged.is_noop for staged in moved):
            # On the newer pin there is less to do: what is committed is prepared for that.
            raise Stale(_changed("graph_head", txn.line.head.commit_id, line.head.commit_id))
        return moved

    def _require_unaffected(
        self, txn: WriteTxn, prepared: PreparedWrite, line: ManifestLine
    ) -> None:
        for ref in sorted(txn.read_set.tables):
            before, now = txn.line.pins[ref], line.pins.get(ref)
            if now is not None and (now.branch, now.version) == (before.branch, before.version):
                continue
            conflict = _changed(before.table_key, before.version, now.version if now else None)
            if now is not None and not self._is_affected(txn, ref, now):
                continue
            if prepared.is_strict:
                raise conflict
            raise Stale(conflict)

    def _is_affected(self, txn: WriteTxn, ref: TableRef, now: PinRow) -> bool:
        """Whether what was asked of a table may have another answer on the pin in force.

        Where a cleanup removed the version that was asked nobody can tell, so it counts as such.
        """
        try:
            handle = self._parts.tables.open(txn.tables.layouts[ref], pin_of(now))
            return txn.read_set.is_affected(ref, txn.store, handle, txn.readable(ref))
        except ObjectMissing as missing:
            log.info("cannot be compared", extra={"table": now.table_key, "cause": str(missing)})
            return True

    def _on_pin(self, staged: StagedWrite, line: ManifestLine, txn: WriteTxn) -> StagedWrite:
        """The staged write on the pin in force: as it is, or moved to it."""
        layout = staged.base.layout
        pinned = line.pins[ref_of_staged(staged)]
        if pinned.version == staged.base.pin.version:
            return staged
        if staged.rebase is None:
            raise Stale(_changed(layout.table_key, staged.base.pin.version, pinned.version))
        base = self._parts.tables.open(
            layout,
            Pin(
                location=layout.location,
                branch=lance_branch(txn.branch_id),
                version=pinned.version,
            ),
        )
        try:
            moved = staged.rebase(base)
        except (FragmentsChanged, ObjectMissing) as changed:
            raise Stale(
                _changed(layout.table_key, staged.base.pin.version, pinned.version)
            ) from changed
        self._parts.tables.sync_staged(moved)
        return moved

    def _require_no_drift(
        self, staged: StagedWrite, line: ManifestLine, lease: Lease, txn: WriteTxn
    ) -> None:
        """The newest version of a table must be its pin.

        Raises:
            Stale: residue of a late writer was removed; prepare again on the new pin.
            DriftNeedsRepair: something else wrote to the table.
        """
        layout, pin = staged.base.layout, staged.base.pin
        head = self._parts.tables.head_version(layout, pin.branch)
        if head == pin.version:
            return
        traces = self._parts.tables.traces(layout, pin.branch, above=pin.version, upto=head)
        settled = line.settled({trace.operation_id for trace in traces if trace.operation_id})
        unknown = foreign_versions(traces, settled)
        if unknown or head < pin.version:
            lease.check()  # Versions of whoever took over are no drift.
            raise DriftNeedsRepair(
                f"{layout.table_key} is pinned at version {pin.version} and its newest is {head},"
                " which no operation of this graph explains; reads go on. Run `omnigraph repair` to"
                " see what was changed from outside, and to undo or adopt it",
                table=layout.table_key,
                pin=pin.version,
                head=head,
            )
        self._remove_residue(staged, line, lease, txn)
        raise Stale(_changed(layout.table_key, pin.version, head))

    def _remove_residue(
        self, staged: StagedWrite, line: ManifestLine, lease: Lease, txn: WriteTxn
    ) -> None:
        ids = self._parts.ids
        intent = Intent(
            operation_id=new_operation_id(ids),
            commit_id=new_commit_id(ids),
            kind=SidecarKind.REPAIR.commit_kind,
            authored_at=self._parts.clock.now_us(),
            authored_branch=txn.request.branch,
            schema_from=line.schema.schema_hash,
        )
        table = residue_table(staged, line)
        sidecar = self._sidecar(SidecarKind.REPAIR, txn.branch_id, intent, (table,), lease, line)
        self._parts.sidecars.arm(sidecar)
        self._parts.recovery.settle(sidecar, lease)

    def _sidecar(
        self,
        kind: SidecarKind,
        branch_id: BranchId,
        intent: Intent,
        tables: tuple[SidecarTable, ...],
        lease: Lease,
        line: ManifestLine,
        rollback_commit_id: str | None = None,
    ) -> Sidecar:
        return Sidecar(
            operation_id=intent.operation_id,
            kind=kind,
            graph_id=self._parts.graph_id,
            branch_id=branch_id,
            lease=SidecarLease(
                scope=lease.scope, epoch=lease.epoch, owner=self._parts.leases.owner
            ),
            actor_id=intent.actor_id,
            authored_at=intent.authored_at,
            head=line.head.commit_id,
            schema_hash=line.schema.schema_hash,
            parent_rule=intent.parent_rule,
            tables=tables,
            intent=intent,
            rollback_commit_id=rollback_commit_id or new_commit_id(self._parts.ids),
        )

    def _commit(
        self,
        sidecar: Sidecar,
        moving: Sequence[StagedWrite],
        prepared: PreparedWrite,
        lease: Lease,
        *,
        armed_at: int,
    ) -> CommitRow:
        kind = sidecar.kind
        self._arm(sidecar, lease)
        try:
            for staged in moving:
                self._move(staged, lease, kind)
            maybe_fail(f"{kind}.post_phase_b_pre_manifest_commit")
            lease.check()
            branch_id = BranchId(sidecar.branch_id)
            published = self._parts.publisher.publish(branch_id, sidecar.intent, armed_at=armed_at)
            commit = published.commit
        except NotDurable as error:
            raise _undurable(sidecar, error) from error
        except Exception as error:  # noqa: BLE001 - whatever failed, heads may have moved
            commit = self._settled(sidecar, lease, error, prepared)
        maybe_fail(f"{kind}.post_phase_c_pre_phase_d")
        self._disarm(sidecar)
        maybe_fail(f"{kind}.post_phase_d_pre_release")
        return commit

    def _arm(self, sidecar: Sidecar, lease: Lease) -> None:
        """Phase A. When it fails, the sidecar stays for the next holder of the lease.

        It must not be taken back here: a recovery of it may be under way, and when that one dies
        between two restores nothing but the sidecar explains their versions.
        """
        self._parts.sidecars.arm(sidecar)
        maybe_fail(f"{sidecar.kind}.post_phase_a")
        lease.check()

    def _move(self, staged: StagedWrite, lease: Lease, kind: SidecarKind) -> None:
        """Phase B for one table."""
        handle: TableHandle = staged.base
        for position, link in enumerate(staged.links):
            if position:
                maybe_fail(f"{kind}.between_links")
            lease.check()
            maybe_fail(f"{kind}.pre_table_commit")
            handle = self._parts.tables.commit_staged(handle, link)
            maybe_fail(f"{kind}.post_table_commit")

    def _disarm(self, sidecar: Sidecar) -> None:
        """Phase D. The write has landed: a failure is only untidy."""
        try:
            self._parts.sidecars.disarm(sidecar)
        except (OmnigraphError, StorageSignal) as error:
            log.warning(
                "sidecar not removed",
                extra={"operation_id": sidecar.operation_id, "cause": str(error)},
            )

    def _settled(
        self, sidecar: Sidecar, lease: Lease, error: Exception, prepared: PreparedWrite
    ) -> CommitRow:
        """The commit, if the failed write landed after all; else the error to report."""
        try:
            lease.check()
            recovered = self._parts.recovery.settle(sidecar, lease)
        except (OmnigraphError, StorageSignal) as second:
            return self._found_on_line(sidecar, error, second)
        if recovered.commit is not None:
            return recovered.commit
        raise _reported(error, prepared) from error

    def _found_on_line(self, sidecar: Sidecar, error: Exception, second: Exception) -> CommitRow:
        try:
            line = self._parts.lines.read_again(BranchId(sidecar.branch_id))
            ended = self._parts.publisher.ended(line, sidecar.intent)
        except (OmnigraphError, StorageSignal):
            raise _unknown(sidecar, error, second) from error
        if ended is None:
            raise _unknown(sidecar, error, second) from error
        if ended.commit is None:
            raise fenced(sidecar.operation_id) from error
        return ended.commit

    def _first_receipt(
        self, request: WriteRequest, line: ManifestLine, *, absent_at: int | None = None
    ) -> CommitRow | None:
        """The commit of an earlier send, or of another process for the same job; durable.

        Raises:
            IdempotencyKeyReused: the key belongs to another request.
            StorageUnavailable: it is there, and could not be made durable.
        """
        if request.job is not None:
            done = line.commit_of_job(request.job, absent_at=absent_at)
            if done is not None:
                self._parts.publisher.renew(line)
                return done
        if request.idempotency_key is None:
            return None
        receipt = line.commit_of_key(request.idempotency_key, request.branch)
        if receipt is None:
            return None
        if receipt.request_digest == request.request_digest:
            self._parts.publisher.renew(line)
            note_replay()
            return receipt
        raise IdempotencyKeyReused(
            f"the idempotency key {request.idempotency_key!r} belongs to another request (commit"
            f" {receipt.commit_id}); use a new key for a new request",
            idempotency_key=request.idempotency_key,
            graph_commit_id=receipt.commit_id,
        )

    def _writable(self, txn: WriteTxn, ref: TableRef) -> TableHandle:
        """The table on the branch's own line, free of settings by which Lance deletes versions.

        Such settings come from outside. They are removed by a commit of its own before anything
        else is written, because every commit of a table that has them deletes what is pinned.
        """
        handle = self._own_line(txn, ref)
        is_removing = txn.request.kind is SidecarKind.TABLE_SETTINGS
        if is_removing or not txn.store.deletes_old_versions(handle):
            return handle
        request = WriteRequest(
            kind=SidecarKind.TABLE_SETTINGS,
            branch=txn.request.branch,
            branch_id=txn.branch_id,
            actor_id=txn.request.actor_id,
        )
        self.run(
            request,
            lambda own: PreparedWrite(
                staged=(own.store.stage_without_cleanup(own.writable(ref), own.stamp),)
            ),
        )
        raise Stale(_changed(handle.layout.table_key, handle.pin.version))

    def _own_line(self, txn: WriteTxn, ref: TableRef) -> TableHandle:
        """The table on the branch's own line; a first write of the branch forks it."""
        layout = txn.tables.layouts[ref]
        pinned = txn.line.pins[ref]
        handle = own_line(txn.store, layout, pinned, txn.branch_id)
        if handle is not None:
            return handle
        with self._parts.leases.holding(branch_scope(txn.branch_id)) as lease:
            try:
                self._parts.recovery.heal(txn.branch_id, lease)
                line = self._line_now(txn)
                require_head(txn.request.if_commit, line)
                if line.pins.get(ref) != pinned:
                    now = line.pins.get(ref)
                    raise Stale(
                        _changed(pinned.table_key, pinned.version, now.version if now else None)
                    )
                return fork_table(txn.store, layout, pinned, txn.branch_id, lease)
            except LeaseLost as lost:
                raise Stale(_changed("graph_head", str(lost))) from lost


def _require_size(prepared: PreparedWrite) -> None:
    if len(prepared.staged) > MAX_OPERATION_TABLES:
        raise ResourceLimit(
            f"one write touches {len(prepared.staged)} tables and may touch"
            f" {MAX_OPERATION_TABLES}; split it",
            resource="operation_tables",
            limit=MAX_OPERATION_TABLES,
            actual=len(prepared.staged),
        )
    for staged in prepared.staged:
        if len(staged.links) > MAX_LINKS_PER_TABLE:
            raise InternalError(
                f"{staged.base.layout.table_key}: {len(staged.links)} transactions in one write,"
                f" at most {MAX_LINKS_PER_TABLE} are planned for; please report it"
            )


def _takes_long(staged: StagedWrite, line: ManifestLine) -> bool:
    """Whether many rows would be staged again on the pin of its table."""
    if staged.is_noop or staged.restaged_rows <= MAX_ROWS_RESTAGED_UNDER_LEASE:
        return False
    return line.pins[ref_of_staged(staged)].version != staged.base.pin.version


def _deleted(branch: str) -> BranchNotFound:
    return BranchNotFound(
        f"the branch {branch!r} was deleted while this write was prepared", branch=branch
    )


def _changed(member: str, expected: object, actual: object = None) -> ReadSetChanged:
    return ReadSetChanged(
        f"{member} changed while this write was prepared; read again and decide anew",
        member=member,
        expected=None if expected is None else str(expected),
        actual=None if actual is None else str(actual),
    )


def _reported(error: Exception, prepared: PreparedWrite) -> Exception:
    """What a caller learns about a write that was rolled back."""
    match error:
        case PreconditionFailed():
            return error
        case Interleaved() | CommitRefused() | PublishContention() | LeaseLost():
            conflict: OmnigraphError = _changed("graph_head", str(error))
        case ConflictError() | Fenced():
            conflict = error
        case _:
            return error
    return conflict if prepared.is_strict else Stale(conflict)


def _unknown(sidecar: Sidecar, error: Exception, second: Exception) -> RecoveryRequired:
    return RecoveryRequired(
        f"operation {sidecar.operation_id} failed after it began to move tables ({error}), and its"
        f" recovery failed too ({second}); the next write settles it: look for the operation in the"
        " history before you send it again",
        operation_id=sidecar.operation_id,
    )


def _undurable(sidecar: Sidecar, error: NotDurable) -> RecoveryRequired:
    return RecoveryRequired(
        f"operation {sidecar.operation_id} is visible, but the disk did not make it durable"
        f" ({error}); its sidecar stays, so the next write to the branch, or the next open, makes"
        " it durable or brings it back after a power cut: look for the operation in the history"
        " before you send it again",
        operation_id=sidecar.operation_id,
    )
