"""Recovery: brings every interrupted write to all or nothing, from facts on storage.

Runs only under the branch's lease, oldest sidecar first, the line read anew for each. A roll-back
restores every table of the sidecar, moved or not: after a restore Lance refuses every transaction
staged before it, so a writer that wakes up late can neither commit nor publish.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.errors import (
    ConflictError,
    Fenced,
    RecoveryBlocked,
    StorageInternalError,
    StorageUnavailable,
    StorageVersionTooNew,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.manifest.intent import Intent, ParentRule
from omnigraph.graph.manifest.publisher import PublishContention, judge
from omnigraph.graph.manifest.rows import BranchState, RecoveryRow
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.graph.recovery.classify import (
    Judged,
    TableClass,
    TableFacts,
    classify,
    foreign_versions,
    has_landed,
)
from omnigraph.graph.recovery.sidecars import Sidecar, restored_pin
from omnigraph.ids import MAIN_BRANCH_ID, BranchId, CommitId, OperationId
from omnigraph.limits import MAX_PUBLISH_ROUNDS
from omnigraph.storage.handles import Pin, WriteStamp
from omnigraph.storage.signals import NotDurable, ObjectMissing, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.publisher import ManifestBatchPublisher
    from omnigraph.graph.manifest.rows import CommitRow
    from omnigraph.graph.recovery.leases import Lease
    from omnigraph.graph.recovery.process_identity import ProcessIdentity
    from omnigraph.graph.recovery.sidecars import SidecarPath, Sidecars, SidecarTable
    from omnigraph.storage.table_store import TableStorage

log = logging.getLogger(__name__)

RECOVERY_ACTOR = "omnigraph:recovery"
RECOVERY_KIND = "recovery"
"""The kind of a commit that undoes a write, and of the versions that it makes."""
_ROUNDS = MAX_PUBLISH_ROUNDS
_LOOKS = 8
"""How often a write that seems blocked is judged again when others wrote meanwhile."""


class Outcome(StrEnum):
    """How a sidecar was settled."""

    ALREADY = "already"
    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"
    LEFT = "left"
    """Only a roll-back would settle it, and the caller may not restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A settled sidecar, and the writer's own commit if it is visible."""

    sidecar: Sidecar
    outcome: Outcome
    commit: CommitRow | None = None


class Recovery:
    """Settles the sidecars of one graph."""

    def __init__(
        self,
        *,
        sidecars: Sidecars,
        lines: ManifestCoordinator,
        tables: TableStorage,
        publisher: ManifestBatchPublisher,
        clock: Clock,
        process: ProcessIdentity,
    ) -> None:
        self._sidecars = sidecars
        self._lines = lines
        self._tables = tables
        self._publisher = publisher
        self._clock = clock
        self._process = process

    def heal(
        self, branch_id: BranchId, lease: Lease, *, may_restore: bool = True
    ) -> list[Recovered]:
        """Settle every sidecar of a branch whose lease is held.

        Raises:
            RecoveryBlocked, StorageVersionTooNew: one cannot be settled from what is known, or not
                be read; it stays, and so do those after it, unless the branch is deleted.
            LeaseLost: the lease ran out in between; what is settled stays settled.
        """
        paths = self._sidecars.of(branch_id)
        maybe_fail("recovery.post_list")
        pending = {path.operation_id for path in paths}
        read = (self._read(path, branch_id) for path in paths)
        return [
            self.settle(sidecar, lease, pending=pending, may_restore=may_restore)
            for sidecar in read
            if sidecar is not None
        ]

    def _read(self, path: SidecarPath, branch_id: BranchId) -> Sidecar | None:
        try:
            return self._sidecars.read(path, branch_id)
        except (RecoveryBlocked, StorageVersionTooNew) as error:
            if not self._is_branch_deleted(branch_id):
                raise
            # Whatever it says, its tables went with the branch.
            self._sidecars.remove(path)
            log.warning(
                "unreadable sidecar removed", extra={"path": path.path, "why": error.message}
            )
            return None

    def settle(
        self,
        sidecar: Sidecar,
        lease: Lease,
        *,
        pending: set[str] | None = None,
        may_restore: bool = True,
        may_discard: bool = False,
    ) -> Recovered:
        """Bring one sidecar to all or nothing, and remove it.

        With `may_discard`, what something else wrote to its tables is undone with it.

        Raises:
            RecoveryBlocked: a table is not as any crash of ours leaves it; nothing was changed.
            LeaseLost: the lease ran out; the sidecar stays.
        """
        if pending is None:
            pending = {path.operation_id for path in self._sidecars.of(sidecar.branch_id)}
        pending = pending | {sidecar.operation_id}
        for _ in range(_ROUNDS):
            try:
                return self._settle_once(
                    sidecar, lease, pending, may_restore=may_restore, may_discard=may_discard
                )
            except (ConflictError, Fenced, PublishContention, NotDurable):
                # The line moved under the publish, and nothing was removed: read it again. What
                # landed and is not durable is found there, and made so.
                continue
        raise StorageUnavailable(
            f"the recovery of {sidecar.operation_id} lost every round; try again",
            operation="recover",
            target=sidecar.path,
        )

    def why_blocked(self, sidecar: Sidecar) -> RecoveryBlocked | None:
        """Why this sidecar may not be settled, if so; changes nothing."""
        for _ in range(_LOOKS):
            if self._is_branch_deleted(sidecar.branch_id):
                return None
            line = self._lines.read(BranchId(sidecar.branch_id))
            blocked = self._judged_blocked(sidecar, line)
            if blocked is None or sidecar.operation_id not in self._pending(sidecar):
                return None
            # A writer that lives may have gone on meanwhile, and another may have followed.
            if self._lines.read(line.branch_id).handle.version == line.handle.version:
                break
        return blocked

    def _judged_blocked(self, sidecar: Sidecar, line: ManifestLine) -> RecoveryBlocked | None:
        pending = self._pending(sidecar)
        if line.settled({sidecar.operation_id}):
            return None
        judged = [classify(self._facts(table, line)) for table in sidecar.tables]
        try:
            _require_known(sidecar, judged, line, pending)
        except RecoveryBlocked as blocked:
            return blocked
        return None

    def _pending(self, sidecar: Sidecar) -> set[str]:
        return {path.operation_id for path in self._sidecars.of(sidecar.branch_id)}

    def _settle_once(
        self,
        sidecar: Sidecar,
        lease: Lease,
        pending: set[str],
        *,
        may_restore: bool,
        may_discard: bool,
    ) -> Recovered:
        if self._is_branch_deleted(sidecar.branch_id):
            return self._discard(sidecar)
        line = self._lines.read(BranchId(sidecar.branch_id))
        ended = self._publisher.ended(line, sidecar.intent)
        if ended is not None:
            self._sidecars.disarm(sidecar)
            return Recovered(sidecar=sidecar, outcome=Outcome.ALREADY, commit=ended.commit)
        judged = [classify(self._facts(table, line)) for table in sidecar.tables]
        maybe_fail("recovery.post_classify")
        try:
            _require_known(sidecar, judged, line, pending, may_discard=may_discard)
        except RecoveryBlocked:
            lease.check()  # Versions of whoever took over are no reason to block.
            raise
        if self._may_roll_forward(sidecar, judged, line):
            return self._roll_forward(sidecar, judged, lease)
        if not may_restore:
            return Recovered(sidecar=sidecar, outcome=Outcome.LEFT)
        return self._roll_back(sidecar, judged, line, lease)

    def _is_branch_deleted(self, branch_id: str) -> bool:
        if branch_id == MAIN_BRANCH_ID:
            return False
        rows = self._lines.read(MAIN_BRANCH_ID).branches().values()
        branches = [row for row in rows if row.branch_id == branch_id]
        return not branches or branches[0].state is BranchState.DELETED

    def _facts(self, table: SidecarTable, line: ManifestLine) -> TableFacts:
        if table.created:
            return self._facts_of_created(table)
        pinned = line.pins.get(table.ref)
        if pinned is None and line.has_table(table.ref) and line.is_ended(table.ref):
            return TableFacts(table=table, pin=table.expected_version, head=table.expected_version)
        if pinned is None:
            return TableFacts(table=table, pin=None, head=None)
        layout = bare_layout(table.ref, table.table_key, table.location)
        try:
            head = self._tables.head_version(layout, table.branch)
            self._tables.open(
                layout, Pin(location=table.location, branch=table.branch, version=pinned.version)
            )
        except ObjectMissing:
            return TableFacts(table=table, pin=pinned.version, head=None)
        traces = self._tables.traces(layout, table.branch, above=pinned.version, upto=head)
        return TableFacts(
            table=table,
            pin=pinned.version,
            head=head,
            traces=traces,
            row_count=pinned.row_count,
        )

    def _facts_of_created(self, table: SidecarTable) -> TableFacts:
        layout = bare_layout(table.ref, table.table_key, table.location)
        base = table.expected_version
        try:
            head = self._tables.head_version(layout, table.branch)
        except ObjectMissing:
            return TableFacts(table=table, pin=base, head=None)
        traces = self._tables.traces(layout, table.branch, above=base, upto=head)
        return TableFacts(table=table, pin=base, head=head, traces=traces)

    def _may_roll_forward(
        self, sidecar: Sidecar, judged: Sequence[Judged], line: ManifestLine
    ) -> bool:
        """Whether only the publish is missing, and it would still be accepted.

        A version that landed proves that the writer came past arming. Without one it may have given
        up there and started over, and what it wanted must not land twice.
        """
        has_moved = any(verdict.facts.table.links for verdict in judged)
        if not has_moved or not all(map(has_landed, judged)):
            return False
        try:
            judge(sidecar.intent, line)
        except ConflictError:
            return False
        return True

    def _roll_forward(self, sidecar: Sidecar, judged: Sequence[Judged], lease: Lease) -> Recovered:
        maybe_fail("recovery.pre_roll_forward_publish")
        for verdict in judged:
            self._sync(verdict.facts.table)
        lease.check()
        audit = self._audit(
            sidecar, Outcome.ROLLED_FORWARD, judged, CommitId(sidecar.intent.commit_id)
        )
        done = self._publisher.publish(BranchId(sidecar.branch_id), sidecar.intent, beside=[audit])
        maybe_fail("recovery.post_publish_pre_delete")
        self._sidecars.disarm(sidecar)
        self._report(sidecar, Outcome.ROLLED_FORWARD)
        return Recovered(sidecar=sidecar, outcome=Outcome.ROLLED_FORWARD, commit=done.commit)

    def _sync(self, table: SidecarTable) -> None:
        """Make the versions of a write durable: it may have died before it came to it."""
        self._tables.sync_links(
            bare_layout(table.ref, table.table_key, table.location),
            table.branch,
            table.expected_version,
            [link.uuid for link in table.links],
        )

    def _roll_back(
        self, sidecar: Sidecar, judged: Sequence[Judged], line: ManifestLine, lease: Lease
    ) -> Recovered:
        self._require_durable(sidecar)
        stamp = WriteStamp(operation_id=OperationId(sidecar.operation_id), kind=RECOVERY_KIND)
        pins = []
        for verdict in judged:
            table = verdict.facts.table
            pinned = line.pins.get(table.ref)
            if pinned is None:
                continue  # Ended since, or never registered: nothing to go back to.
            lease.check()
            restored = self._tables.restore(
                bare_layout(table.ref, table.table_key, table.location),
                table.branch,
                pinned.version,
                stamp,
            )
            pins.append(restored_pin(table, restored.pin.version, pinned))
            maybe_fail("recovery.between_restores")
        maybe_fail("recovery.post_restore_pre_publish")
        lease.check()
        commit_id = CommitId(sidecar.rollback_commit_id)
        intent = Intent(
            operation_id=sidecar.operation_id,
            commit_id=commit_id,
            kind=RECOVERY_KIND,
            authored_at=self._clock.now_us(),
            authored_branch=sidecar.intent.authored_branch,
            actor_id=RECOVERY_ACTOR,
            schema_from=line.schema.schema_hash,
            pins=tuple(pins),
            parent_rule=ParentRule.REPARENT,
        )
        audit = self._audit(sidecar, Outcome.ROLLED_BACK, judged, commit_id)
        self._publisher.publish(BranchId(sidecar.branch_id), intent, beside=[audit])
        maybe_fail("recovery.post_publish_pre_delete")
        self._sidecars.disarm(sidecar)
        self._report(sidecar, Outcome.ROLLED_BACK)
        return Recovered(sidecar=sidecar, outcome=Outcome.ROLLED_BACK)

    def _require_durable(self, sidecar: Sidecar) -> None:
        """Keep the sidecar through a power cut: it alone explains the versions of a roll-back."""
        try:
            self._sidecars.renew(sidecar)
        except ObjectMissing as gone:
            # Its writer woke up, found how it had ended and removed the sidecar.
            raise PublishContention(f"{sidecar.path} is gone") from gone

    def _discard(self, sidecar: Sidecar) -> Recovered:
        """The branch is gone: its tables are cleanup's, and only the audit row is left to write."""
        line = self._lines.read(MAIN_BRANCH_ID)
        audit = self._audit(sidecar, Outcome.DISCARDED, (), None)
        for _ in range(_ROUNDS):
            if self._publisher.ended(line, sidecar.intent) is not None:
                break
            try:
                line = self._publisher.merge_beside_head(line, [audit])
            except (StorageSignal, StorageUnavailable, StorageInternalError):
                line = self._lines.read_again(MAIN_BRANCH_ID)
        else:
            raise PublishContention(f"the audit row of {sidecar.operation_id} lost every round")
        self._sidecars.disarm(sidecar)
        self._report(sidecar, Outcome.DISCARDED)
        return Recovered(sidecar=sidecar, outcome=Outcome.DISCARDED)

    def _audit(
        self,
        sidecar: Sidecar,
        outcome: Outcome,
        judged: Sequence[Judged],
        commit_id: CommitId | None,
    ) -> RecoveryRow:
        return RecoveryRow(
            operation_id=OperationId(sidecar.operation_id),
            recovery_kind=outcome.value,
            writer_kind=sidecar.kind.value,
            recovery_for_actor=sidecar.actor_id,
            recovered_by={"host": self._process.host, "pid": self._process.pid},
            recovered_at=self._clock.now_us(),
            tables=tuple(_audited(verdict, outcome) for verdict in judged),
            graph_commit_id=commit_id,
        )

    def _report(self, sidecar: Sidecar, outcome: Outcome) -> None:
        log.info(
            "recovery",
            extra={"operation_id": sidecar.operation_id, "outcome": outcome.value},
        )


def _require_known(
    sidecar: Sidecar,
    judged: Sequence[Judged],
    line: ManifestLine,
    pending: set[str],
    *,
    may_discard: bool = False,
) -> None:
    """Refuse to touch tables that something else wrote to, unless that may be discarded.

    Raises:
        RecoveryBlocked: with the first table that is not as a crash of ours leaves it.
    """
    for verdict in judged:
        facts = verdict.facts
        if facts.table.created:
            continue  # No line names it: what is not as planned is only left behind.
        if verdict.table_class is TableClass.INVARIANT_VIOLATION:
            raise _blocked(
                sidecar, verdict, f"its pin is {facts.pin} and its newest version {facts.head}"
            )
        if may_discard:
            continue
        ours = {link.uuid for link in facts.table.links}
        strangers = [
            trace
            for trace in facts.traces
            if trace.uuid not in ours and trace.operation_id not in pending
        ]
        settled = line.settled({trace.operation_id for trace in strangers if trace.operation_id})
        unknown = [trace.version for trace in foreign_versions(strangers, settled)]
        if unknown:
            raise _blocked(sidecar, verdict, f"something else wrote versions {unknown}")


def _blocked(sidecar: Sidecar, judged: Judged, why: str) -> RecoveryBlocked:
    table = judged.facts.table
    return RecoveryBlocked(
        f"operation {sidecar.operation_id} cannot be recovered: {table.table_key} expected version"
        f" {table.expected_version}, {why}; reads and other branches go on. Run `omnigraph repair`"
        " to see what was changed from outside, and to undo it",
        operation_id=sidecar.operation_id,
        table=table.table_key,
        expected=table.expected_version,
        pin=judged.facts.pin,
        head=judged.facts.head,
    )


def _audited(judged: Judged, outcome: Outcome) -> dict[str, object]:
    facts = judged.facts
    return {
        "table_key": facts.table.table_key,
        "class": judged.table_class.value,
        "from_version": facts.head,
        "to_version": facts.head if outcome is Outcome.ROLLED_FORWARD else facts.pin,
    }
