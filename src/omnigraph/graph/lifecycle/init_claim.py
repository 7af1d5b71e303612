"""The claim that an init holds while a graph is being created.

A claim without a manifest is an init under way, or one that crashed; a claim beside a manifest is
what a crash after the creation left, and the next read-write open removes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import InitInProgress
from omnigraph.graph.recovery.process_identity import ProcessIdentity
from omnigraph.storage.objects import OBJECT_FORMAT, decode
from omnigraph.storage.signals import AlreadyExists, ObjectMissing

if TYPE_CHECKING:
    from omnigraph.clock import Clock
    from omnigraph.storage.objects import StorageAdapter

CLAIM_PATH: Final = "__init_claim.json"
_ABANDONED_US: Final = 10 * 60 * 1_000_000


class InitClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Who creates the graph."""

    format: int = OBJECT_FORMAT
    claim_id: str
    host: str
    boot_id: str
    pid: int
    pid_started: str
    started_at: int
    schema_hash: str

    @property
    def process(self) -> ProcessIdentity:
        """The claimant."""
        return ProcessIdentity(
            host=self.host, boot_id=self.boot_id, pid=self.pid, pid_started=self.pid_started
        )

    @property
    def holder(self) -> str:
        """The claimant, for a message."""
        return f"process {self.pid} on {self.host}"

    def is_abandoned(self, process: ProcessIdentity, clock: Clock) -> bool:
        """Whether the claimant is known to be gone, or has had ten minutes."""
        return process.knows_gone(self.process) or clock.now_us() - self.started_at > _ABANDONED_US


def take_claim(objects: StorageAdapter, claim: InitClaim) -> None:
    """Claim the root for one init.

    Raises:
        InitInProgress: another claim is there.
    """
    try:
        objects.create(CLAIM_PATH, msgspec.json.encode(claim, order="sorted"))
    except AlreadyExists as error:
        raise in_progress(find_claim(objects)) from error


def in_progress(claim: InitClaim | None) -> InitInProgress:
    """The error that names the holder of a claim."""
    holder = "another process" if claim is None else claim.holder
    return InitInProgress(
        f"{holder} is creating a graph here; wait for it, or, if it is gone, clear what it left"
        " with `omnigraph init --force` or `omnigraph clone --force` (force=True)",
        claim={} if claim is None else msgspec.to_builtins(claim),
    )


def find_claim(objects: StorageAdapter) -> InitClaim | None:
    """The claim on this root, if there is one."""
    try:
        return msgspec.convert(decode(objects.get(CLAIM_PATH), CLAIM_PATH), InitClaim)
    except ObjectMissing:
        return None
    except (ValueError, msgspec.ValidationError):
        return _torn_claim()


def _torn_claim() -> InitClaim:
    """What a power cut left of a claim: its holder cannot have survived."""
    return InitClaim(
        claim_id="",
        host="this machine, before a power cut",
        boot_id="",
        pid=0,
        pid_started="",
        started_at=0,
        schema_hash="",
    )


def require_claim(objects: StorageAdapter, claim_id: str) -> None:
    """Make sure that the claim is still this one: a slow init may have been taken for dead.

    Raises:
        InitInProgress: the claim is gone, or another's.
    """
    claim = find_claim(objects)
    if claim is None or claim.claim_id != claim_id:
        raise in_progress(claim)


def release_claim(objects: StorageAdapter, claim_id: str) -> None:
    """Remove the claim, if it is still this one."""
    claim = find_claim(objects)
    if claim is not None and claim.claim_id == claim_id:
        objects.delete(CLAIM_PATH)


def release_stale_claim(objects: StorageAdapter, created_by: str) -> None:
    """Remove the claim that the creator of this graph did not come to remove."""
    claim = find_claim(objects)
    if claim is not None and claim.claim_id == created_by:
        release_claim(objects, created_by)
