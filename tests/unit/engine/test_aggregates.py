"""Groups and aggregates of many rows."""

import math
from datetime import date
from random import Random  # noqa: TID251 - seeded
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.graphs import Opened, Row, ask, fill, first_of

from omnigraph import Graph
from omnigraph.engine import streamed_groups

SCHEMA = """
node Item {
  key: String @key
  group: String?
  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
  day: Date?  at: DateTime?  word: String?  flag: Bool?  level: enum(low, high)?
}
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""


def stored(graphs: Opened, items: list[Row]) -> Graph:
    graph = graphs.init(SCHEMA)
    if items:
        fill(graph, Item=[{"key": f"k{at:03}", **item} for at, item in enumerate(items)])
    return graph


@pytest.fixture(params=["held", "streamed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Groups of a scan are taken in memory, or streamed as those of a large one are."""
    if request.param == "streamed":
        monkeypatch.setattr(streamed_groups, "LARGE_SCAN", 0)
    return str(request.param)


def test_random_float_sums_by_group_are_right_to_the_promised_digits(graphs: Opened) -> None:
    rng = Random(5)  # noqa: S311 - no secret
    items: list[Row] = [
        {
            "group": rng.choice(["a", "b", None]),
            "f64": rng.choice([1, -1]) * 10.0 ** rng.randint(-12, 12) * rng.random(),
            "f32": rng.choice([0.1, -2.5, 1e30, -1e30]),
        }
        for _ in range(500)
    ]
    graph = stored(graphs, items)
    found = ask(graph, "$i: Item", "$i.group, sum($i.f64) as s, sum($i.f32) as t")
    assert first_of(found) == [None, "a", "b"]
    for group, total, other in found:
        mine = [each for each in items if each["group"] == group]
        assert total == pytest.approx(math.fsum(each["f64"] for each in mine), rel=1e-12)
        singles = [float(np.float32(each["f32"])) for each in mine]
        assert other == pytest.approx(math.fsum(singles), rel=1e-12)


def test_groups_come_in_the_order_of_their_keys_in_column_order(graphs: Opened, way: str) -> None:
    rng = Random(11)  # noqa: S311 - no secret
    items: list[Row] = [
        {
            "group": rng.choice(["b", "a", None]),
            "flag": rng.choice([True, False, None]),
            "day": rng.choice([date(2024, 1, 2), date(1960, 1, 1), None]),
            "i32": rng.randint(-2, 2),
        }
        for _ in range(120)
    ]
    graph = stored(graphs, items)
    found = ask(graph, "$i: Item", "$i.flag, count($i) as n, $i.group, sum($i.i32) as s, $i.day")
    tuples = {(item["flag"], item["group"], item["day"]) for item in items}
    keys = sorted(tuples, key=_nulls_first)
    assert [(row[0], row[2], row[4]) for row in found] == keys, way
    for flag, count, group, total, day in found:
        mine = [
            item
            for item in items
            if (item["flag"], item["group"], item["day"]) == (flag, group, day)
        ]
        assert (count, total) == (len(mine), float(sum(item["i32"] for item in mine)))


def _nulls_first(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(part is not None, 0 if part is None else part) for part in key]


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_groups_are_ordered_by_aggregates_then_by_keys(
    graphs: Opened, way: str, limit: int
) -> None:
    rng = Random(13)  # noqa: S311 - no secret
    items: list[Row] = [
        {"u32": rng.randrange(60), "i32": rng.randrange(4), "word": rng.choice("ab")}
        for _ in range(400)
    ]
    graph = stored(graphs, items)
    counts: dict[tuple[int, str], list[int]] = {}
    for item in items:
        counts.setdefault((item["u32"], item["word"]), []).append(item["i32"])
    rows = [(number, word, len(each), max(each)) for (number, word), each in counts.items()]
    returns = "$i.u32, $i.word, count($i) as n, max($i.i32) as top"
    found = ask(graph, "$i: Item", returns, tail=f"order {{ n desc }} limit {limit}")
    assert found == sorted(rows, key=lambda row: (-row[2], row[:2]))[:limit], way
    found = ask(
        graph, "$i: Item", returns, tail=f"order {{ top, n desc, $i.word desc }} limit {limit}"
    )
    backwards = sorted(rows, key=lambda row: row[1], reverse=True)
    wanted = sorted(sorted(backwards, key=lambda row: row[0]), key=lambda row: row[1], reverse=True)
    assert found == sorted(wanted, key=lambda row: (row[3], -row[2]))[:limit]
