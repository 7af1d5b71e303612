"""The one function that makes data visible.

A publish reads the newest version of the line, judges the intent against it, and merges its rows
on that very version. Every publish of a line replaces the same `graph_head` row, so of two that
started from one version Lance refuses one, which reads again and is judged again. The text of a
refusal means nothing: whatever goes wrong, the next read of the line decides what happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import (
    ExpectedVersionMismatch,
    Fenced,
    OmnigraphError,
    PreconditionFailed,
    ReadSetChanged,
    StorageDenied,
    StorageInternalError,
    StorageUnavailable,
)
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.manifest.intent import MAINTENANCE_KINDS, Intent, ParentRule
from omnigraph.graph.manifest.rows import CommitRow, HeadRow, Row, encode_rows
from omnigraph.ids import CommitId
from omnigraph.limits import MAX_PUBLISH_ROUNDS
from omnigraph.storage.signals import NotDurable, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.manifest_coordinator import ManifestCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.pauses import Pauses
    from omnigraph.ids import BranchId
    from omnigraph.storage.manifest import ManifestStorage

PUBLISHER_RETRY_BUDGET = MAX_PUBLISH_ROUNDS
_COMMITS_LOOKED_AT: Final = 64


class PublishContention(StorageSignal):
    """Every round was lost to others; the writer recovers its own sidecar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The commit is on the line, written by this call."""

    commit: CommitRow
    line: ManifestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPublished:
    """The commit was on the line: an acknowledgement was lost, or a recovery did the work."""

    commit: CommitRow
    line: ManifestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an operation ended, as its line says, durably."""

    commit: CommitRow | None
    """`None` if a recovery rolled it back or discarded it."""


class ManifestBatchPublisher:
    """Publishes intents on the lines of one graph."""

    def __init__(
        self,
        storage: ManifestStorage,
        lines: ManifestCoordinator,
        pauses: Pauses,
        clock: Clock,
    ) -> None:
        self._storage = storage
        self._lines = lines
        self._pauses = pauses
        self._clock = clock

    def publish(
        self,
        branch_id: BranchId,
        intent: Intent,
        *,
        beside: Iterable[Row] = (),
        armed_at: int | None = None,
    ) -> Published | AlreadyPublished:
        """Make the intent visible, with rows `beside` it in the same commit.

        Args:
            branch_id: The branch.
            intent: What is to be visible.
            beside: Rows for the same commit.
            armed_at: The version of the line before the operation was armed, if it is known:
                nothing of the operation can be on it, so only what came later is looked at.

        Raises:
            Fenced: a recovery has settled the operation.
            PreconditionFailed, ReadSetChanged, ExpectedVersionMismatch: judged and refused.
            PublishContention: the rounds are used up; the outcome is on the line.
            NotDurable: it is visible, and a power cut may take it.
            StorageUnavailable: the same of one that was found.
        """
        beside = tuple(beside)
        line = self._lines.read(branch_id)
        for attempt in range(PUBLISHER_RETRY_BUDGET):
            ended = self.ended(line, intent, armed_at=armed_at)
            if ended is not None:
                return _already(ended, intent, line)
            judge(intent, line)
            maybe_fail("publish.post_read_pre_commit")
            commit, rows = _rows_of(intent, line, self._clock.now_us())
            try:
                published = self._merge(line, (*rows, *beside))
            except NotDurable:
                raise  # It landed: another round would find it, and prove nothing.
            except (StorageSignal, StorageUnavailable, StorageInternalError, StorageDenied):
                self._pauses.between_rounds(attempt)
                line = self._lines.read_again(branch_id)
                continue
            return Published(commit=commit, line=published)
        ended = self.ended(line, intent, armed_at=armed_at)
        if ended is not None:
            return _already(ended, intent, line)
        raise PublishContention(f"{PUBLISHER_RETRY_BUDGET} rounds were lost")

    def ended(
        self, line: ManifestLine, intent: Intent, *, armed_at: int | None = None
    ) -> Ended | None:
        """How the operation of an intent ended, if the line says so; durable when this returns.

        The one place where an operation is found: nothing is acknowledged, and no sidecar removed,
        for what a line shows before it has passed here.

        Raises:
            StorageUnavailable: it could not be made durable; the sidecar must stay.
        """
        commit = line.commit(intent.commit_id, absent_at=armed_at)
        recovery = line.recovery(intent.operation_id, absent_at=armed_at)
        if commit is None and recovery is None:
            return None
        self.renew(line)
        return Ended(commit=commit)

    def renew(self, line: ManifestLine) -> None:
        """Make what was found on a line durable: whoever wrote it may have failed to.

        A version stands for all below it, so the newest one is enough.

        Raises:
            StorageUnavailable: it is there, and a power cut may take it.
        """
        try:
            self._storage.renew(line.handle)
        except (OmnigraphError, StorageSignal) as error:
            raise StorageUnavailable(
                f"the newest change of the branch is not durable, and could not be made so"
                f" ({error}); check the disk and send this again",
                operation="sync",
                target=line.branch_id,
            ) from error

    def merge_beside_head(self, line: ManifestLine, rows: Iterable[Row]) -> ManifestLine:
        """Write rows that make no data visible, on exactly this version of the line.

        The head is written again as it is: that row is where any two merges collide.

        Any failure leaves the outcome unknown; the caller reads the line again and decides. What it
        finds there it must `renew` before it counts on it.
        """
        return self._merge(line, (*rows, line.head))

    def _merge(self, line: ManifestLine, rows: tuple[Row, ...]) -> ManifestLine:
        merged = encode_rows(rows)
        handle = self._storage.merge(line.handle, merged, line.tip.places)
        if handle.version != line.handle.version + 1:
            return self._lines.read_again(line.branch_id)
        after = line.after_merge(handle, merged)
        self._lines.remember(after)
        return after


def _already(ended: Ended, intent: Intent, line: ManifestLine) -> AlreadyPublished:
    if ended.commit is None:
        raise fenced(intent.operation_id)
    return AlreadyPublished(commit=ended.commit, line=line)


def judge(intent: Intent, line: ManifestLine) -> None:
    """Whether an intent that has not ended may still be published on this version of the line.

    Raises:
        PreconditionFailed, ReadSetChanged, ExpectedVersionMismatch: in this order.
    """
    require_head(intent.if_commit, line)
    if line.schema.schema_hash != intent.schema_from:
        raise ReadSetChanged(
            "the schema of the graph changed while this write was prepared; prepare it again",
            member="schema",
            expected=intent.schema_from,
            actual=line.schema.schema_hash,
        )
    _require_pins(intent, line)
    if intent.parent_rule is ParentRule.EXACT and line.head.commit_id != intent.expected_head:
        raise ReadSetChanged(
            "the branch moved while this write was prepared; prepare it again",
            member="graph_head",
            expected=intent.expected_head,
            actual=line.head.commit_id,
        )


def fenced(operation_id: str) -> Fenced:
    """What the writer of an operation learns that a recovery has rolled back."""
    return Fenced(
        f"operation {operation_id} was rolled back by a recovery; nothing of it is visible, send"
        " it again",
        operation_id=operation_id,
    )


def require_head(if_commit: str | None, line: ManifestLine) -> None:
    """Refuse a conditional write whose condition does not hold.

    Raises:
        PreconditionFailed: the head is another commit.
    """
    if if_commit is not None and not stands_at(line, if_commit):
        raise PreconditionFailed(
            f"the head is {line.head.commit_id}, not {if_commit}; read the branch again and decide"
            " anew",
            expected=if_commit,
            actual=line.head.commit_id,
        )


def stands_at(line: ManifestLine, commit_id: str) -> bool:
    """Whether a commit is the head, not counting commits after it that change no row.

    Maintenance commits by itself, so whoever compares heads must not be disturbed by it.
    """
    commits = [line.head_commit]
    while commits:
        for commit in commits:
            if commit.commit_id == commit_id:
                return True
            if commit.kind not in MAINTENANCE_KINDS:
                return False
        upto = commits[-1].seq - 1
        commits = line.commits_between(upto - _COMMITS_LOOKED_AT, upto)
    return False


def _require_pins(intent: Intent, line: ManifestLine) -> None:
    for planned in intent.pins:
        if planned.expected_version is None:
            continue
        pin = line.pins.get(planned.ref)
        current = None if pin is None else (pin.branch, pin.version)
        if current != (planned.expected_branch, planned.expected_version):
            raise ExpectedVersionMismatch(
                f"{planned.table_key} is at version {pin.version if pin else 'none'}, and this"
                f" write was prepared on {planned.expected_version}; prepare it again",
                table=planned.table_key,
                expected=planned.expected_version,
                actual=None if pin is None else pin.version,
            )


def _rows_of(intent: Intent, line: ManifestLine, now_us: int) -> tuple[CommitRow, tuple[Row, ...]]:
    head = line.head
    seq = head.seq + 1
    commit = intent.commit_row(seq, line.head_commit, now_us)
    rows: list[Row] = [
        commit,
        HeadRow(commit_id=CommitId(intent.commit_id), seq=seq, branch_id=line.branch_id),
    ]
    rows += [registration.registration() for registration in intent.registrations]
    rows += [pin.row(seq) for pin in intent.pins]
    rows += [tombstone.tombstone(seq) for tombstone in intent.tombstones]
    rows += [copied.row() for copied in intent.history]
    if intent.schema_to is not None:
        rows.append(intent.schema_to.row())
    return commit, tuple(rows)
