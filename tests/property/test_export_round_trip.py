"""An export loaded again is the same graph: generated graphs, every type, ids, blobs included."""

from __future__ import annotations

import base64
import json
import random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import pytest
from tests.extended import thinned
from tests.reference.graphs import generate_graph
from tests.reference.storing import quick, store

from omnigraph import Graph

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = """
node File {
  name: String @key
  body: Blob?
  other: Blob?
  mark: I32? @default(7)
  note: String? @default("none")
  at: DateTime? @default("2020-01-01T00:00:00Z")
}
node Loose { body: Blob? }
edge Loose: File -> Loose { proof: Blob?  weight: F32? @default(0.5) }
"""
SIZES = (0, 1, 2, 3, 4, 5, 1_000, 65_536)

Rows = dict[str, dict[str, dict[str, Any]]]  # Any: a value of any type

_SEEDS = [
    *thinned(range(10), keep=2),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 300)),
]


def rows(graph: Graph) -> Rows:
    """Every value that a scan shows, and every blob, by type and id."""
    snapshot = graph.snapshot()
    found: Rows = {}
    for kind, types in (
        ("node", snapshot.catalog.node_types),
        ("edge", snapshot.catalog.edge_types),
    ):
        for name, item in types.items():
            key = f"{kind}:{name}"
            listed = snapshot.scan(key).read_all().to_pylist()
            found[key] = {row["id"]: row for row in listed}
            assert len(found[key]) == len(listed)
            for each, row in found[key].items():
                row |= {blob: _blob(graph, kind, name, each, blob) for blob in item.blob_properties}
    return found


def _blob(graph: Graph, kind: Any, name: str, entity_id: str, blob: str) -> bytes | None:  # noqa: ANN401
    record = next(
        each
        for each in map(json.loads, b"".join(graph.export(types=[f"{kind}:{name}"])).splitlines())
        if each["data"]["id"] == entity_id
    )
    if record["data"][blob] is None:
        return None
    return b"".join(graph.blob(kind, name, entity_id, blob))


def export(graph: Graph) -> bytes:
    return b"".join(graph.export())


def require_round_trip(graph: Graph, schema: str, path: Path, rng: random.Random) -> None:
    text, wanted = export(graph), rows(graph)
    assert export(graph) == text
    # A load does not mind the order, and neither does the export after it.
    lines = text.splitlines(keepends=True)
    rng.shuffle(lines)
    with Graph.init(path, schema=schema, settings=quick()) as copy:
        report = copy.load(b"".join(lines), mode="append")
        assert sum(each.added for each in report.tables) == len(lines)
        assert rows(copy) == wanted
        assert export(copy) == text
        copy.load(text, mode="merge")
        assert export(copy) == text
        copy.load(text, mode="overwrite")
        assert export(copy) == text
    graph.load(text, mode="merge")
    assert rows(graph) == wanted
    assert export(graph) == text


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_generated_graph_is_the_same_after_export_and_load(seed: int, tmp_path: Path) -> None:
    made = generate_graph(seed)
    rng = random.Random(f"trip {seed}")  # noqa: S311 - seeded
    with store(made, tmp_path / "g", commits=1 + seed % 3, churn=seed % 2 == 1, seed=seed) as graph:
        require_round_trip(graph, made.schema, tmp_path / "copy", rng)


@pytest.mark.parametrize("seed", _SEEDS[:1] + _SEEDS[10:20])
def test_blobs_and_nulls_where_a_default_is_survive_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"blobs {seed}")  # noqa: S311 - seeded
    with Graph.init(tmp_path / "g", schema=BLOBS, settings=quick()) as graph:
        for start in (0, 10):
            text = "\n".join(json.dumps(each) for each in _records(rng, start))
            graph.load(text.encode(), mode="append")
        require_round_trip(graph, BLOBS, tmp_path / "copy", rng)


def _records(rng: random.Random, start: int) -> list[dict[str, Any]]:
    """Files and loose blobs with ids that are new from `start` on, some values null or left out."""
    made: list[dict[str, Any]] = []
    for at in range(start, start + 10):
        file: dict[str, Any] = {"name": f"f{at}", "body": _text(rng), "other": _text(rng)}
        file |= {"mark": rng.choice((None, 1)), "note": None, "at": None}
        made.append({"type": "File", "data": _thinned(rng, file, "name")})
        loose = {"id": f"l{at}", "body": _text(rng)}
        made.append({"type": "Loose", "data": _thinned(rng, loose, "id")})
        edge = {"id": f"e{at}", "proof": _text(rng), "weight": rng.choice((None, 0.1))}
        ends = {"from": f"f{rng.randint(start, at)}", "to": f"l{rng.randint(start, at)}"}
        made.append({"edge": "Loose", **ends, "data": _thinned(rng, edge, "id")})
    return made


def _thinned(rng: random.Random, values: dict[str, Any], kept: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name == kept or rng.random() < 0.8}


def _text(rng: random.Random) -> str | None:
    if rng.random() < 0.2:
        return None
    return "base64:" + base64.b64encode(rng.randbytes(rng.choice(SIZES))).decode()
