"""The total order of many rows, and the ways that lead to it."""

from collections.abc import Callable
from random import Random  # noqa: TID251 - seeded
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.engine import values
from tests.unit.engine.graphs import Opened, Row, ask, fill, first_of

from omnigraph import Graph
from omnigraph.clock import SystemClock
from omnigraph.engine import order
from omnigraph.engine.order import SortKey, order_rows
from omnigraph.engine.relational import SortColumn, join_rows, sort_rows
from omnigraph.errors import ResourceLimit
from omnigraph.graph.query.budget import Budget

if TYPE_CHECKING:
    from omnigraph.graph.arrays import Values

SCHEMA = """
node Item { key: String @key  n: I64?  u: U64?  f: F64?  g: F32?  word: String?  day: Date?
            at: DateTime?  flag: Bool? }
node Tag { key: String @key }
edge Has: Item -> Tag { weight: I32? }
"""
ROWS = [
    {
        "key": row["key"],
        "n": row["i64"],
        "u": row["u64"],
        "f": row["f64"],
        "g": row["f32"],
        **{name: row[name] for name in ("word", "day", "at", "flag")},
    }
    for row in values.rows()
]


def budget(max_rows: int = 10_000_000) -> Budget:
    return Budget(clock=SystemClock(), timeout_ms=0, max_rows=max_rows, memory_bytes=1 << 30)


def ordered(rows: list[dict[str, Any]], *keys: tuple[str, bool]) -> list[str]:
    """The keys of the rows by some columns, nulls smallest, then by key."""
    found = sorted(rows, key=lambda row: str(row["key"]).encode())
    for name, is_descending in reversed(keys):
        # Sorted in reverse, equals keep their order too.
        found = sorted(found, key=_by(name), reverse=is_descending)
    return [row["key"] for row in found]


def _by(name: str) -> Callable[[dict[str, Any]], tuple[bool, Any]]:
    return lambda row: _place(row[name])


def _place(value: Any) -> tuple[bool, Any]:  # noqa: ANN401 - of any type
    if value is None:
        return False, 0
    return True, value.encode() if isinstance(value, str) else value


def many(count: int, seed: int = 4) -> list[Row]:
    rng = Random(seed)  # noqa: S311 - no secret
    return [
        {
            "key": f"k{number:05}",
            "n": rng.choice([None, -(2**63), 2**63 - 1, *range(-9, 9)]),
            "u": rng.choice([0, 2**64 - 1, 2**63, *range(9)]),
            "f": rng.choice([None, -1.5, 0.0, 2.5, 1e300, -1e300]),
            "g": rng.choice([0.5, -0.5, 3.0]),
            "word": rng.choice([None, "", "a", "b", "\uffff", "\U00010000"]),
            "flag": rng.choice([True, False]),
        }
        for number in rng.sample(range(count), count)
    ]


@pytest.fixture(scope="module")
def crowd(shared: Opened) -> tuple[Graph, list[dict[str, Any]]]:
    graph = shared.init(SCHEMA)
    rows = many(900)
    fill(graph, Item=rows)
    return graph, [dict(row) for row in rows]


@pytest.mark.parametrize("datafusion", [False, True])
@pytest.mark.parametrize("column", ["n", "u", "f", "g", "word", "flag"])
def test_the_first_of_many_are_those_of_the_whole_order(
    crowd: tuple[Graph, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    datafusion: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    if datafusion:
        monkeypatch.setattr(order, "SORT_IN_DATAFUSION", 0)
    graph, rows = crowd
    for word, is_descending in (("asc", False), ("desc", True)):
        wanted = ordered(rows, (column, is_descending), ("word", True))
        for limit in (1, 5, 100, None):
            cut = "" if limit is None else f"limit {limit}"
            tail = f"order {{ $i.{column} {word}, $i.word desc }} {cut}"
            assert first_of(ask(graph, "$i: Item", "$i", tail=tail)) == wanted[:limit], tail


def test_the_first_by_id_of_many_are_found(crowd: tuple[Graph, list[dict[str, Any]]]) -> None:
    graph, rows = crowd
    wanted = ordered(rows)
    for limit in (1, 17, 899, 900, 5000):
        assert first_of(ask(graph, "$i: Item", "$i", tail=f"limit {limit}")) == wanted[:limit]
        found = ask(graph, "$i: Item", "$i", tail=f"order {{ $i desc }} limit {limit}")
        assert first_of(found) == wanted[::-1][:limit]


KINDS: list[pa.DataType] = [
    pa.int64(),
    pa.uint64(),
    pa.int32(),
    pa.float64(),
    pa.float32(),
    pa.string(),
    pa.bool_(),
]


def random_column(kind: pa.DataType, rows: int, rng: Random) -> "Values":
    if pa.types.is_string(kind):
        cells: list[Any] = [None, "", "a", "ab", "\uffff", "\U00010000"]
    elif pa.types.is_boolean(kind):
        cells = [None, True, False]
    elif pa.types.is_floating(kind):
        cells = [None, -2.5, 0.0, 1.5, 1e30]
    else:
        cells = [None, 0, 1, 5, 2**31 - 1]
    return pa.array([rng.choice(cells) for _ in range(rows)], kind)


def _cells(column: "Values") -> list[Any]:
    return [each.as_py() for each in column]


def _at(cells: list[Any]) -> Callable[[int], tuple[bool, Any]]:
    return lambda at: _place(cells[at])


@pytest.mark.parametrize("seed", range(8))
def test_every_way_to_sort_gives_one_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)  # noqa: S311 - no secret
    rows = 200
    keys = [
        SortKey(random_column(rng.choice(KINDS), rows, rng), rng.random() < 0.5)
        for _ in range(rng.randint(1, 3))
    ]
    keys.append(SortKey(np.asarray(rng.sample(range(rows), rows))))
    whole = order_rows(keys, rows, None, budget()).tolist()
    columns = [
        SortColumn(
            pa.array(key.values) if isinstance(key.values, np.ndarray) else key.values,
            key.is_descending,
        )
        for key in keys
    ]
    assert sort_rows(columns, budget()).tolist() == whole
    plain = [
        list(key.values if isinstance(key.values, np.ndarray) else _cells(key.values))
        for key in keys
    ]
    wanted = list(range(rows))
    for cells, key in reversed(list(zip(plain, keys, strict=True))):
        wanted.sort(key=_at(cells), reverse=key.is_descending)
    assert whole == wanted
    for limit in (0, 1, 3, 24, 25, 26, 200, 999):
        assert order_rows(keys, rows, limit, budget()).tolist() == whole[:limit]
    monkeypatch.setattr(order, "TOP_OF", 10**9)
    assert order_rows(keys, rows, 3, budget()).tolist() == whole[:3]


def test_minus_zero_is_zero_in_an_order() -> None:
    key = SortKey(np.array([0.0, -0.0, 0.0, -1.0]))
    tie = SortKey(np.array([2, 1, 0, 3]))
    assert order_rows([key, tie], 4, None, budget()).tolist() == [3, 2, 1, 0]


def pairs(left: list[Any], right: list[Any]) -> set[tuple[int, int]]:
    return {
        (a, b)
        for a, first in enumerate(left)
        for b, second in enumerate(right)
        if None not in (first, second) and first == second
    }


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        (pa.decimal128(20, 0), [2**64 - 1, -(2**63), 0, None, 5], [0, 2**64 - 1, None, 5, 5]),
        (pa.float64(), [1.5, 2.0**53, None, 0.0], [2.0**53, 0.0, 1.5, 1.5, None]),
        (pa.string(), ["", "a", "A", None, "\U00010000"], ["a", "", "\U00010000", None]),
        (pa.bool_(), [True, False, None], [False, False, None, True]),
        (pa.date32(), [0, -1, None], [-1, None, 0, 0]),
        (pa.int64(), [], [1, 2]),
        (pa.int64(), [1, 2], []),
    ],
)
def test_rows_are_joined_by_equal_keys_and_null_equals_nothing(
    kind: pa.DataType, left: list[Any], right: list[Any]
) -> None:
    at, other = join_rows([pa.array(left, kind)], [pa.array(right, kind)], budget())
    found = list(zip(at.tolist(), other.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == pairs(left, right)


def test_rows_are_joined_by_all_of_several_keys() -> None:
    left: list[Values] = [pa.array([1, 1, 2, None], pa.int64()), pa.array(["a", "b", "a", "a"])]
    right: list[Values] = [pa.array([1, 2, 1, None], pa.int64()), pa.array(["a", "a", "a", "a"])]
    at, other = join_rows(left, right, budget())
    assert set(zip(at.tolist(), other.tolist(), strict=True)) == {(0, 0), (0, 2), (2, 1)}


def test_a_join_of_more_rows_than_may_be_held_is_refused() -> None:
    same = pa.array([7] * 100, pa.int64())
    with pytest.raises(ResourceLimit) as caught:
        join_rows([same], [same], budget(max_rows=9_999))
    assert caught.value.details["resource"] == "query_binding_rows"
    assert len(join_rows([same], [same], budget(max_rows=10_000))[0]) == 10_000
