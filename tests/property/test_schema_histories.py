"""Random chains of schema changes and writes against a model of rows, and every past state."""

from __future__ import annotations

from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.property.schema_model import Kind, Prop, World
from tests.unit.graph.graphs import quick, require_settled

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, KeyConflict, SchemaRefused

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.history.snapshot import Snapshot

STEPS = 24


def stored(snapshot: Snapshot) -> dict[str, dict[str, dict[str, Any]]]:
    """Every row of every type of a state, by id."""
    catalog = snapshot.catalog
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in (*catalog.node_types, *catalog.edge_types):
        rows = snapshot.scan(name).read_all().to_pylist()
        found[name] = {row.pop("id"): _without_key(row) for row in rows}
        assert snapshot.count(name) == len(rows) == len(found[name])
    return found


def _without_key(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "k"}


class History:
    """One graph and its model, step by step."""

    def __init__(self, path: Path, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - to try, not to guard
        self.world = World(rng=self.rng)
        first = Kind(name="Ant", props=[Prop(name="a", kind="I64"), Prop(name="b", kind="String")])
        self.world.kinds.append(first)
        self.graph = Graph.init(path, schema=self.world.spell(), settings=quick())
        self.path = path
        self.world.accept()
        self.past: dict[str, dict[str, Any]] = {}
        self.refused = 0
        self.applied = 0
        self.ids = iter(range(10_000))

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.45:
            self.evolve()
        elif chance < 0.9:
            for _ in range(self.rng.randrange(1, 4)):
                self.write()
        elif chance < 0.95:
            self.graph.maintenance.ensure_indices()
            self.graph.maintenance.optimize()
        else:
            self.graph.close()
            self.graph = Graph.open(self.path, settings=quick())
        now = self.graph.snapshot()
        assert stored(now) == self.world.state()
        self.past[now.graph_commit_id] = self.world.state()

    def evolve(self) -> None:
        after = self.world.copy()
        for _ in range(self.rng.randrange(1, 4)):
            after.change(self.world)
        is_hard = self.rng.random() < 0.2
        source, before = after.spell(), self.graph.snapshot()
        if after.breaks_rules():
            with pytest.raises(SchemaRefused, match="OG-MF-107"):
                self.graph.schema.apply(source, allow_data_loss=is_hard)
            assert self.graph.snapshot().graph_commit_id == before.graph_commit_id
            self.refused += 1
            return
        result = self.graph.schema.apply(source, allow_data_loss=is_hard)
        assert result.applied is bool(result.steps)
        assert result.applied is (self.graph.snapshot().schema_hash != before.schema_hash)
        assert not self.graph.schema.apply(source).applied
        if is_hard and after.drops:
            self.past.clear()
        self.applied += result.applied
        self.world = after
        self.world.accept()

    def write(self) -> None:
        after = self.world.copy()
        kind = self.rng.choice(after.kinds)
        if kind.rows and self.rng.random() < 0.25:
            self._delete(after, kind)
            return
        new = self._row(kind)
        if new is None:
            return
        entity_id, row = new
        kind.rows[entity_id] = row
        values = {"id" if kind.ends else "k": entity_id} | row
        with self.graph.write() as writer:
            writer.upsert(kind.name, _table(self.graph, kind.name, values))
            if after.breaks_rules():
                with pytest.raises((ConstraintViolation, KeyConflict)):
                    writer.commit()
                return
            assert writer.commit() is not None
        self.world = after

    def _row(self, kind: Kind) -> tuple[str, dict[str, Any]] | None:
        row = {
            prop.name: None
            if prop.default is None and self.rng.random() < 0.3
            else prop.value(self.rng)
            for prop in kind.props
        }
        if kind.rows and self.rng.random() < 0.3:
            known = self.rng.choice(sorted(kind.rows))
            ends = {name: kind.rows[known][name] for name in ("src", "dst") if kind.ends}
            return known, ends | row
        if kind.ends is None:
            return f"n{next(self.ids)}", row
        if not all(end.rows for end in kind.ends):
            return None
        src, dst = (self.rng.choice(sorted(end.rows)) for end in kind.ends)
        return f"e{next(self.ids)}", {"src": src, "dst": dst} | row

    def _delete(self, after: World, kind: Kind) -> None:
        gone = self.rng.choice(sorted(kind.rows))
        with self.graph.write() as writer:
            for each in after.kinds:
                if each is kind:
                    lost = [gone]
                else:
                    sides = [name for name, end in _ends(each) if end is kind]
                    lost = [k for k, row in each.rows.items() if gone in [row[s] for s in sides]]
                if lost:
                    writer.delete(each.name, lost)
                    for one in lost:
                        del each.rows[one]
            writer.commit()
        self.world = after

    def finish(self) -> None:
        """Every state that was ever shown is still what it was."""
        for commit_id, state in self.past.items():
            assert stored(self.graph.snapshot(commit_id)) == state
        require_settled(self.graph)
        self.graph.close()


def _ends(kind: Kind) -> list[tuple[str, Kind]]:
    return [] if kind.ends is None else [("src", kind.ends[0]), ("dst", kind.ends[1])]


def _table(graph: Graph, name: str, values: dict[str, Any]) -> pa.Table:
    schema = graph.snapshot().type(name).arrow_schema
    fields = [field for field in schema if field.name in values]
    return pa.Table.from_pylist([values], schema=pa.schema(fields))


def run(path: Path, seed: int) -> History:
    history = History(path, seed)
    for _ in range(STEPS):
        history.step()
    history.finish()
    return history


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", thinned(range(12), keep=2))
def test_chains_of_schema_changes_do_to_rows_what_a_model_does(seed: int, tmp_path: Path) -> None:
    assert run(tmp_path / "g", seed).applied > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", [range(start, start + 25) for start in range(100, 600, 25)])
def test_many_chains_of_schema_changes_do_to_rows_what_a_model_does(
    seeds: range, tmp_path: Path
) -> None:
    outcomes = [run(tmp_path / f"g{seed}", seed) for seed in seeds]
    assert sum(each.refused for each in outcomes) > 0
