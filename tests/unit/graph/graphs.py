"""Small graphs on local folders, and short ways to fill, read and damage them."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph import Graph
from omnigraph.clock import Clock, SystemClock
from omnigraph.failpoints import armed
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.history.snapshot import Snapshot
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator, OpenMode
from omnigraph.graph.manifest.migrations import MIGRATIONS, Migration
from omnigraph.graph.manifest.rows import Row, encode_rows
from omnigraph.graph.manifest.stamp import VERSION_KEY
from omnigraph.ids import MAIN_BRANCH_ID, BranchId, UlidSource
from omnigraph.settings import Settings, load_settings
from omnigraph.storage.calls import CallObserver, StoreCall
from omnigraph.storage.graph_storage import GraphStorage, open_storage
from omnigraph.storage.handles import lance_branch
from omnigraph.storage.location import parse_location

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node Doc { title: String @key  body: String? }
edge Knows: Person -> Person { since: I32? }
"""
TYPES = ("Person", "Doc", "Knows")

State = dict[str, dict[str, dict[str, Any]]]


class Killed(BaseException):
    """Stands for the end of the process: no handler of the code under test catches it."""


def killed_at(point: str) -> AbstractContextManager[None]:
    """Whoever reaches the point in the block dies there, but for its `finally` clauses."""

    def die() -> None:
        raise Killed(point)

    return armed(point, die)


def once(act: Callable[[], object]) -> Callable[[], None]:
    """The act for the first call, nothing for later ones."""
    left = [act]

    def called() -> None:
        if left:
            left.pop()()

    return called


def lose_lease(root: Path, *, released: bool) -> None:
    """A higher epoch, as a process makes it that saw the lease expire."""
    folder = root / "__leases" / "branch-main"
    newest = max(folder.glob("*.json"))
    body = json.loads(newest.read_bytes()) | {"owner": "other", "released": released}
    (folder / f"{int(newest.stem) + 1:012d}.json").write_text(json.dumps(body))


class Watcher:
    """Sees every foreign call; `before_each` and `after_each` may raise."""

    def __init__(self) -> None:
        self.calls: list[StoreCall] = []
        self.before_each: Callable[[StoreCall], None] | None = None
        self.after_each: Callable[[StoreCall], None] | None = None

    def before(self, call: StoreCall) -> None:
        self.calls.append(call)
        if self.before_each is not None:
            self.before_each(call)

    def after(self, call: StoreCall) -> None:
        if self.after_each is not None:
            self.after_each(call)

    def fail(self, operation: str, target: str, error: Exception) -> None:
        """From now on, calls of that operation on such a target fail before any effect."""

        def act(call: StoreCall) -> None:
            if call.operation == operation and target in call.target:
                raise error

        self.before_each = act


class Opened:
    """Opens graphs and closes all of them."""

    def __init__(self, root: Path) -> None:
        self.root = root / "g"
        self._opened: list[Graph] = []

    def init(self, schema: str = SCHEMA, *, actor: str | None = None, **env: str) -> Graph:
        """A new graph."""
        return self._kept(Graph.init(self.root, schema=schema, actor=actor, settings=quick(**env)))

    def open(self, *, actor: str | None = None, **env: str) -> Graph:
        """One more handle, as another process would have it."""
        return self._kept(Graph.open(self.root, actor=actor, settings=quick(**env)))

    def copied(self, made: Path) -> Graph:
        """A new graph that is the copy of another: quicker than to make it."""
        shutil.copytree(made, self.root)
        return self.open()

    def read_only(self) -> Graph:
        """A handle that may not write."""
        return self._kept(Graph.open(self.root, mode="read_only", settings=quick()))

    def coordinated(
        self,
        *,
        observer: CallObserver | None = None,
        clock: Clock | None = None,
        mode: OpenMode = OpenMode.READ_WRITE,
        keeps_leases: bool = False,
        migrations: tuple[Migration, ...] = MIGRATIONS,
        **env: str,
    ) -> Graph:
        """A handle with parts of its own."""
        clock = clock or SystemClock()
        coordinator = GraphCoordinator(
            self.storage(observer=observer, **env),
            quick(**env).storage,
            clock,
            UlidSource(clock),
            mode=mode,
            keeps_leases=keeps_leases,
            migrations=migrations,
        )
        return self._kept(Graph(coordinator, None, owns=True))

    def storage(self, *, observer: CallObserver | None = None, **env: str) -> GraphStorage:
        """The bare storage of the graph."""
        settings = quick(**env).storage
        ids = UlidSource(SystemClock())
        return open_storage(parse_location(self.root, settings), settings, ids, observer=observer)

    def close(self) -> None:
        for each in self._opened:
            each.close()

    def _kept(self, graph: Graph) -> Graph:
        self._opened.append(graph)
        return graph


def made_once(folder: Path, schema: str, fill: Callable[[Graph], object]) -> Path:
    """A closed graph that tests copy."""
    opened = Opened(folder)
    fill(opened.init(schema))
    opened.close()
    return opened.root


def quick(**env: str) -> Settings:
    """Settings without syncs; variables by their names without the prefix."""
    given = {f"OMNIGRAPH_{name}": value for name, value in env.items()}
    return load_settings({"OMNIGRAPH_DURABILITY": "process"} | given)


def age_files(root: Path, seconds: int = 24 * 3600) -> None:
    """Everything that is there was made so long ago."""
    for path in root.rglob("*"):
        made = path.stat().st_mtime - seconds
        os.utime(path, (made, made))


def rows(*given: Mapping[str, Any]) -> pa.Table:
    """Rows as a caller gives them."""
    return pa.Table.from_pylist([dict(each) for each in given])


def people(*names: str, **values: Any) -> pa.Table:  # noqa: ANN401 - any property
    """Persons of these names, with the same other values."""
    return rows(*({"name": name, **values} for name in names))


def upsert(graph: Graph, *names: str, branch: str = "main", **values: object) -> Commit:
    """Persons written in one commit."""
    with graph.write(branch) as writer:
        writer.upsert("Person", people(*names, **values))
        return committed(writer.commit())


def delete(graph: Graph, *names: str, branch: str = "main") -> Commit:
    """Persons removed in one commit."""
    with graph.write(branch) as writer:
        writer.delete("Person", names)
        return committed(writer.commit())


def committed(commit: Commit | None) -> Commit:
    """The commit of a write that changed something."""
    assert commit is not None
    return commit


def names(graph: Graph, branch: str = "main") -> list[str]:
    """The ids of all persons at the head of a branch."""
    return sorted(state(graph.snapshot(branch=branch))["Person"])


def state(snapshot: Snapshot) -> State:
    """Everything that a snapshot shows, by type and id; counts are checked on the way."""
    found: State = {}
    for name in TYPES:
        listed = snapshot.scan(name).read_all().to_pylist()
        found[name] = {row["id"]: row for row in listed}
        assert len(found[name]) == len(listed) == snapshot.count(name), name
    return found


def listing(root: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below the root, with size and time of change."""
    return {
        str(path.relative_to(root)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in [root, *root.rglob("*")]
    }


def table_files(root: Path) -> set[str]:
    """Every version and transaction of every table of the graph."""
    return {
        str(path.relative_to(root))
        for folder in ("nodes", "edges")
        for path in (root / folder).rglob("_versions/*")
    }


def sidecars(root: Path) -> list[Path]:
    """What armed writes have left."""
    return sorted((root / "__recovery").rglob("*.json"))


def require_settled(graph: Graph, *branches: str) -> None:
    """Head equals pin for every table that a branch owns, and no sidecar is left."""
    coordinator = graph._graph
    for name in branches or ("main",):
        branch_id = coordinator.branch_id(name)
        line = coordinator.lines.read(branch_id)
        layouts = coordinator.schemas.tables(line.schema.schema_hash).layouts
        for ref, pin in line.pins.items():
            if pin.branch == lance_branch(branch_id):
                assert coordinator.tables.head_version(layouts[ref], pin.branch) == pin.version, ref
    assert coordinator.sidecars.list() == []


def merge_rows(
    storage: GraphStorage, added: Iterable[Row], branch_id: BranchId = MAIN_BRANCH_ID
) -> None:
    """Rows written into a line past every rule, as a fault or another process would."""
    storage.manifest.merge(storage.manifest.open_line(branch_id), encode_rows(added))


def merge_raw(storage: GraphStorage, *added: Mapping[str, Any]) -> None:
    """Columns written into the main line as they are."""
    line = storage.manifest.open_line(MAIN_BRANCH_ID)
    schema = storage.manifest.rows(line).schema
    storage.manifest.merge(line, pa.Table.from_pylist([dict(each) for each in added], schema))


def set_version(storage: GraphStorage, version: str, branch_id: BranchId = MAIN_BRANCH_ID) -> None:
    """The stamp as another release would have written it."""
    storage.manifest.set_stamp(storage.manifest.open_line(branch_id), {VERSION_KEY: version})
