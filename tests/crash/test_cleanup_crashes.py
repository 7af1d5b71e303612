"""A cleanup that dies or fails at any removal has lost nothing that a floor protects.

Whoever comes next finds every branch, tag and merge base as it was, and removes what is left. The
removal at the end of a hard drop of a schema is held to the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING

import pytest
from tests.extended import thinned
from tests.forked import start
from tests.unit.graph.graphs import (
    Killed,
    Opened,
    age_files,
    killed_at,
    people,
    require_settled,
    upsert,
)

from omnigraph.clock import SystemClock
from omnigraph.errors import OmnigraphError, SnapshotReclaimed
from omnigraph.failpoints import armed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from omnigraph import Graph
    from omnigraph.clock import Clock
    from omnigraph.graph.maintenance.cleanup_report import CleanupReport
    from omnigraph.storage.calls import StoreCall

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

AFTER = "node Person { name: String @key }\nedge Knows: Person -> Person"
BEFORE = f"{AFTER}\nnode Old {{ name: String @key }}"
WITH_AGE = AFTER.replace("@key", "@key  age: I32?")
DAYS = 9
ALONE = {"AUTO_MAINTENANCE": "0", "MAINTENANCE_CONCURRENCY": "1"}
REMOVALS = ("clean", "delete", "delete_line", "remove_folders")


class Later(SystemClock):
    """The time in nine days."""

    def now_us(self) -> int:
        """Microseconds since the epoch, as they will be then."""
        return super().now_us() + DAYS * 86_400 * 1_000_000


@dataclass
class RemovalTrap:
    """A `CallObserver` that acts before the n-th removal, or the mark that announces one."""

    number: int
    act: Callable[[], None]
    is_on: bool = True
    hit: StoreCall | None = None
    _left: int = field(init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = self.number

    def switch_on(self) -> None:
        """Count from now on."""
        self.is_on = True

    def before(self, call: StoreCall) -> None:
        """Act at the n-th."""
        is_mark = call.operation == "create" and "/cleaned-" in call.target
        is_other = call.target.startswith(("__leases/", "__probe-"))
        if not self.is_on or is_other or not (is_mark or call.operation in REMOVALS):
            return
        with self._guard:
            self._left -= 1
            if self._left:
                return
            self.hit = call
        self.act()

    def after(self, call: StoreCall) -> None:
        """Nothing happens after a call."""


def fail() -> None:
    raise OSError("injected")


def leave() -> None:
    raise Killed("at a removal")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def build(root: Path) -> None:
    """A graph with old versions on two lines, a tag, and leftovers of every kind, all of it old."""
    opened = Opened(root.parent)
    graph = opened.init(BEFORE, **ALONE)
    with graph.write() as writer:
        writer.append("Old", people("x"))
        writer.commit()
    graph.schema.apply(AFTER)
    for number in range(4):
        upsert(graph, f"p{number}")
    graph.tags.create("old", at=list(graph.commits)[1].graph_commit_id)
    graph.branches.create("rev")
    for number in range(10):
        upsert(graph, f"m{number}")
        upsert(graph, f"r{number}", branch="rev")
    with killed_at("branch_create.post_native"), pytest.raises(Killed):
        opened.open().branches.create("never")
    table = root / graph.snapshot().tables[-1].dataset_path
    for leftover in (
        "__staging/01J00000000000000000000000/parts/note.json",
        "__staging/embed/paid.arrow",
        "nodes/00000000000000ff-0000000000000001/_versions/x",
        f"{table.relative_to(root)}/_versions/d123.manifest",
    ):
        path = root / leftover
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
    opened.close()
    age_files(root, DAYS * 86_400)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the graph; branches know its place, so each test puts it back there."""
    folder = tmp_path_factory.mktemp("cleaned")
    build(folder / "g")
    shutil.copytree(folder / "g", folder / "kept")
    return folder


def put_back(folder: Path) -> Opened:
    shutil.rmtree(folder / "g")
    shutil.copytree(folder / "kept", folder / "g")
    return Opened(folder)


LATER = Later()


def parted(
    opened: Opened, trap: RemovalTrap | None = None, *, clock: Clock | None = LATER
) -> Graph:
    """A handle of its own, in nine days if no other clock is given."""
    return opened.coordinated(
        observer=trap, clock=clock, AUTO_MAINTENANCE="0", MAINTENANCE_CONCURRENCY="1"
    )


def clean(graph: Graph, *, confirm: bool = True) -> CleanupReport:
    return graph.maintenance.cleanup(keep=3, confirm=confirm)


def clean_and_die(folder: str, number: int) -> None:
    """For a child: a cleanup that is killed before its n-th removal."""
    from pathlib import Path

    opened = Opened(Path(folder))
    clean(parted(opened, RemovalTrap(number, die)))
    os._exit(0)


MAIN = sorted([*(f"p{number}" for number in range(4)), *(f"m{number}" for number in range(10))])
REV = sorted([*(f"p{number}" for number in range(4)), *(f"r{number}" for number in range(10))])


def require_all(opened: Opened, label: object) -> None:
    """What the floors protect is there, and the next cleanup removes the rest."""
    with closing(opened.open(**ALONE)) as fresh:
        assert (names_of(fresh), names_of(fresh, "rev")) == (MAIN, REV), label
        assert fresh.snapshot("old").scan("Person").read_all().num_rows == 3, label
        assert fresh.branches.merge_plan("rev").conflict_count == 0, label
        assert fresh.maintenance.verify().is_sound, label
    with closing(parted(opened)) as later:
        done = clean(later)
        assert done.errors == (), label
        left = clean(later, confirm=False)
        assert left.leftovers == (), label
        assert not any(table.old_versions_removed for table in left.tables), label
        later.branches.merge("rev")
        upsert(later, "next")
        assert names_of(later) == sorted({*MAIN, *REV, "next"}), label
        require_settled(later)


def names_of(graph: Graph, branch: str = "main") -> list[str]:
    rows = graph.snapshot(branch=branch).scan("Person", columns=["id"]).read_all()
    return sorted(str(each) for each in rows["id"].to_pylist())


STEPS = (
    pytest.param(30, marks=()),
    pytest.param(7, marks=pytest.mark.extended),
    pytest.param(1, marks=pytest.mark.slow),
)
"""The default suite looks at every so many removals, the slow one at each."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", STEPS)
def test_a_cleanup_that_fails_at_a_removal_says_so_and_the_next_does_the_rest(
    kept: Path, step: int
) -> None:
    for number in count(2, step):
        opened = put_back(kept)
        trap = RemovalTrap(number, fail)
        with closing(parted(opened, trap)) as graph:
            told = attempted(graph)
        assert trap.hit is not None or not told, number
        if not told:
            # What failed once was done another way, or there was nothing more to fail at.
            with closing(parted(opened)) as again:
                assert clean(again, confirm=False).leftovers == (), (number, trap.hit)
        require_all(opened, (number, trap.hit))
        if trap.hit is None:
            return


def attempted(graph: Graph) -> bool:
    """Whether a cleanup told that something failed."""
    try:
        return bool(clean(graph).errors)
    except OmnigraphError:
        return True


@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", STEPS)
def test_a_cleanup_that_is_killed_at_a_removal_has_lost_nothing(kept: Path, step: int) -> None:
    for number in count(5, step):
        opened = put_back(kept)
        child = start(clean_and_die, str(kept), number)
        child.join()
        assert child.exitcode in (0, -signal.SIGKILL)
        require_all(opened, number)
        if child.exitcode == 0:
            return


@pytest.mark.parametrize("seed", thinned(range(12)))
def test_a_cleanup_that_is_killed_inside_a_removal_has_lost_nothing(kept: Path, seed: int) -> None:
    """Any part of the files that it removes may be gone: their order is Lance's own."""
    opened = put_back(kept)
    before = {path for path in opened.root.rglob("*") if path.is_file()}
    with closing(parted(opened)) as graph:
        assert clean(graph).errors == ()
    gone = sorted(path for path in before if not path.exists())
    marks = {path: path.read_bytes() for path in opened.root.rglob("cleaned-*")}
    put_back(kept)
    for path, content in marks.items():
        path.write_bytes(content)
    for path in Random(seed).sample(gone, len(gone) // 2):  # noqa: S311 - no secret
        path.unlink()
    require_all(opened, seed)


DROPS = {
    "property": AFTER,
    "type": "node Other { name: String @key }",
}


@pytest.mark.parametrize("act", [fail, leave], ids=["fails", "dies"])
@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("step", thinned([9, 1]))
def test_a_hard_drop_stands_whatever_becomes_of_its_removal(
    tmp_path: Path, drop: str, act: Callable[[], None], step: int
) -> None:
    for number in count(1, step):
        folder = tmp_path / str(number)
        folder.mkdir()
        trap = RemovalTrap(number, act)
        drop_hard(Opened(folder), DROPS[drop], trap)
        if trap.hit is None:
            return


def drop_hard(opened: Opened, wanted: str, trap: RemovalTrap) -> None:
    """A change that loses data, with a trap from its publish on, and what comes after it."""
    graph = opened.init(WITH_AGE, **ALONE)
    for each in range(3):
        upsert(graph, f"p{each}", age=each)
    old = graph.snapshot().graph_commit_id
    graph.close()
    trap.is_on = False
    with (
        closing(parted(opened, trap, clock=None)) as graph,
        armed("schema_apply.post_phase_d_pre_release", trap.switch_on),
        suppress(Killed),
    ):
        applied = graph.schema.apply(wanted, allow_data_loss=True)
        assert bool(applied.kept_data) == (trap.hit is not None), trap.hit
    with closing(opened.open(**ALONE)) as fresh:
        assert fresh.schema.source == wanted
        if wanted == AFTER:
            assert names_of(fresh) == ["p0", "p1", "p2"]
        with suppress(SnapshotReclaimed):
            assert fresh.snapshot(old).scan("Person").read_all().num_rows == 3
        assert fresh.maintenance.verify().is_sound
        for each in range(4):
            fresh.mutate(f'query q() {{ insert {wanted.split()[1]} {{ name: "n{each}" }} }}')
    age_files(opened.root, DAYS * 86_400)
    with closing(parted(opened)) as later:
        assert clean(later).errors == (), trap.hit
        with pytest.raises(SnapshotReclaimed):
            later.snapshot(old).scan("Person").read_all()
        assert later.maintenance.verify().is_sound
        require_settled(later)
