"""Random histories of writes, branches and reopened graphs equal a small model in memory.

The model keeps, per branch, the whole state after each of its commits. After every step the head of
every branch is compared with it; at the end every commit that a live branch reaches is, by id and
by number.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.property.profiles import quick

from omnigraph import Graph
from omnigraph.errors import (
    BranchExists,
    BranchHasDescendants,
    BranchNotFound,
    ConstraintViolation,
    KeyConflict,
    OmnigraphError,
)
from omnigraph.graph.history.commit_graph import Commit
from omnigraph.graph.history.snapshot import Snapshot
from omnigraph.graph.writer import Writer
from omnigraph.settings import load_settings

SCHEMA = """
node Person { name: String @key  value: I32? }
node Doc { name: String @key  value: I32? }
edge Knows: Person -> Person { value: I32? }
"""
TABLES = ("Person", "Doc", "Knows")
KEYS = tuple("abcde")
BRANCHES = ("main", "one", "two", "one/three")
_SETTINGS = load_settings({"OMNIGRAPH_DURABILITY": "process"})
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]

Cells: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Mapping[str, Cells]
State: TypeAlias = Mapping[str, Rows]
EMPTY: State = {name: {} for name in TABLES}


class Kind(StrEnum):
    """How a write changes a table."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    MIXED = "mixed"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class Change:
    """What a write does to one table."""

    kind: Kind
    written: Rows
    removed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Write:
    """One commit, or a refusal."""

    branch: str
    changes: Mapping[str, Change]


@dataclass(frozen=True, slots=True)
class Create:
    """A branch from another."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Delete:
    """The end of a branch."""

    name: str


@dataclass(frozen=True, slots=True)
class Reopen:
    """The handle is closed and opened again, or another one takes over."""

    is_new: bool


Step: TypeAlias = Write | Create | Delete | Reopen


@dataclass(slots=True)
class BranchModel:
    """One branch: its parent and the states of its commits, oldest first."""

    parent: str | None
    states: list[State] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    @property
    def head(self) -> State:
        return self.states[-1]


_values = st.one_of(st.none(), st.integers(-3, 3))
_keys = st.sampled_from(KEYS)


def _rows(table: str) -> st.SearchStrategy[Rows]:
    cells = st.tuples(_keys, _keys, _values) if table == "Knows" else st.tuples(_values)
    return st.dictionaries(_keys, cells, max_size=3)


@st.composite
def _changes(draw: st.DrawFn, table: str) -> Change:
    kind = draw(st.sampled_from(Kind))
    removes = kind in (Kind.DELETE, Kind.MIXED)
    return Change(
        kind=kind,
        written={} if kind is Kind.DELETE else draw(_rows(table)),
        removed=draw(st.frozensets(_keys, max_size=3)) if removes else frozenset(),
    )


@st.composite
def _writes(draw: st.DrawFn) -> Write:
    tables = draw(st.lists(st.sampled_from(TABLES), unique=True, min_size=1, max_size=3))
    changes = {table: draw(_changes(table)) for table in tables}
    return Write(draw(st.sampled_from(BRANCHES)), changes)


def _steps(longest: int) -> st.SearchStrategy[list[Step]]:
    names = st.sampled_from(BRANCHES)
    created = st.builds(Create, st.sampled_from(BRANCHES[1:]), names)
    step = st.one_of(
        _writes(),
        _writes(),
        _writes(),
        created,
        st.builds(Delete, st.sampled_from(BRANCHES[1:])),
        st.builds(Reopen, st.booleans()),
    )
    return st.lists(step, min_size=longest // 2, max_size=longest)


def _after(rows: Rows, change: Change) -> Rows:
    if change.kind is Kind.OVERWRITE:
        return dict(change.written)
    kept = {key: cells for key, cells in rows.items() if key not in change.removed}
    return {**kept, **change.written}


def _expected(write: Write, before: State) -> State | type[OmnigraphError] | None:
    """The state after the write, the error that refuses it, or nothing to do."""
    after = dict(before)
    conflict = moved = False
    for table, change in write.changes.items():
        rows = before[table]
        after[table] = _after(rows, change)
        conflict |= change.kind is Kind.APPEND and bool(change.written.keys() & rows.keys())
        moved |= (
            (change.kind is Kind.OVERWRITE and bool(rows))
            or bool(change.written)
            or bool(change.removed & rows.keys())
        )
    if conflict:
        return KeyConflict
    ends = {end for src, dst, _ in after["Knows"].values() for end in (src, dst)}
    if not ends <= after["Person"].keys():
        return ConstraintViolation
    return after if moved else None


def _arrow(table: str, rows: Rows) -> pa.Table:
    numbers = pa.int32()
    values = pa.array([cells[-1] for cells in rows.values()], numbers)
    keys = pa.array(list(rows), pa.string())
    if table != "Knows":
        return pa.table({"name": keys, "value": values})
    ends = [pa.array([cells[at] for cells in rows.values()], pa.string()) for at in (0, 1)]
    return pa.table({"id": keys, "src": ends[0], "dst": ends[1], "value": values})


def _apply(writer: Writer, table: str, change: Change) -> None:
    rows = _arrow(table, change.written)
    match change.kind:
        case Kind.APPEND:
            writer.append(table, rows)
        case Kind.UPSERT:
            writer.upsert(table, rows)
        case Kind.DELETE:
            writer.delete(table, change.removed)
        case Kind.MIXED:
            writer.delete(table, change.removed)
            writer.upsert(table, rows)
        case Kind.OVERWRITE:
            writer.overwrite(table, rows)
        case _:
            assert_never(change.kind)


def _shown(snapshot: Snapshot) -> State:
    found: dict[str, Rows] = {}
    for table in TABLES:
        columns = ["id", "src", "dst", "value"] if table == "Knows" else ["id", "value"]
        listed = snapshot.scan(table, columns=columns).read_all().to_pylist()
        found[table] = {row["id"]: tuple(list(row.values())[1:]) for row in listed}
        assert len(listed) == len(found[table]) == snapshot.count(table)
    return found


def _rows_changed(table: str, change: Change, before: State) -> dict[str, int]:
    rows, after = before[table], _after(before[table], change)
    if change.kind is Kind.OVERWRITE:
        return {"added": len(after), "changed": 0, "removed": len(rows)}
    return {
        "added": len(after.keys() - rows.keys()),
        "changed": len(change.written.keys() & rows.keys()),
        "removed": len(rows.keys() - after.keys()),
    }


class World:
    """A graph, and the model of what it must show."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._handles = [Graph.init(root, schema=SCHEMA, settings=_SETTINGS)]
        main = BranchModel(parent=None, states=[EMPTY])
        main.commits.append(self.graph.snapshot().graph_commit_id)
        self.branches = {"main": main}

    @property
    def graph(self) -> Graph:
        return self._handles[-1]

    def close(self) -> None:
        for each in self._handles:
            each.close()

    def take(self, step: Step) -> None:
        match step:
            case Write():
                self._write(step)
            case Create():
                self._create(step)
            case Delete():
                self._delete(step)
            case Reopen():
                self._reopen(step)
            case _:
                assert_never(step)

    def require_heads(self) -> None:
        listed = [each.name for each in self.graph.branches.list()]
        assert listed == ["main", *sorted(self.branches.keys() - {"main"})]
        for name, model in self.branches.items():
            snapshot = self.graph.snapshot(branch=name)
            assert snapshot.graph_commit_id == model.commits[-1]
            assert _shown(snapshot) == model.head, name

    def require_history(self) -> None:
        for name, model in self.branches.items():
            listed = self.graph.commits.list(branch=name, limit=1_000)
            assert [each.graph_commit_id for each in listed] == model.commits[::-1]
            for seq, (commit, state) in enumerate(zip(model.commits, model.states, strict=True)):
                by_number = self.graph.snapshot(seq, branch=name)
                assert by_number.graph_commit_id == commit
                assert _shown(by_number) == state
                assert _shown(self.graph.snapshot(commit)) == state
        assert not list((self._root / "__recovery").rglob("*.json"))

    def _write(self, step: Write) -> None:
        model = self.branches.get(step.branch)
        if model is None:
            with pytest.raises(BranchNotFound):
                self.graph.write(step.branch)
            return
        expected = _expected(step, model.head)
        with self.graph.write(step.branch) as writer:
            for table, change in step.changes.items():
                _apply(writer, table, change)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    writer.commit()
                return
            commit = writer.commit()
        if expected is None:
            assert commit is None
            return
        assert commit is not None
        self._require_stats(step, model.head, commit)
        model.states.append(expected)
        model.commits.append(commit.graph_commit_id)

    def _require_stats(self, step: Write, before: State, commit: Commit) -> None:
        for table, counted in commit.stats["tables"].items():
            name = table.partition(":")[2]
            assert counted == _rows_changed(name, step.changes[name], before), table

    def _create(self, step: Create) -> None:
        source = self.branches.get(step.source)
        if step.name in self.branches:
            with pytest.raises(BranchExists):
                self.graph.branches.create(step.name, from_=step.source)
        elif source is None:
            with pytest.raises(BranchNotFound):
                self.graph.branches.create(step.name, from_=step.source)
        else:
            self.graph.branches.create(step.name, from_=step.source)
            self.branches[step.name] = BranchModel(
                parent=step.source, states=list(source.states), commits=list(source.commits)
            )

    def _delete(self, step: Delete) -> None:
        children = [name for name, each in self.branches.items() if each.parent == step.name]
        if step.name not in self.branches:
            with pytest.raises(BranchNotFound):
                self.graph.branches.delete(step.name)
        elif children:
            with pytest.raises(BranchHasDescendants):
                self.graph.branches.delete(step.name)
        else:
            self.graph.branches.delete(step.name)
            del self.branches[step.name]

    def _reopen(self, step: Reopen) -> None:
        if step.is_new:
            self._handles.append(Graph.open(self._root, settings=_SETTINGS))
        elif len(self._handles) > 1:
            self._handles.insert(0, self._handles.pop())


@contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "g")
        try:
            yield world
        finally:
            world.close()


def _play(steps: list[Step]) -> None:
    with _world() as world:
        for step in steps:
            note(repr(step))
            world.take(step)
            world.require_heads()
        world.require_history()


@quick(8)
@given(_steps(longest=14))
def test_a_graph_shows_what_its_history_says(steps: list[Step]) -> None:
    _play(steps)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=300, deadline=None, suppress_health_check=_CHECKS, print_blob=True)
@given(_steps(longest=40))
def test_a_graph_always_shows_what_its_history_says(steps: list[Step]) -> None:
    _play(steps)
