"""Writers in one process that a test moves step by step.

Each actor has an open graph of its own, with its own clock. Its clock stands still, so its lease is
never renewed, and leaps over a whole lease while it waits for another's: to an actor, whoever does
not move has expired. Nothing here sleeps longer than the pauses of the protocol.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.crash.checks import settings
from tests.crash.leaping import Leaping, standing_clock
from tests.crash.processes import TTL_MS
from tests.crash.writes import Write, commit

from omnigraph import Graph, failpoints
from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.ids import UlidSource
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.storage.calls import CallObserver

_PATIENCE_S = 30.0


class Crash(BaseException):
    """Ends a write as a kill does: no handler of the protocol sees it."""


class Actor:
    """A writer with its own open graph and clock."""

    def __init__(
        self,
        root: Path,
        name: str,
        *,
        observer: CallObserver | None = None,
        durability: str = "process",
    ) -> None:
        self.name = name
        self.clock = standing_clock()
        chosen = replace(settings(durability, ttl_ms=TTL_MS).storage, lease_wait_ms=20 * TTL_MS)
        ids = UlidSource(SystemClock())
        location = parse_location(root, chosen)
        self.coordinator = GraphCoordinator(
            open_storage(location, chosen, ids, observer=observer), chosen, self.clock, ids
        )
        self.coordinator.leases._pauses = Leaping(self.clock, TTL_MS)
        self.graph = Graph(self.coordinator, name, owns=True)

    def sleep_past_lease(self) -> None:
        """Let so much time pass for this actor alone that its lease is over."""
        self.clock.advance(ms=10 * TTL_MS)

    def crash_at(self, point: str, script: Write, branch: str) -> None:
        """Begin a write and die at a point."""
        try:
            with failpoints.armed(point, _crash):
                commit(self.graph, script, branch)
        except Crash:
            return
        raise AssertionError(f"{point} was not passed")


def _crash() -> None:
    raise Crash


@contextmanager
def actors(root: Path, *names: str) -> Iterator[list[Actor]]:
    """Several actors on one graph."""
    with ExitStack() as stack:
        made = [Actor(root, name) for name in names]
        for each in made:
            stack.callback(each.graph.close)
        yield made


@dataclass(slots=True)
class Played:
    """A write of an actor in a thread of its own, and what became of it."""

    actor: Actor
    script: Write
    branch: str
    parks_at: str | None
    commit_id: str | None = None
    error: Exception | None = None
    is_parked: bool = False
    has_parked: bool = False
    _go: threading.Event = field(default_factory=threading.Event)
    _rest: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Run until it parks or ends."""
        self._thread = threading.Thread(target=self._run, name=self.actor.name)
        self._thread.start()
        self._wait()

    def resume(self, *, late: bool) -> None:
        """Run on until it ends; `late` lets its lease run out while it was parked."""
        if not self.is_parked:
            return
        if late:
            self.actor.sleep_past_lease()
        self._rest.clear()
        self._go.set()
        self._wait()
        self.join()

    def join(self) -> None:
        """Wait for the end of its thread."""
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
            assert not self._thread.is_alive(), f"{self.actor.name} hangs"

    def pass_point(self, point: str) -> None:
        """Called in its thread at an armed point."""
        if self.has_parked or point != self.parks_at:
            return
        self.has_parked = self.is_parked = True
        self._rest.set()
        assert self._go.wait(_PATIENCE_S)
        self.is_parked = False

    def _wait(self) -> None:
        assert self._rest.wait(_PATIENCE_S), f"{self.actor.name} neither parked nor ended"

    def _run(self) -> None:
        try:
            made = commit(self.actor.graph, self.script, self.branch)
            self.commit_id = None if made is None else made.graph_commit_id
        except Exception as error:  # noqa: BLE001 - the test judges it
            self.error = error
        finally:
            self._rest.set()

    @property
    def refusal(self) -> str | None:
        """The class of the typed error that it got."""
        if self.error is None:
            return None
        assert isinstance(self.error, OmnigraphError), repr(self.error)
        return type(self.error).__name__


@contextmanager
def parking(*played: Played) -> Iterator[None]:
    """Arm the points at which these writes park; each only in its own thread."""
    by_thread = {each.actor.name: each for each in played}

    def at(point: str) -> Callable[[], None]:
        def act() -> None:
            mine = by_thread.get(threading.current_thread().name)
            if mine is not None:
                mine.pass_point(point)

        return act

    with ExitStack() as stack:
        for point in {each.parks_at for each in played if each.parks_at}:
            stack.enter_context(failpoints.armed(point, at(point)))
        yield
