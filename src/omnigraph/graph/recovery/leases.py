"""Write leases, taken, renewed, given back: who may move heads on a branch, on any machine.

A lease is the object of the greatest epoch below `__leases/<scope>/`. Taking it means creating the
next epoch, which only one can; the epoch is the fencing token. The holder renews it from a thread
and stops trusting it before anybody else may call it expired. That check is not the guarantee (a
process can stop right after it): recovery is.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.errors import BranchBusy, InvalidArgument, OmnigraphError, StorageUnavailable
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.recovery.process_identity import ProcessIdentity
from omnigraph.graph.recovery.write_queue import WriteQueueManager
from omnigraph.storage.objects import OBJECT_FORMAT, decode, encode
from omnigraph.storage.signals import AlreadyExists, ObjectMissing, StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.clock import Clock
    from omnigraph.graph.manifest.pauses import Pauses
    from omnigraph.ids import BranchId, IdSource
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.objects import StorageAdapter

log = logging.getLogger(__name__)

SCHEMA_SCOPE: Final = "schema"
MAINTENANCE_SCOPE: Final = "maintenance"
LEASES: Final = "__leases"
BRANCH_SCOPE: Final = "branch-"
_COLD_EXPIRY_US: Final = 10 * 60 * 1_000_000
_TIDY_ABOVE: Final = 4
_GIVES_WAY: Final = 4
_WAIT_COUNTS_US: Final = 60 * 1_000_000
_LINGER_LOOK_S: Final = 0.05


def branch_scope(branch_id: BranchId) -> str:
    """The scope of a branch's lease."""
    return f"{BRANCH_SCOPE}{branch_id}"


class LeaseLost(StorageSignal):
    """The lease may be, or is, another's."""


class LeaseBody(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a lease object."""

    format: int
    owner: str
    host: str
    boot_id: str
    pid: int
    pid_started: str
    beat: int
    renewed_at: int
    ttl_ms: int
    released: bool = False

    @property
    def process(self) -> ProcessIdentity:
        """The process that holds it."""
        return ProcessIdentity(
            host=self.host, boot_id=self.boot_id, pid=self.pid, pid_started=self.pid_started
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """What lies in the folder of a scope."""

    epochs: list[int]
    waiters: frozenset[str]
    forgotten: list[str]
    """Announcements so old that their makers have given up or died."""


@dataclass(slots=True)
class _Sighting:
    epoch: int
    beat: int
    since_us: int


class Lease:
    """A lease that this process holds, until it is released or lost."""

    def __init__(self, leases: Leases, scope: str, epoch: int, *, renewed_us: int) -> None:
        self._leases = leases
        self.scope = scope
        self.epoch = epoch
        self.beat = 0
        self.renewed_us = renewed_us
        """When the last renewal was started, on the monotonic clock."""

        self.is_released = False
        self.writing = threading.Lock()
        """Held while the object is replaced, so that a late renewal cannot undo a release."""

    def check(self) -> None:
        """Make sure that nobody else may hold the lease by now.

        Raises:
            LeaseLost: too long since the last renewal, or a higher epoch exists.
        """
        self._leases.check(self)

    def release(self) -> None:
        """Give the lease up; safe when it is lost already."""
        self._leases.release(self)


class Leases:
    """Takes, renews and releases the leases of one open graph."""

    def __init__(
        self,
        objects: StorageAdapter,
        clock: Clock,
        ids: IdSource,
        pauses: Pauses,
        settings: StorageSettings,
        process: ProcessIdentity,
        *,
        linger_ms: int = 0,
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._ids = ids
        self._pauses = pauses
        self._settings = settings
        self._process = process
        self.owner = ids.next_ulid()
        self._sightings: dict[str, _Sighting] = {}
        self._held: dict[str, Lease] = {}
        self._released: dict[str, int] = {}
        """By scope: the epoch that this process gave up last."""

        self._lingering: dict[str, int] = {}
        self._linger_us = linger_ms * 1_000
        self._queue = WriteQueueManager()
        self._condition = threading.Condition()
        self._renewer: threading.Thread | None = None
        self._closed = False
        self._ttl_us = settings.lease_ttl_ms * 1_000
        self._trusted_us = self._ttl_us * 2 // 3

    @contextmanager
    def holding(self, scope: str, *, wait_ms: int | None = None) -> Iterator[Lease]:
        """Hold a lease for the length of a block.

        Raises:
            BranchBusy: it was not free within the wait.
        """
        wait_ms = self._settings.lease_wait_ms if wait_ms is None else wait_ms
        if self._closed:
            raise InvalidArgument("this graph is closed; open it again to write to it")
        with self._queue.turn(scope, wait_ms=wait_ms) as is_our_turn:
            if not is_our_turn:
                raise self._busy(scope, wait_ms)
            lease = self._resume(scope) or self.acquire(scope, wait_ms=wait_ms)
            try:
                yield lease
            finally:
                if not self._keeps(lease):
                    lease.release()

    def acquire(self, scope: str, *, wait_ms: int) -> Lease:
        """Take the lease, waiting for a live holder up to the given time.

        Raises:
            BranchBusy: it was not free within the wait.
        """
        until_us = self._clock.monotonic_us() + wait_ms * 1_000
        announced: str | None = None
        attempt = 0
        try:
            while True:
                lease = self._try(scope, gives_way=attempt < _GIVES_WAY, announced=announced)
                if lease is not None:
                    return lease
                if self._clock.monotonic_us() >= until_us:
                    raise self._busy(scope, wait_ms)
                announced = announced or self._announce(scope)
                self._pauses.for_lease(attempt)
                attempt += 1
        finally:
            if announced is not None:
                self._withdraw(announced, scope)

    def _withdraw(self, announced: str, scope: str) -> None:
        """Take an announcement back; an interrupt must not cost the lease it was made for."""
        try:
            self._drop(announced)
        except BaseException:
            held = self._held.get(scope)
            if held is not None:
                self.release(held)
            raise

    def check(self, lease: Lease) -> None:
        """See `Lease.check`."""
        if lease.is_released:
            raise LeaseLost(f"{lease.scope} was released")
        age_us = self._clock.monotonic_us() - lease.renewed_us
        if age_us > self._trusted_us:
            raise LeaseLost(f"{lease.scope} was renewed {age_us // 1_000} ms ago")
        newest = max(self._look(lease.scope).epochs, default=lease.epoch)
        if newest > lease.epoch:
            raise LeaseLost(f"{lease.scope} has epoch {newest}, ours is {lease.epoch}")

    def release(self, lease: Lease) -> None:
        """See `Lease.release`."""
        with self._condition:
            if self._held.get(lease.scope) is lease:
                del self._held[lease.scope]
        maybe_fail("lease.release")
        with lease.writing:
            if lease.is_released:
                return
            lease.is_released = True
            self._released[lease.scope] = lease.epoch
            try:
                self._objects.put(_path(lease.scope, lease.epoch), self._body(lease, released=True))
            except (OmnigraphError, StorageSignal) as error:
                # It expires by itself; what was done under it stands.
                log.warning("lease not released", extra={"scope": lease.scope, "cause": str(error)})

    def _keeps(self, lease: Lease) -> bool:
        """Whether the lease stays ours for the next write: nobody waits, and the time is short."""
        if not self._linger_us or self._closed:
            return False
        try:
            self.check(lease)
            if self._has_waiters(lease.scope):
                return False
        except (OmnigraphError, StorageSignal):
            return False
        with self._condition:
            self._lingering[lease.scope] = self._clock.monotonic_us() + self._linger_us
            self._condition.notify_all()
        return True

    def _resume(self, scope: str) -> Lease | None:
        """The lease that was kept since the last write, if it still is ours."""
        with self._condition:
            if self._lingering.pop(scope, None) is None:
                return None
            lease = self._held.get(scope)
        if lease is None:
            return None
        try:
            self.check(lease)
        except (OmnigraphError, StorageSignal):
            lease.release()
            return None
        return lease

    def _has_waiters(self, scope: str) -> bool:
        return bool(self._look(scope).waiters)

    def close(self) -> None:
        """Release what is kept and stop renewing; a write under way releases its own."""
        with self._condition:
            self._closed = True
            kept = [self._held[scope] for scope in self._lingering if scope in self._held]
            self._lingering.clear()
        for lease in kept:
            self.release(lease)
        with self._condition:
            self._condition.notify_all()
            is_idle = not self._held
        if self._renewer is not None and is_idle:
            self._renewer.join()

    def _try(self, scope: str, *, gives_way: bool, announced: str | None) -> Lease | None:
        folder = self._look(scope)
        newest = max(folder.epochs, default=0)
        if newest and not self._is_free(scope, newest):
            return None
        # Whoever had it last is the first to know that it is free; it lets one who waits go first.
        had_it_last = self._released.get(scope) == newest
        if gives_way and had_it_last and folder.waiters - {announced}:
            return None
        started_us = self._clock.monotonic_us()
        lease = Lease(self, scope, newest + 1, renewed_us=started_us)
        try:
            self._objects.create(_path(scope, lease.epoch), self._body(lease))
        except AlreadyExists:
            return None
        except StorageUnavailable:
            self._give_back(lease)
            raise
        try:
            maybe_fail("lease.post_create")
            self._keep(lease)
            if len(folder.epochs) > _TIDY_ABOVE:
                old = [_path(scope, epoch) for epoch in folder.epochs if epoch < newest]
                for path in (*old, *folder.forgotten):
                    self._drop(path)
        except BaseException:
            # An interrupt here would leave the lease held, and renewed, for ever.
            self.release(lease)
            raise
        return lease

    def _give_back(self, lease: Lease) -> None:
        """Release a lease of which only the answer was lost, or nobody had it until it expires."""
        try:
            record = self._read(lease.scope, lease.epoch)
        except OmnigraphError as error:
            log.info("lease left", extra={"scope": lease.scope, "cause": str(error)})
            return
        if record is not None and record.owner == self.owner:
            self.release(lease)

    def _drop(self, path: str) -> None:
        """Remove what nobody needs; a failure must not cost the lease that is already ours."""
        try:
            self._objects.delete(path)
        except (OmnigraphError, StorageSignal) as error:
            log.info("lease object left", extra={"path": path, "cause": str(error)})

    def _is_free(self, scope: str, epoch: int) -> bool:
        body = self._read(scope, epoch)
        if body is None:
            return False  # Tidied since the listing: somebody is at work; look again.
        if body.released or self._process.knows_gone(body.process):
            return True
        if body.owner == self.owner and scope not in self._held:
            return True  # Ours, and only its release was lost.
        now_us = self._clock.monotonic_us()
        seen = self._sightings.get(scope)
        if seen is None and self._clock.now_us() - body.renewed_at > _COLD_EXPIRY_US:
            return True
        if seen is None or (seen.epoch, seen.beat) != (epoch, body.beat):
            self._sightings[scope] = _Sighting(epoch, body.beat, now_us)
            return False
        return now_us - seen.since_us >= body.ttl_ms * 1_000

    def _read(self, scope: str, epoch: int) -> LeaseBody | None:
        path = _path(scope, epoch)
        try:
            data = self._objects.get(path)
        except ObjectMissing:
            return None
        try:
            return msgspec.convert(decode(data, path), LeaseBody)
        except (ValueError, msgspec.ValidationError):
            return self._unreadable()

    def _unreadable(self) -> LeaseBody:
        """A lease that a power cut has emptied: nobody renews it, so only watching it frees it."""
        return LeaseBody(
            format=OBJECT_FORMAT,
            owner="",
            host="",
            boot_id="",
            pid=0,
            pid_started="",
            beat=-1,
            renewed_at=self._clock.now_us(),
            ttl_ms=self._settings.lease_ttl_ms,
        )

    def _look(self, scope: str) -> _Folder:
        objects = self._objects.list(f"{LEASES}/{scope}")
        names = {info.path.rpartition("/")[2]: info for info in objects}
        waits = [info for name, info in names.items() if name.startswith("wait-")]
        oldest_us = self._clock.now_us() - _WAIT_COUNTS_US
        return _Folder(
            epochs=[
                int(name.removesuffix(".json"))
                for name in names
                if name.endswith(".json") and name.removesuffix(".json").isdigit()
            ],
            waiters=frozenset(info.path for info in waits if info.modified_us >= oldest_us),
            forgotten=[info.path for info in waits if info.modified_us < oldest_us],
        )

    def _announce(self, scope: str) -> str:
        path = f"{LEASES}/{scope}/wait-{self._ids.next_ulid()}"
        self._objects.create(path, b"")
        return path

    def _body(self, lease: Lease, *, released: bool = False) -> bytes:
        return encode(
            {
                "owner": self.owner,
                **self._process.to_dict(),
                "beat": lease.beat,
                "renewed_at": self._clock.now_us(),
                "ttl_ms": self._settings.lease_ttl_ms,
                "released": released,
            }
        )

    def _busy(self, scope: str, wait_ms: int) -> BranchBusy:
        return BranchBusy(
            f"the lease {scope!r} was not free within {wait_ms} ms; another process writes to it:"
            " send the same again later, or raise OMNIGRAPH_LEASE_WAIT_MS",
            scope=scope,
        )

    def _keep(self, lease: Lease) -> None:
        with self._condition:
            self._held[lease.scope] = lease
            if self._renewer is None:
                self._renewer = threading.Thread(
                    target=self._renew_all, name="omnigraph-leases", daemon=True
                )
                self._renewer.start()

    def _renew_all(self) -> None:
        pause_s = self._settings.lease_ttl_ms / 3 / 1_000
        while True:
            with self._condition:
                if self._closed and not self._held:
                    return
                self._condition.wait(min(pause_s, _LINGER_LOOK_S) if self._lingering else pause_s)
                held = list(self._held.values())
                kept = dict(self._lingering)
            for lease in held:
                if lease.scope in kept:
                    self._end_linger(lease, kept[lease.scope])
                self._renew(lease)

    def _end_linger(self, lease: Lease, until_us: int) -> None:
        """Give up a kept lease whose time is over or that somebody waits for."""
        try:
            is_over = self._clock.monotonic_us() >= until_us or self._has_waiters(lease.scope)
        except (OmnigraphError, StorageSignal):
            is_over = True
        with self._condition:
            # A writer that has resumed the lease meanwhile is the one to release it.
            if not is_over or self._lingering.get(lease.scope) != until_us:
                return
            del self._lingering[lease.scope]
        self.release(lease)

    def _renew(self, lease: Lease) -> None:
        started_us = self._clock.monotonic_us()
        age_us = started_us - lease.renewed_us
        # Too young is work for nothing; too old may be another's by now, and is lost.
        if not self._ttl_us // 4 <= age_us <= self._trusted_us:
            return
        with lease.writing:
            if lease.is_released:
                return
            maybe_fail("lease.renew")
            lease.beat += 1
            try:
                self._objects.put(_path(lease.scope, lease.epoch), self._body(lease))
            except (OmnigraphError, StorageSignal) as error:
                # `check` will say so in time.
                log.warning("lease not renewed", extra={"scope": lease.scope, "cause": str(error)})
                return
            lease.renewed_us = started_us


def _path(scope: str, epoch: int) -> str:
    return f"{LEASES}/{scope}/{epoch:012d}.json"
