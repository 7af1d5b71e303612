"""Groups and aggregates: exact sums, nulls, no rows, and counts of what is never listed."""

import math
from datetime import UTC, date, datetime
from fractions import Fraction
from random import Random  # noqa: TID251 - seeded
from typing import Any

import numpy as np
import pytest
from tests.unit.engine import values
from tests.unit.engine.graphs import Opened, Row, ask, fill, first_of

from omnigraph import Graph
from omnigraph.engine import streamed_groups
from omnigraph.errors import NumericOverflow, OmnigraphError

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


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        ("i64", [2**53, 1, 1]),
        ("i64", [2**63 - 1] * 3),
        ("i64", [-(2**63), -(2**63), 1]),
        ("i64", [2**62, -(2**62), 3]),
        ("u64", [2**64 - 1] * 5),
        ("u64", [2**53 + 1, 2]),
        ("i32", [2**31 - 1] * 7 + [-(2**31)]),
        ("u32", [2**32 - 1] * 9),
    ],
)
def test_whole_numbers_are_added_exactly_and_converted_once(
    graphs: Opened, way: str, column: str, numbers: list[int]
) -> None:
    graph = stored(graphs, [{column: each} for each in [*numbers, None]])
    returns = f"sum($i.{column}) as s, avg($i.{column}) as a, count($i.{column}) as n"
    ((total, mean, count),) = ask(graph, "$i: Item", returns)
    assert total == float(sum(numbers)), way
    assert mean == pytest.approx(float(Fraction(sum(numbers), len(numbers))), rel=1e-15)
    assert count == len(numbers)


@pytest.mark.parametrize(
    "numbers",
    [
        [1e16, 1.0, -1e16],
        [1.0, 1e100, 1.0, -1e100],
        [0.1] * 10,
        [1e308, -1e308, 1.0],
        [5e-324] * 3,
        [3.5],
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_floats_are_added_with_compensation(
    graphs: Opened, numbers: list[float], order: int
) -> None:
    graph = stored(graphs, [{"f64": each} for each in [*numbers[::order], None]])
    ((total, mean),) = ask(graph, "$i: Item", "sum($i.f64) as s, avg($i.f64) as a")
    assert total == pytest.approx(math.fsum(numbers), rel=1e-12, abs=0)
    assert mean == pytest.approx(math.fsum(numbers) / len(numbers), rel=1e-12, abs=0)


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


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_a_float_sum_beyond_the_range_is_an_error(graphs: Opened, function: str) -> None:
    graph = stored(graphs, [{"f64": 1.7e308, "group": "a"}, {"f64": 1.7e308, "group": "a"}])
    for returns in (f"{function}($i.f64)", f"$i.group, {function}($i.f64)"):
        with pytest.raises(NumericOverflow):
            ask(graph, "$i: Item", returns)
    assert ask(graph, "$i: Item", "max($i.f64)") == [(1.7e308,)]


def test_no_rows_without_keys_are_one_row_and_with_keys_none(graphs: Opened, way: str) -> None:
    graph = stored(graphs, [{"i32": 1}])
    returns = (
        "count($i) as n, count($i.i32) as m, sum($i.i32) as s, avg($i.u64) as a,"
        " min($i.word) as lo, max($i.day) as hi"
    )
    for match in ("$i: Item $i.i32 > 5", '$i: Item { key: "nobody" }', "$i: Item $i.u64 = 1"):
        assert ask(graph, match, returns) == [(0, 0, None, None, None, None)], way
        assert ask(graph, match, f"$i.group, {returns}") == []
    empty = graphs.init(SCHEMA)
    assert ask(empty, "$i: Item", returns) == [(0, 0, None, None, None, None)]
    assert ask(empty, "$i: Item", f"$i.group, {returns}") == []
    assert ask(empty, "$a: Person $a knows $b", "count($b)") == [(0,)]
    assert ask(empty, "$a: Person $a knows $b", "$a, count($b)") == []


def test_nulls_count_for_nothing_and_are_one_group(graphs: Opened, way: str) -> None:
    items: list[Row] = [
        {"group": None, "i32": 1},
        {"group": None, "i32": None},
        {"group": "", "i32": None},
        {"group": "b", "i32": 4},
        {"group": "b", "i32": 6, "word": "w"},
    ]
    graph = stored(graphs, items)
    returns = (
        "$i.group, count($i) as n, count($i.i32) as m, count($i.word) as w,"
        " sum($i.i32) as s, avg($i.i32) as a, min($i.i32) as lo"
    )
    assert ask(graph, "$i: Item", returns) == [
        (None, 2, 1, 0, 1.0, 1.0, 1),
        ("", 1, 0, 0, None, None, None),
        ("b", 2, 2, 1, 10.0, 5.0, 4),
    ], way


def test_the_least_and_the_greatest_of_every_type_keep_it(graphs: Opened, way: str) -> None:
    items: list[Row] = [dict(row) for row in values.rows()]
    names = [*values.NUMBERS, "day", "at", "word"]
    kept: list[Row] = [{name: item[name] for name in names} for item in items]
    graph = stored(graphs, kept)
    for name in names:
        cells = [item[name] for item in kept if item[name] is not None]
        key = (lambda text: text.encode()) if name == "word" else None
        table = graph.query(
            f"query q() {{ match {{ $i: Item }} return"
            f" {{ min($i.{name}) as lo, max($i.{name}) as hi }} }}"
        ).to_arrow()
        assert table.to_pylist() == [{"lo": min(cells, key=key), "hi": max(cells, key=key)}], way
        stored_as = graph.schema.catalog.node_types["Item"].arrow_schema.field(name).type
        assert table.schema.field("lo").type == stored_as


def test_texts_are_least_and_greatest_by_bytes(graphs: Opened, way: str) -> None:
    graph = stored(graphs, [{"word": each} for each in ("\uffff", "\U00010000", "z", "Z")])
    assert ask(graph, "$i: Item", "min($i.word), max($i.word)") == [("Z", "\U00010000")], way
    groups = ask(graph, "$i: Item", "$i.word, count($i)")
    assert first_of(groups) == ["Z", "z", "\uffff", "\U00010000"]


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


def test_dates_times_and_enums_are_keys_and_extremes(graphs: Opened, way: str) -> None:
    moments = [datetime(2024, 1, 1, 12, 0, 0, 1000, tzinfo=UTC), datetime(1950, 1, 1, tzinfo=UTC)]
    items: list[Row] = [
        {"at": moments[at % 2], "level": ["low", "high"][at % 2], "day": date(2024, 1, 1 + at)}
        for at in range(4)
    ]
    graph = stored(graphs, items)
    assert ask(graph, "$i: Item", "$i.at, $i.level, min($i.day), max($i.level) as m") == [
        (moments[1], "high", date(2024, 1, 2), "high"),
        (moments[0], "low", date(2024, 1, 1), "low"),
    ], way


def test_a_node_is_a_key_by_its_id(graphs: Opened, way: str) -> None:
    graph = stored(graphs, [{"group": "x"}, {"group": "y"}])
    assert ask(graph, "$i: Item", "$i, count($i)") == [("k000", 1), ("k001", 1)], way


def test_a_key_property_is_a_group_key_like_any_other(graphs: Opened, way: str) -> None:
    graph = stored(graphs, [{"group": "x", "i32": 1}, {"group": "y"}, {"group": "x", "i32": 5}])
    for returns in ("$i.key, count($i.i32)", "$i.key, count($i.i32), $i"):
        found = ask(graph, "$i: Item", returns)
        assert [row[:2] for row in found] == [("k000", 1), ("k001", 0), ("k002", 1)], way
    assert ask(graph, "$i: Item", "$i.group, max($i.key), count($i.key) as n") == [
        ("x", "k002", 2),
        ("y", "k001", 1),
    ]
    tail = "order { n desc, $i.key desc } limit 2"
    assert ask(graph, "$i: Item", "$i.key, count($i.i32) as n", tail=tail) == [
        ("k002", 1),
        ("k000", 1),
    ]
    assert ask(graph, "$i: Item $i.i32 > 1", "$i.key, sum($i.i32)") == [("k002", 5.0)]


def test_several_key_properties_group_and_count_by_their_values(graphs: Opened) -> None:
    graph = graphs.init(
        "node Slot { day: Date  room: String  seats: I32?  @key(day, room) }\n"
        "edge Next: Slot -> Slot"
    )
    days = [date(2024, 1, 10), date(2024, 1, 9)]
    slots: list[Row] = [
        {"day": day, "room": room, "seats": 3} for day in days for room in ("b", "a,c")
    ]
    fill(graph, Slot=slots)
    assert ask(graph, "$s: Slot", "$s.day, count($s), sum($s.seats)") == [
        (days[1], 2, 6.0),
        (days[0], 2, 6.0),
    ]
    assert ask(graph, "$s: Slot", "$s.room, $s.day", tail="order { $s.room, $s.day desc }") == [
        ("a,c", days[0]),
        ("a,c", days[1]),
        ("b", days[0]),
        ("b", days[1]),
    ]
    ids = first_of(ask(graph, "$s: Slot", "$s"))
    fill(graph, Next=[{"src": ids[0], "dst": each} for each in ids])
    found = ask(graph, "$s: Slot $s next $t", "$t.room, count($s) as n, max($t.day) as d")
    assert found == [("a,c", 2, days[0]), ("b", 2, days[0])]


def people(graphs: Opened, seed: int) -> Graph:
    """A small graph with loops, parallel edges and people nobody knows."""
    rng = Random(seed)  # noqa: S311 - no secret
    graph = graphs.init(SCHEMA)
    names = [f"p{number}" for number in range(7)]
    ages = [None, 1, 2, 3]
    fill(graph, Person=[{"name": name, "age": rng.choice(ages)} for name in names])
    pairs = [(rng.choice(names), rng.choice(names)) for _ in range(rng.randint(0, 16))]
    if pairs:
        fill(graph, Knows=[{"src": a, "dst": b, "since": rng.choice(ages)} for a, b in pairs])
    return graph


WALKS = (
    "$p: Person $p knows $f",
    "$p: Person $p knows{1,3} $f",
    "$p: Person $p knows{2,3} $f",
    "$p: Person $p <knows> $f",
    "$p: Person $p <knows>{1,2} $f",
    "$p: Person $p $w:knows $f",
    "$p: Person $p $w:knows $f $w.since > 1",
    "$p: Person $p knows $x $x knows $f",
    "$p: Person $p knows $x $p knows $f",
    "$p: Person $p knows $x $x knows $y $y knows $f",
    "$p: Person $p knows $f $f.age > 1",
    "$p: Person $p.age >= 2 $p knows $f $f knows $p",
    "$p: Person $f: Person",
    "$p: Person $f: Person $p.age = $f.age",
    "$p: Person $f: Person $p.age < $f.age $p knows $f",
    "$p: Person $x: Person $p knows $f",
    "$p: Person $p knows $f not { $f knows $p }",
    "$p: Person $p knows $f not { $f knows $x $x knows $p }",
    "$f knows $p",
)


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_walks_are_the_numbers_of_their_rows(graphs: Opened, seed: int) -> None:
    graph = people(graphs, seed)
    for match in WALKS:
        listed = ask(graph, match, "$p, $f, $f.age")
        assert ask(graph, match, "count($f)") == [(len(listed),)], match
        assert ask(graph, match, "count($p)") == [(len(listed),)], match
        counts: dict[str, list[Any]] = {}
        for person, _, age in listed:
            counts.setdefault(person, []).append(age)
        wanted = [(person, len(ages)) for person, ages in sorted(counts.items())]
        assert ask(graph, match, "$p, count($f)") == wanted, match
        assert ask(graph, match, "$p.name, count($f)") == wanted, match
        given = {
            person: [age for age in ages if age is not None] for person, ages in counts.items()
        }
        wanted_ages = [
            (person, len(ages), float(sum(ages)) if ages else None, max(ages, default=None))
            for person, ages in sorted(given.items())
        ]
        returns = "$p, count($f.age) as n, sum($f.age) as s, max($f.age) as m"
        assert ask(graph, match, returns) == wanted_ages, match


@pytest.mark.parametrize("seed", range(3))
def test_aggregates_of_one_end_weigh_it_by_the_walk(graphs: Opened, seed: int) -> None:
    graph = people(graphs, seed)
    for match in WALKS:
        ages = first_of(ask(graph, match, "$p.age as age, $p, $f"))
        given = [age for age in ages if age is not None]
        total = float(sum(given)) if given else None
        mean = sum(given) / len(given) if given else None
        returns = "count($p.age) as n, sum($p.age) as s, avg($p.age) as a, min($p.age) as m"
        assert ask(graph, match, returns) == [
            (len(given), total, mean, min(given, default=None))
        ], match


def test_a_count_larger_than_its_type_is_never_a_wrong_number(graphs: Opened) -> None:
    graph = stored(graphs, [{"i32": 1}] * 10)
    match = " ".join(f"$v{number}: Item" for number in range(20))
    source = f"query q() {{ match {{ {match} }} return {{ count($v0) as n }} }}"
    with pytest.raises(OmnigraphError):
        graph.query(source)
