"""`in` with lists of any length: one meaning, with and without an index, prepared once, in time."""

from collections.abc import Sequence

import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import Opened, SteppedClock, engine_at, fill, index

from omnigraph import Graph
from omnigraph.engine import evaluate, scan
from omnigraph.engine.engine import QueryRequest
from omnigraph.errors import DeadlineExceeded
from omnigraph.graph.query import compare, pushdown
from omnigraph.graph.query.target import QueryTarget
from omnigraph.lang import Scalar, fit_members

SCHEMA = """
node Thing { name: String @key  number: I64? @index  small: I32?  part: F32? @index
  word: String? @index }
"""
ROWS = 400
LENGTHS = (1, 1_000, 100_000)


@pytest.fixture(scope="module")
def graphs(shared: Opened) -> dict[str, Graph]:
    """The same rows, with indexes and without."""
    made = {kind: shared.init(SCHEMA) for kind in ("indexed", "plain")}
    for graph in made.values():
        fill(
            graph,
            Thing=[
                {
                    "name": f"n{number}",
                    "number": None if number % 7 == 0 else number * 3,
                    "small": number - 200,
                    "part": number / 4,
                    "word": None if number % 5 == 0 else f"w{number % 50}",
                }
                for number in range(ROWS)
            ],
        )
    index(made["indexed"])
    return made


def members(kind: str, length: int) -> list[object]:
    match kind:
        case "String":
            return [f"w{number}" for number in range(7, 7 + length)]
        case "I64":
            return [*range(9, 9 + length)]
        case _:
            return [number / 2 for number in range(length)]


@pytest.mark.parametrize("length", thinned(LENGTHS, keep=2))
@pytest.mark.parametrize(
    ("name", "kind"),
    [("word", "String"), ("number", "I64"), ("small", "I64"), ("part", "F64"), ("number", "F64")],
)
@pytest.mark.parametrize("many", [pushdown.MANY_VALUES, 16])
def test_a_list_of_any_length_finds_the_same_rows_with_and_without_an_index(
    graphs: dict[str, Graph],
    name: str,
    kind: str,
    length: int,
    many: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushdown, "MANY_VALUES", many)
    monkeypatch.setattr(scan, "MANY_VALUES", many)
    monkeypatch.setattr(scan, "ROWS_PER_VALUE", 0)
    wanted = members(kind, length)
    listed = {"list": [*wanted, *wanted[:3]][-max(LENGTHS) :]}
    rows = graphs["plain"].query(
        f"query q() {{ match {{ $t: Thing }} return {{ $t, $t.{name} }} }}"
    )
    for word, has in (("in", True), ("not in", False)):
        source = (
            f"query q($list: [{kind}]) {{ match {{ $t: Thing $t.{name} {word} $list }}"
            " return { $t } order { $t } }"
        )
        expected = sorted(
            str(row["t"])
            for row in rows.to_dicts()
            if row[f"t.{name}"] is not None and (row[f"t.{name}"] in set(wanted)) is has
        )
        for graph in graphs.values():
            assert [row["t"] for row in graph.query(source, params=listed)] == expected


def test_a_long_list_is_prepared_once_for_all_parts_of_the_rows(
    graphs: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Scalar] = []

    def fit(column: Scalar, values: Sequence[object]) -> object:
        prepared.append(column)
        return fit_members(column, values)

    monkeypatch.setattr(evaluate, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(pushdown, "MANY_VALUES", 4)
    monkeypatch.setattr(compare, "fit_members", fit)
    found = graphs["plain"].query(
        "query q($list: [I64]) { match { $t: Thing $t.number in $list } return { $t } }",
        params={"list": [*range(20)]},
    )
    assert len(found) == len([n for n in range(0, 20, 3) if n // 3 % 7])
    assert prepared == [Scalar.I64]


def test_time_is_looked_at_between_the_parts_of_the_rows(
    graphs: dict[str, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "ROWS_AT_ONCE", 16)
    monkeypatch.setattr(pushdown, "MANY_VALUES", 4)
    graph = graphs["plain"]
    request = QueryRequest(
        source="query q($list: [I64]) { match { $t: Thing $t.number in $list } return { $t } }",
        params={"list": [*range(20)]},
        snapshot=graph.snapshot(),
        target=QueryTarget(branch="main", snapshot=None),
        token=None,
    )
    clock = SteppedClock()
    assert len(engine_at(graph, clock).query(request)) > 0
    assert clock.calls > ROWS // 80
    with pytest.raises(DeadlineExceeded):
        engine_at(graph, SteppedClock(clock.calls // 2)).query(request)
