"""What a write asked, held against what others changed: nothing is missed, nor met by chance."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.graph.graphs import Opened, committed, made_once

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, OmnigraphError, ReadSetChanged
from omnigraph.failpoints import armed
from omnigraph.graph.commit.read_set import is_claimed

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique  town: String?  street: String?
              @unique(town, street) }
node Part { number: U64 @key  serial: U64? @unique  weight: F64? }
edge Knows: Person -> Person { since: I32? }
"""
POINTS = ("mutation.post_stage_pre_lease", "load.post_stage_pre_lease")


def fill(graph: Graph) -> None:
    put(graph, "Person", *(person(each) for each in "abc"))
    put(graph, "Part", *({"number": n, "serial": 2**63 + n, "weight": 1.0} for n in (1, 2)))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory.mktemp("filled"), SCHEMA, fill)


@pytest.fixture
def graph(graphs: Opened, filled: Path) -> Graph:
    """Persons a, b and c, each with an email and a street; parts 1 and 2."""
    return graphs.copied(filled)


def person(name: str, **given: object) -> dict[str, object]:
    return {"name": name, "email": f"{name}@x", "town": "oslo", "street": name, "age": 1} | given


def put(graph: Graph, name: str, *given: Mapping[str, object]) -> None:
    fields = [each for each in graph.snapshot().type(name).arrow_schema if each.name != "id"]
    with graph.write() as writer:
        writer.upsert(name, pa.Table.from_pylist(list(given), pa.schema(fields)))
        committed(writer.commit())


def drop(graph: Graph, name: str) -> None:
    with graph.write() as writer:
        writer.delete("Person", [name])
        committed(writer.commit())


def mutate(graph: Graph, text: str) -> None:
    graph.mutate(f"query m() {{ {text} }}")


def load(graph: Graph, line: str) -> None:
    graph.load(line.encode(), mode="merge")


def people(graph: Graph) -> dict[str, dict[str, Any]]:
    found = graph.snapshot().scan("Person").read_all().to_pylist()
    return {row["name"]: row for row in found}


@contextmanager
def overtaken(*acts: Callable[[], object]) -> Iterator[list[int]]:
    """Others are faster once; a number for each time that what follows was prepared."""
    prepared: list[int] = []
    inside: list[int] = []

    def overtake() -> None:
        if inside:
            return  # Who overtakes passes the same point.
        prepared.append(len(prepared))
        inside.append(1)
        while rest:
            rest.pop(0)()
        inside.clear()

    rest = list(acts)
    with armed(POINTS[0], overtake), armed(POINTS[1], overtake):
        yield prepared


WRITES: dict[str, Callable[[Graph], object]] = {
    "upsert with its tuples": lambda graph: put(graph, "Person", person("a", age=5)),
    "upsert with a free tuple": lambda graph: put(graph, "Person", person("a", email="z@x")),
    "upsert of a new row": lambda graph: put(graph, "Person", person("n")),
    "update by key": lambda graph: mutate(graph, 'update Person set { age: 5 } where name = "a"'),
    "update by tuple": lambda graph: mutate(
        graph, 'update Person set { age: 5 } where email = "a@x"'
    ),
    "update with a free tuple": lambda graph: mutate(
        graph, 'update Person set { email: "z@x" } where name = "a"'
    ),
    "update by number": lambda graph: mutate(
        graph, "update Part set { weight: 2.0 } where number = 1"
    ),
    "insert": lambda graph: mutate(graph, 'insert Person { name: "n", email: "n@x" }'),
    "load": lambda graph: load(
        graph, '{"type": "Person", "data": {"name": "a", "email": "a@x", "age": 5}}\n'
    ),
    "edge": lambda graph: mutate(graph, 'insert Knows { from: "a", to: "b" }'),
}


@pytest.mark.parametrize("case", thinned(WRITES, keep=5))
def test_a_write_beside_changes_of_other_rows_is_prepared_once(
    graphs: Opened, graph: Graph, case: str
) -> None:
    other = graphs.open()
    theirs = (
        lambda: put(other, "Person", person("b", age=9), person("m")),
        lambda: mutate(other, 'update Person set { email: "w@x" } where name = "c"'),
        lambda: put(other, "Part", {"number": 2, "serial": 7, "weight": 2.0}),
    )
    with overtaken(*theirs) as prepared:
        WRITES[case](graph)
    assert prepared == [0]
    assert (people(graph)["b"]["age"], people(graph)["c"]["email"]) == (9, "w@x")


@pytest.mark.parametrize(
    "ours",
    [
        lambda graph, age: put(graph, "Person", person("a", age=age)),
        lambda graph, age: load(
            graph,
            f'{{"type": "Person", "data": {{"name": "a", "email": "a@x", "age": {age}}}}}\n',
        ),
    ],
    ids=["upsert", "load"],
)
def test_a_row_that_keeps_a_tuple_which_others_freed_and_took_is_refused(
    graphs: Opened, graph: Graph, ours: Callable[[Graph, int], None]
) -> None:
    """Only the one who takes it is another holder; that the row itself was changed is no matter."""
    other = graphs.open()
    free = lambda: put(other, "Person", person("a", email="free@x"))  # noqa: E731 - by its name
    with overtaken(free) as prepared:
        ours(graph, 5)
    assert prepared == [0]
    with (
        overtaken(free, lambda: put(other, "Person", person("b", email="a@x"))) as prepared,
        pytest.raises(OmnigraphError) as refused,
    ):
        ours(graph, 6)
    assert prepared == [0]
    assert "a@x" in refused.value.message
    emails = [row["email"] for row in people(graph).values()]
    assert sorted(emails) == ["a@x", "c@x", "free@x"]


TAKEN: dict[str, Callable[[Graph], object]] = {
    "upsert": lambda graph: put(graph, "Person", person("a", email="t@x")),
    "insert": lambda graph: mutate(graph, 'insert Person { name: "n", email: "t@x" }'),
    "load": lambda graph: load(graph, '{"type": "Person", "data": {"name": "n", "email": "t@x"}}'),
    "two members": lambda graph: put(graph, "Person", person("a", town="bern", street="t")),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_tuple_that_others_took_meanwhile_is_refused(
    graphs: Opened, graph: Graph, case: str
) -> None:
    other = graphs.open()
    taken = person("b", email="t@x", town="bern", street="t")
    with (
        overtaken(lambda: put(other, "Person", taken)),
        pytest.raises(OmnigraphError) as refused,
    ):
        TAKEN[case](graph)
    assert isinstance(refused.value, ConstraintViolation) or refused.value.code == "load_rejected"
    assert [row["email"] for row in people(graph).values()].count("t@x") == 1


def test_an_update_that_takes_a_tuple_which_others_took_is_a_conflict(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.open()
    with (
        overtaken(lambda: put(other, "Person", person("b", email="t@x"))),
        pytest.raises(ReadSetChanged),
    ):
        mutate(graph, 'update Person set { email: "t@x" } where name = "a"')


@pytest.mark.parametrize(
    "text",
    [
        'update Person set { age: 5 } where name = "a"',
        'update Person set { age: 5 } where email = "a@x"',
        "update Person set { age: 5 } where age < 3",
        "update Person set { age: 5 } where age > 7",
    ],
)
def test_an_update_of_rows_that_others_changed_is_a_conflict(
    graphs: Opened, graph: Graph, text: str
) -> None:
    """Also of rows that match only now, and of none that match no more."""
    other = graphs.open()
    put(graph, "Person", person("c", age=8))
    with (
        overtaken(lambda: put(other, "Person", person("a", age=9, email="y@x"))),
        pytest.raises(ReadSetChanged),
    ):
        mutate(graph, text)
    assert people(graph)["a"]["age"] == 9


def test_an_edge_asks_whether_its_ends_exist_and_not_what_they_hold(
    graphs: Opened, graph: Graph
) -> None:
    other = graphs.open()
    with overtaken(lambda: put(other, "Person", person("b", age=9))) as prepared:
        mutate(graph, 'insert Knows { from: "a", to: "b" }')
    assert prepared == [0]
    with overtaken(lambda: drop(other, "c")), pytest.raises(ConstraintViolation):
        mutate(graph, 'insert Knows { from: "a", to: "c" }')


def claims(*given: tuple[str, str | None, int | None]) -> pa.Table:
    ids, texts, numbers = zip(*given, strict=True) if given else ((), (), ())
    kinds: dict[str, pa.DataType] = {"id": pa.string(), "t": pa.string(), "n": pa.uint64()}
    return pa.table([list(ids), list(texts), list(numbers)], schema=pa.schema(kinds))


@pytest.mark.parametrize(
    ("held", "is_met"),
    [
        ([], False),
        ([("a", "x", 1)], False),
        ([("b", "x", 1)], True),
        ([("b", "x", 2)], False),
        ([("b", "y", 1)], False),
        ([("b", "x", None)], False),
        ([("b", None, 1)], False),
        ([("a", "x", 1), ("b", "y", 2)], False),
        ([("a", "y", 2)], True),
    ],
)
def test_a_tuple_is_claimed_by_one_row_alone(
    held: list[tuple[str, str | None, int | None]], *, is_met: bool
) -> None:
    assert is_claimed(claims(*held), claims(("a", "x", 1), ("b", "y", 2))) is is_met
    assert not is_claimed(claims(*held), claims())
