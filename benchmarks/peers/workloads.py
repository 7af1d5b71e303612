"""What is measured, with which values, and the bound that each figure has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peers.system import Case, Row
    from numpy.typing import NDArray


class Rival(StrEnum):
    """Whom a workload is compared with."""

    PEER = "best peer"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One query with the values that it is asked with, one after the other."""

    name: str
    title: str
    cases: Sequence[Case]
    rival: Rival
    goal: float
    """The most that its time may be of the rival's."""

    compared: tuple[int, ...] | None = None
    """The columns of the answer in which all must agree; all of them if none are named."""

    truth: Sequence[frozenset[object]] | None = None
    """For an answer that may be approximate: the first column of the exact one, per case."""

    def answer(self, rows: Sequence[Row]) -> list[Row]:
        """Rows in the form that is compared: the named columns, floats cut, in one order."""
        picked = rows
        if self.compared is not None:
            picked = [tuple(row[at] for at in self.compared) for row in rows]
        return sorted((tuple(map(_rounded, row)) for row in picked), key=repr)

    def recall(self, case: int, rows: Sequence[Row]) -> float:
        """The part of the exact answer that was found."""
        if self.truth is None:
            raise ValueError(f"{self.name} has no exact answer to compare with")
        return len(self.truth[case] & {row[0] for row in rows}) / max(1, len(self.truth[case]))


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def workloads(persons: pa.Table, seed: int = 7) -> list[Workload]:
    """All workloads that these persons allow."""
    rng = np.random.default_rng(seed)
    chosen = persons.take(rng.choice(persons.num_rows, 30, replace=False))
    starts: list[Case] = [{"handle": handle} for handle in chosen["handle"].to_pylist()]
    windows: list[Case] = [
        {"low": low, "high": low + 100}
        for low in rng.integers(0, persons.num_rows - 100, 3).tolist()
    ]
    peer, floor = Rival.PEER, Rival.FLOOR
    found = [
        _workload("lookup", "point lookup by key", starts, floor, 2.0),
        _workload("hop1", "one hop, ids", starts, peer, 3.0),
        _workload("hop1_names", "one hop, two properties", starts, peer, 3.0),
        _workload("hop2", "two hops, distinct ids", starts[:10], peer, 3.0),
        _workload("hop2_count", "two hops from 100 nodes, count", windows, peer, 0.5),
        _workload("hop3_count", "three hops, count", starts[:5], peer, 0.5),
        _workload("walks3", "three hops over all, count", [{}], peer, 2.0),
        _workload("walks2_first", "two hops over all, limit 10", [{}], peer, 3.0, compared=()),
        _workload("top_degree", "ten most known", [{}], peer, 0.5),
        _workload("no_job", "persons without a job, count", [{}], peer, 0.5),
        _workload("age_by_city", "average age by city", [{}], floor, 1.5),
    ]
    if "embedding" in persons.column_names:
        found += _searches(persons, chosen.slice(0, 20), rng)
    return found


def _workload(
    name: str,
    title: str,
    cases: Sequence[Case],
    rival: Rival,
    goal: float,
    *,
    compared: tuple[int, ...] | None = None,
) -> Workload:
    return Workload(name=name, title=title, cases=cases, rival=rival, goal=goal, compared=compared)


def _searches(persons: pa.Table, chosen: pa.Table, rng: np.random.Generator) -> list[Workload]:
    space = _matrix(persons)
    near = _matrix(chosen)
    near = near + rng.standard_normal(near.shape, dtype=np.float32) * np.float32(0.3)
    cities = chosen["city"].to_pylist()
    plain: list[Case] = [{"vector": vector} for vector in near]
    filtered: list[Case] = [
        {"vector": vector, "city": city} for vector, city in zip(near, cities, strict=True)
    ]
    everyone = np.ones(persons.num_rows, dtype=bool)
    handles = persons["handle"]
    masks = {
        city: np.asarray(pc.equal(persons["city"], pa.scalar(str(city)))) for city in set(cities)
    }
    bios = [str(bio).split() for bio in chosen["bio"].to_pylist()]
    return [
        Workload(
            name="vector",
            title="vector top 10",
            cases=plain,
            rival=Rival.FLOOR,
            goal=1.3,
            truth=[_nearest(space, handles, vector, everyone) for vector in near],
        ),
        Workload(
            name="vector_city",
            title="vector top 10 in one city",
            cases=filtered,
            rival=Rival.FLOOR,
            goal=1.3,
            truth=[
                _nearest(space, handles, vector, masks[city])
                for vector, city in zip(near, cities, strict=True)
            ],
        ),
        Workload(
            name="text",
            title="text top 10, two words",
            cases=[{"text": f"{words[3]} {words[8]}"} for words in bios],
            rival=Rival.FLOOR,
            goal=1.3,
            compared=(1,),  # rows of one score stand in any order
        ),
    ]


def _matrix(persons: pa.Table) -> NDArray[np.float32]:
    column: Any = persons["embedding"].combine_chunks()  # Any: a list array has more than the stub
    flat: NDArray[np.float32] = column.flatten().to_numpy()
    return flat.reshape(persons.num_rows, -1)


def _nearest(
    space: NDArray[np.float32],
    handles: pa.ChunkedArray[pa.StringScalar],
    vector: NDArray[np.float32],
    mask: NDArray[np.bool_],
) -> frozenset[object]:
    """The ten nearest by cosine distance, by looking at all of them."""
    candidates = np.flatnonzero(mask)
    rows = space[candidates]
    likeness = rows @ vector / np.linalg.norm(rows, axis=1)
    best = candidates[np.argsort(-likeness)[:10]]
    return frozenset(handles.take(best).to_pylist())
