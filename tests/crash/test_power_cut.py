"""A power cut at any point of a commit leaves the old graph or the new one.

One commit over two tables is recorded: after every call to the store, which files exist and which
of them are durable, that is, synced together with every folder that names them. Each moment is then
cut: durable files stay, of the others any may be lost or be empty, and a removal that was not
synced may be undone. The graph is laid out anew in each such state, in its own folder, and opened.
"""

import itertools
import json
import random  # noqa: TID251 - seeded
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from tests.crash.open_graph import open_coordinator, open_leaping
from tests.extended import thinned

from omnigraph import Graph
from omnigraph.settings import Durability, Settings, StorageSettings
from omnigraph.storage.calls import StoreCall

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"
SETTINGS = Settings(storage=StorageSettings(lease_ttl_ms=1_500))
# Nothing is cut a second time, so what is written after the cut need not be durable.
AFTER = Settings(storage=StorageSettings(lease_ttl_ms=1_500, durability=Durability.PROCESS))
EDGE_CASES = 3
FEW, SOME = 10, 40
"""In so many states the short run and continuous integration open the graph."""

Tree = dict[str, bytes]
Rows = dict[str, list[str]]

pytestmark = pytest.mark.crash


@dataclass(frozen=True)
class Moment:
    """What is on the disk at one point, and what of it a power cut cannot take."""

    after: str
    files: Tree
    durable: Tree


@dataclass
class Recorder:
    """Watches the calls of one commit."""

    root: Path
    moments: list[Moment] = field(default_factory=list)
    _synced: Tree = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Whatever is there now has been there for long."""
        self._synced = read_tree(self.root)
        self._named = set(self._synced)
        self.moments.append(Moment("start", dict(self._synced), dict(self._synced)))

    def before(self, call: StoreCall) -> None:
        """Nothing happens before a call."""

    def after(self, call: StoreCall) -> None:
        """Note what the call has changed."""
        if not self.moments:
            return
        files = read_tree(self.root)
        if call.operation == "sync":
            self._sync(call.target, files)
        durable = {name: data for name, data in self._synced.items() if name in self._named}
        self.moments.append(Moment(f"{call.operation} {call.target}", files, durable))

    def _sync(self, target: str, files: Tree) -> None:
        if target in files:
            self._synced[target] = files[target]
            return
        # A folder: its entries are durable now, those that are there and those that are gone.
        inside = {name for name in files if str(Path(name).parent) == (target or ".")}
        known = {name for name in self._synced if str(Path(name).parent) == (target or ".")}
        self._named |= inside & set(self._synced)
        for gone in known - inside:
            self._synced.pop(gone)
            self._named.discard(gone)


def read_tree(root: Path) -> Tree:
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


def cuts(moment: Moment, chance: random.Random) -> Iterator[Tree]:
    """The states that a cut at this moment can leave: all, and a choice where there are many."""
    open_files = sorted(
        name
        for name in {*moment.files, *moment.durable}
        if moment.files.get(name) != moment.durable.get(name)
    )
    choices: list[set[str]] = [set(), set(open_files)]
    choices += [{name} for name in open_files]
    choices += [set(open_files) - {name} for name in open_files]
    choices += [{name for name in open_files if chance.random() < 0.5} for _ in range(EDGE_CASES)]
    torn: list[set[str]] = [set(), set(open_files), *({name} for name in open_files)]
    for reached, emptied in [
        *((each, set[str]()) for each in choices),
        *((set(open_files), each) for each in torn),
    ]:
        state = dict(moment.durable)
        for name in reached:
            if name not in moment.files:
                state.pop(name, None)
            else:
                state[name] = b"" if name in emptied else moment.files[name]
        yield state


def lay_out(root: Path, state: Tree) -> None:
    shutil.rmtree(root)
    for name, data in state.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_of_a_gone_process(data) if name.startswith("__leases/") else data)


def _of_a_gone_process(lease: bytes) -> bytes:
    """The lease as its reader finds it when no process of before the cut is left."""
    if not lease:
        return lease
    return json.dumps(json.loads(lease) | {"pid_started": "before the cut"}).encode()


def contents(graph: Graph, branch: str) -> Rows:
    snapshot = graph.snapshot(branch=branch)
    return {
        name: sorted(map(str, snapshot.scan(name, columns=["id"]).read_all()["id"].to_pylist()))
        for name in ("City", "Person")
    }


def write_both(graph: Graph, name: str, branch: str) -> None:
    with graph.write(branch) as write:
        write.upsert("Person", pa.table({"name": [name]}))
        write.upsert("City", pa.table({"name": [name]}))
        write.commit()


def delete_and_upsert(graph: Graph, name: str, branch: str) -> None:
    with graph.write(branch) as write:
        write.delete("Person", ["old"])
        write.upsert("Person", pa.table({"name": [name]}))
        write.overwrite("City", pa.table({"name": [name]}))
        write.commit()


PLACES = ("main", "branch", "first write of a branch")


@pytest.mark.parametrize(
    ("write", "place"),
    [(write_both, "main"), (delete_and_upsert, "first write of a branch")],
)
@pytest.mark.parametrize("most", thinned([FEW, SOME]))
@pytest.mark.timeout(300)
def test_a_power_cut_leaves_the_old_graph_or_the_new_one(
    tmp_path: Path, write: Callable[[Graph, str, str], None], place: str, most: int
) -> None:
    cut_power(tmp_path / "graph", write, place, most=most)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("write", [write_both, delete_and_upsert])
@pytest.mark.timeout(600)
def test_a_power_cut_in_any_state_leaves_the_old_graph_or_the_new_one(
    tmp_path: Path, write: Callable[[Graph, str, str], None], place: str
) -> None:
    cut_power(tmp_path / "graph", write, place, most=None)


def cut_power(
    root: Path, write: Callable[[Graph, str, str], None], place: str, *, most: int | None
) -> None:
    """Record a write, and open the graph in every state that a cut can leave, or in so many."""
    with Graph.init(root, schema=SCHEMA, settings=SETTINGS) as graph:
        write_both(graph, "old", "main")
        branch = "main"
        if place != "main":
            branch = graph.branches.create("side").name
        if place == "branch":
            write_both(graph, "older", branch)
    recorder = Recorder(root)
    with Graph(open_coordinator(root, SETTINGS, observer=recorder), None, owns=True) as graph:
        before = contents(graph, branch)
        recorder.start()
        write(graph, "new", branch)
        after = contents(graph, branch)
    assert any(moment.after.startswith("sync __manifest") for moment in recorder.moments)
    assert before != after
    outcomes: list[Rows] = []
    for state in _chosen(list(_distinct_states(recorder.moments)), most):
        lay_out(root, state)
        with Graph(open_leaping(root, AFTER), None, owns=True) as graph:
            found = contents(graph, branch)
            assert found in (before, after)
            outcomes.append(found)
            write_both(graph, "next", branch)
            grown = contents(graph, branch)
            assert all("next" in ids for ids in grown.values())
        assert not list((root / "__recovery").rglob("*.json")), "no sidecar is left"
    assert before in outcomes
    assert outcomes[-1] == after, "an acknowledged write survives"


def _chosen(states: list[Tree], most: int | None) -> list[Tree]:
    """Every state, or so many of them, the first and the last among them."""
    if most is None or len(states) <= most:
        return states
    between = random.Random(7).sample(range(1, len(states) - 1), most - 2)  # noqa: S311 - replayable
    return [states[number] for number in (0, *sorted(between), len(states) - 1)]


def _distinct_states(moments: list[Moment]) -> Iterator[Tree]:
    chance = random.Random(7)  # noqa: S311 - replayable
    seen: set[int] = set()
    for state in itertools.chain.from_iterable(cuts(each, chance) for each in moments):
        key = hash(frozenset(state.items()))
        if key not in seen:
            seen.add(key)
            yield state
    yield moments[-1].durable
