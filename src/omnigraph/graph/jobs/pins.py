"""Pins of long jobs: versions that a job still reads, told to whoever cleans up.

A pin is one object below `__leases/pins/`, renewed from a thread like a lease and expired like
one. It protects versions, not heads: nobody waits for it. A job that cannot renew its pin goes on:
young versions are kept in any case, and a read that meets a removed one says so.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from omnigraph.errors import OmnigraphError
from omnigraph.graph.lifecycle.coordinator import OpenMode
from omnigraph.graph.recovery.process_identity import ProcessIdentity, this_process
from omnigraph.ids import new_operation_id
from omnigraph.storage.objects import OBJECT_FORMAT, decode, encode
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from omnigraph.clock import Clock
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.objects import StorageAdapter

log = logging.getLogger(__name__)

PINS: Final = "__leases/pins"
_RENEWALS_PER_LIFE: Final = 3
_SILENT_MS: Final = 60_000
"""Clocks of two machines differ; a job that was silent for so long is taken for dead."""


def living_pin(
    objects: StorageAdapter, clock: Clock, operation_id: str
) -> Mapping[str, Any] | None:  # Any: as JSON gives it
    """The pin of a job that may still run: its process is not known to be gone, nor long silent."""
    return _living(objects, clock, pin_path(operation_id))


def all_pins(
    objects: StorageAdapter, clock: Clock
) -> tuple[list[Mapping[str, Any]], list[str]]:  # Any: as JSON gives it
    """The pins of jobs that may still run, and the paths of those that may not."""
    living, expired = [], []
    for info in objects.list(PINS):
        pin = _living(objects, clock, info.path)
        if pin is None:
            expired.append(info.path)
        else:
            living.append(pin)
    return living, expired


def _living(
    objects: StorageAdapter, clock: Clock, path: str
) -> Mapping[str, Any] | None:  # Any: as JSON gives it
    try:
        pin = decode(objects.get(path), path)
    except ObjectMissing:
        return None
    maker = ProcessIdentity(
        host=pin["host"],
        boot_id=pin["boot_id"],
        pid=pin["pid"],
        pid_started=pin["pid_started"],
    )
    silent_ms = (clock.now_us() - pin["renewed_at"]) // 1_000
    if this_process().knows_gone(maker) or silent_ms > max(_SILENT_MS, 4 * pin["ttl_ms"]):
        return None
    return pin


def pin_path(operation_id: str) -> str:
    """Where the pin of a job is."""
    return f"{PINS}/pin-{operation_id}.json"


def pin_for_job(
    objects: StorageAdapter,
    clock: Clock,
    settings: StorageSettings,
    *,
    operation_id: str,
    kind: str,
    owner: str | None = None,
) -> JobPin:
    """The pin of a job on the graph of these objects; it lives as long as a lease does."""
    return JobPin(
        objects,
        clock,
        operation_id=operation_id,
        kind=kind,
        owner=owner,
        ttl_ms=settings.lease_ttl_ms,
    )


@contextmanager
def pinned(graph: GraphCoordinator, kind: str, tables: Iterable[TableHandle]) -> Iterator[None]:
    """Keep versions from a cleanup while they are read, as far as the graph may be written to.

    A pin that cannot be written hinders no reader: a read of what was removed says so.
    """
    if graph.mode is OpenMode.READ_ONLY:
        yield
        return
    pin = JobPin(
        graph.storage.objects,
        graph.clock,
        operation_id=new_operation_id(graph.ids),
        kind=kind,
        owner=None,
        ttl_ms=graph.lease_ttl_ms,
    )
    with pin:
        try:
            pin.hold(tables)
        except OmnigraphError as error:
            log.warning("read without a pin", extra={"kind": kind, "why": error.message})
        yield


class JobPin:
    """The pin of one job, from its first `hold` to the end of the block."""

    def __init__(
        self,
        objects: StorageAdapter,
        clock: Clock,
        *,
        operation_id: str,
        kind: str,
        owner: str | None,
        ttl_ms: int,
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._path = pin_path(operation_id)
        self._operation_id = operation_id
        self._process = this_process()
        self._kind = kind
        self._owner = owner
        self._ttl_ms = ttl_ms
        self._beat = 0
        self._pins: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def hold(self, tables: Iterable[TableHandle]) -> None:
        """Pin these versions, and those of earlier calls, until the pin is released."""
        with self._lock:
            for table in tables:
                where = f"{table.pin.location}@{table.pin.branch or ''}:{table.pin.version}"
                self._pins[where] = {
                    "table": table.layout.table_key,
                    "location": table.pin.location,
                    "branch": table.pin.branch,
                    "version": table.pin.version,
                }
            # The first one takes the place of a dead job's that this one goes on with.
            if not self._beat or not self._is_taken_over():
                self._write()
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="omnigraph-pin", daemon=True)
            self._thread.start()

    def release(self) -> None:
        """Remove the pin; safe twice. One that cannot be removed expires."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            try:
                if not self._is_taken_over():
                    self._objects.delete(self._path)
            except OmnigraphError as error:
                log.warning("a pin stays until it expires", extra={"why": error.message})

    def _is_taken_over(self) -> bool:
        """Whether another process goes on with this job, and has its own pin here."""
        try:
            pin = decode(self._objects.get(self._path), self._path)
        except ObjectMissing:
            return False
        return (pin["host"], pin["pid"], pin["pid_started"]) != (
            self._process.host,
            self._process.pid,
            self._process.pid_started,
        )

    def _renew(self) -> None:
        while not self._ended.wait(self._ttl_ms / 1_000 / _RENEWALS_PER_LIFE):
            try:
                with self._lock:
                    if not self._is_taken_over():
                        self._write()
            except OmnigraphError as error:
                log.warning("a pin was not renewed", extra={"why": error.message})

    def _write(self) -> None:
        self._beat += 1
        body = {
            "format": OBJECT_FORMAT,
            "operation_id": self._operation_id,
            "kind": self._kind,
            "owner": self._owner,
            **self._process.to_dict(),
            "beat": self._beat,
            "renewed_at": self._clock.now_us(),
            "ttl_ms": self._ttl_ms,
            "pins": list(self._pins.values()),
        }
        self._objects.put(self._path, encode(body))
