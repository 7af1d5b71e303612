"""What changed between two versions is what a comparison of all their rows gives.

Seeded histories of appends, upserts, deletes, compactions, overwrites, restores and forks; every
version is compared with every later one of its line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.unit.storage.workbench import STAMP, Workbench, rows_of

from omnigraph.ids import BranchId
from omnigraph.storage import changes
from omnigraph.storage.layout import column_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from omnigraph.storage.handles import TableHandle

IDS = tuple(f"d{number:02}" for number in range(14))


@dataclass(kw_only=True)
class History:
    """One table with lines of versions that were published, each with those it grew from."""

    bench: Workbench
    rng: Random
    lines: list[list[TableHandle]] = field(default_factory=list)
    trail: list[str] = field(default_factory=list)

    def step(self) -> None:
        line = self.rng.choice(self.lines)
        acts = [self.append, self.append, self.upsert, self.upsert, self.delete, self.delete]
        acts += [self.compact, self.roll_back, self.fork]
        if self.rng.random() < 0.3:
            acts.append(self.overwrite)
        act = self.rng.choice(acts)
        self.trail.append(f"{act.__name__} at {line[-1].pin.version} of {line[-1].pin.branch}")
        act(line)

    def append(self, line: list[TableHandle]) -> None:
        known = self.bench.ids(line[-1])
        new = [each for each in IDS if each not in known]
        if new:
            some = self.rng.sample(new, min(len(new), self.rng.randint(1, 4)))
            line.append(self.bench.append(line[-1], *self._rows(some)))

    def upsert(self, line: list[TableHandle]) -> None:
        line.append(self.bench.upsert(line[-1], *self._rows(self.rng.sample(IDS, 3))))

    def delete(self, line: list[TableHandle]) -> None:
        known = self.bench.ids(line[-1])
        if known:
            some = self.rng.sample(known, min(len(known), self.rng.randint(1, 3)))
            line.append(self.bench.delete(line[-1], *some))

    def compact(self, line: list[TableHandle]) -> None:
        staged = self.bench.store.stage_compaction(line[-1], STAMP)
        if not staged.is_noop:
            line.append(self.bench.land(staged))

    def overwrite(self, line: list[TableHandle]) -> None:
        some = rows_of(self.bench.doc, self._rows(self.rng.sample(IDS, 6)))
        line.append(self.bench.land(self.bench.store.stage_overwrite(line[-1], some, STAMP)))

    def roll_back(self, line: list[TableHandle]) -> None:
        """As recovery does: a version that nobody published goes."""
        kept = line[-1]
        self.upsert(line)
        line.pop()
        line.append(self.restored(kept, kept.pin.version))

    def restored(self, handle: TableHandle, version: int) -> TableHandle:
        return self.bench.store.restore(self.bench.doc, handle.pin.branch, version, STAMP)

    def fork(self, line: list[TableHandle]) -> None:
        if len(self.lines) < 4:
            name = BranchId(f"01j0000000000000000000000{len(self.lines)}")
            self.lines.append([*line, self.bench.forked(line[-1], name)])

    def _rows(self, ids: list[str]) -> list[dict[str, object]]:
        return [{"id": each, "rank": self.rng.randint(0, 3)} for each in ids]


def _stamped(handle: TableHandle) -> dict[tuple[int, int], tuple[str, int]]:
    """Every row by what tells its forms apart."""
    names = ["id", "_rowid", "_row_last_updated_at_version"]
    found = handle.dataset.to_table(columns=[*names, column_of(handle.layout, "rank")])
    return {(at, when): (each, rank) for each, at, when, rank in zip(*_lists(found), strict=True)}


def _lists(found: pa.Table) -> list[list[Any]]:  # Any: texts and numbers
    return [column.to_pylist() for column in found.columns]


def _texts(found: pa.Table) -> set[str]:
    return {str(each) for each in found["id"].to_pylist()}


def _by_ids(new: TableHandle, old: TableHandle) -> tuple[set[str], set[str]]:
    """What changed and what is gone, by version columns and by reading all ids."""
    since = f"_row_last_updated_at_version > {old.pin.version}"
    changed = new.dataset.to_table(columns=["id"], filter=since)
    then, now = (each.dataset.to_table(columns=["id"]) for each in (old, new))
    return _texts(changed), _texts(then) - _texts(now)


def _require_exact(history: History, new: TableHandle, old: TableHandle) -> None:
    found = history.bench.store.changed_since(new, old, ["rank"])
    then, now = _stamped(old), _stamped(new)
    told = (old.pin.version, new.pin.version, history.trail)
    before = sorted(then[key] for key in then.keys() - now.keys())
    after = sorted(now[key] for key in now.keys() - then.keys())
    assert sorted(zip(*_lists(found.before), strict=True)) == before, told
    assert sorted(zip(*_lists(found.after), strict=True)) == after, told
    changed, removed = _by_ids(new, old)
    assert set(found.removed.to_pylist()) == removed, told
    assert set(found.changed.to_pylist()) == changed, told


def _play(folder: Path, seed: int, steps: int) -> None:
    bench = Workbench(folder)
    rng = Random(seed)  # noqa: S311 - no secret
    history = History(bench=bench, rng=rng)
    history.lines.append([bench.doc_table(*history._rows(list(IDS[:8])))])
    for _ in range(steps):
        history.step()
    for line in history.lines:
        for at, new in enumerate(line):
            for old in line[: at + 1]:
                _require_exact(history, new, old)


@pytest.mark.parametrize("seed", thinned(range(2)))
def test_changed_rows_are_those_that_a_full_comparison_finds(tmp_path: Path, seed: int) -> None:
    _play(tmp_path / "graph", seed, 9)


def test_many_changed_rows_are_those_that_a_full_comparison_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_TAKEN_ROWS", 0)
    _play(tmp_path / "graph", 100, 9)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1_000, 1_060))
def test_changed_rows_are_exact_over_long_histories(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_TAKEN_ROWS", 2)
    _play(tmp_path / "graph", seed, 24)
