"""A write whose answers were lost is durable when it is acknowledged, like every other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.actors import Actor, Crash
from tests.crash.checks import content_of
from tests.crash.places import PLACES, Arranged, arrange
from tests.crash.scripts import SCRIPTS
from tests.crash.writes import commit, play

from omnigraph.storage.calls import StoreCall

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash


class Forgetful:
    """A `CallObserver` that loses the answer of one call, and notes what was synced."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        self._calls: tuple[StoreCall, ...] = ()
        self._error: BaseException | None = None

    def lose(self, *calls: StoreCall, error: BaseException) -> None:
        """Lose the answer of the next call that is one of these."""
        self._calls, self._error = calls, error

    def before(self, call: StoreCall) -> None:
        """Nothing happens before a call."""

    def after(self, call: StoreCall) -> None:
        if call.operation == "sync":
            self.synced.add(call.target)
        if call in self._calls and self._error is not None:
            error, self._error = self._error, None
            raise error


@pytest.fixture(params=PLACES)
def arranged(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Arranged:
    return arrange(tmp_path_factory.getbasetemp(), tmp_path / "graph", request.param)


def versions(root: Path) -> set[str]:
    """The files whose loss in a power cut would lose a version."""
    return {str(path.relative_to(root)) for path in root.glob("**/_versions/*.manifest")}


PUBLISH = StoreCall(operation="merge", target="__manifest")
LAST_TABLE = StoreCall(operation="commit", target="edge:Knows")


@pytest.mark.parametrize("call", [PUBLISH, LAST_TABLE], ids=["publish", "last_table"])
def test_a_write_with_a_lost_answer_is_durable_when_acknowledged(
    arranged: Arranged, call: StoreCall
) -> None:
    store = Forgetful()
    before = versions(arranged.root)
    with Actor(arranged.root, "child", observer=store, durability="full").graph as graph:
        store.lose(call, error=OSError("the answer was lost"))
        assert commit(graph, SCRIPTS["upsert"], arranged.branch) is not None
        assert content_of(graph, arranged.branch) == play(arranged.content, SCRIPTS["upsert"])
    assert versions(arranged.root) - before - store.synced == set()


@pytest.mark.parametrize("call", [PUBLISH, LAST_TABLE], ids=["publish", "last_table"])
def test_a_write_that_others_finished_is_durable_then(arranged: Arranged, call: StoreCall) -> None:
    died, store = Forgetful(), Forgetful()
    before = versions(arranged.root)
    dead = Actor(arranged.root, "child", observer=died, durability="full")
    died.lose(call, error=Crash())
    with dead.graph as graph, pytest.raises(Crash):
        commit(graph, SCRIPTS["upsert"], arranged.branch)
    with Actor(arranged.root, "parent", observer=store, durability="full").graph as graph:
        assert content_of(graph, arranged.branch) == play(arranged.content, SCRIPTS["upsert"])
    assert versions(arranged.root) - before - died.synced - store.synced == set()
