"""Laws that hold for the queries of any graph: what one form leaves out, another has.

The engine is asked twice or more, in both ways to walk; no model is needed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

import pytest
from tests.extended import thinned
from tests.reference.evaluator import ReferenceGraph
from tests.reference.graphs import generate_graph
from tests.reference.storing import quick, store

from omnigraph import Graph
from omnigraph.lang import NodeType, PropType

_QUICK, _SOME, _ALL = 2, 20, 200
_SEEDS = [
    *thinned(range(_SOME), keep=_QUICK),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_SOME, _ALL)),
]
Rows = list[tuple[object, ...]]


class Asked:
    """A stored graph, asked in one way to walk."""

    def __init__(self, given: ReferenceGraph, graph: Graph, seed: int) -> None:
        self.given = given
        self._graph = graph
        self.rng = Random(f"laws {seed}")  # noqa: S311 - no secret

    @property
    def nodes(self) -> list[NodeType]:
        """Types with rows."""
        known = self.given.catalog.node_types
        return [known[name] for name, rows in self.given.nodes.items() if rows]

    def list_of(self, kind: PropType, seen: Sequence[object]) -> tuple[str, list[object]]:
        """Some values that a property has, and now and then a fraction; and their type."""
        known = [value for value in seen if value is not None]
        chosen = self.rng.sample(known, min(len(known), self.rng.choice((0, 1, 3))))
        if kind.scalar.is_numeric and self.rng.random() < 0.5:
            return "F64", [*(float(str(value)) for value in chosen), 0.5, -0.0]
        return kind.scalar.value, chosen

    def rows(self, body: str, declared: str = "", **params: object) -> Rows:
        """The rows of a query, in their order."""
        answer = self._graph.query(f"query q({declared}) {{ {body} }}", params=params)
        columns = [_spelt(column.to_pylist()) for column in answer.to_arrow().columns]
        return list(zip(*columns, strict=True))

    def walks(self) -> Iterator[tuple[str, str]]:
        """A type, and a walk from it over each edge."""
        for name, edge in self.given.catalog.edge_types.items():
            bounds = self.rng.choice(("", "{1,2}")) if edge.from_type == edge.to_type else ""
            yield edge.from_type, f"$a {name[0].lower()}{name[1:]}{bounds} $b"


def _spelt(values: list[object]) -> list[object]:
    """Values that a set can hold."""
    return [tuple(value) if isinstance(value, list) else value for value in values]


@pytest.fixture(params=_SEEDS)
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Asked]]:
    seed: int = request.param
    given = generate_graph(seed)
    store(given, tmp_path / "g", commits=1 + seed % 3, seed=seed).close()
    with ExitStack() as opened:
        yield [
            Asked(
                given,
                opened.enter_context(
                    Graph.open(
                        tmp_path / "g", mode="read_only", settings=quick(TRAVERSAL_MODE=mode)
                    )
                ),
                seed,
            )
            for mode in ("indexed", "csr")
        ]


def test_in_a_list_not_in_it_and_null_are_all_rows(asked: list[Asked]) -> None:
    for each in asked:
        for node in each.nodes:
            every = Counter(each.rows(f"match {{ $a: {node.name} }} return {{ $a }}"))
            plain = [item for item in node.properties.items() if item[1].type.is_plain]
            for name, declared in each.rng.sample(plain, min(3, len(plain))):
                seen = [row[name] for row in each.given.nodes[node.name]]
                kind, values = each.list_of(declared.type, seen)
                tests = [
                    f"$a.{name} in $list",
                    f"$a.{name} not in $list",
                    f"$a.{name} is null",
                    f"not ($a.{name} in $list)",
                ]
                found = [
                    Counter(
                        each.rows(
                            f"match {{ $a: {node.name} {test} }} return {{ $a }}",
                            f"$list: [{kind}]",
                            list=values,
                        )
                    )
                    for test in tests
                ]
                assert found[1] == found[3], tests
                assert found[0] + found[1] + found[2] == every, (node.name, name, values)


@dataclass(frozen=True)
class _Condition:
    """A condition, and what says that it is false, and that it is unknown."""

    holds: str
    fails: str
    unknown: str


def _drawn(each: Asked, node: NodeType, depth: int) -> _Condition:
    """A random condition on `$a`; when it is unknown is spelt out by tests for null."""
    if not depth:
        return _compared(each, node)
    word = each.rng.choice(("not", "and", "or"))
    one = _drawn(each, node, depth - 1)
    if word == "not":
        return _Condition(f"not ({one.holds})", one.holds, one.unknown)
    two = _drawn(each, node, depth - 1)
    holds = f"({one.holds}) {word} ({two.holds})"
    # With an unknown side the whole is unknown, unless the other side decides it.
    first, second = (one.holds, two.holds) if word == "and" else (one.fails, two.fails)
    unknown = (
        f"({one.unknown}) and ({two.unknown}) or ({one.unknown}) and ({second})"
        f" or ({first}) and ({two.unknown})"
    )
    return _Condition(holds, f"not ({holds})", unknown)


_NUMBERS = ("$a.{0} > 1", "$a.{0} in [0, 1, 2.5]", "$a.{0} <= $a.{1}", "$a.{0} / 2 != $a.{1}")
_TEXTS = ('$a.{0} >= "b"', '$a.{0} not in ["a", "ab", ""]', "$a.{0} < $a.{1}", "length($a.{0}) > 1")
_LISTS = ('"a" in $a.{0}', '"b" not in $a.{0}', "length($a.{0}) = 1")


def _compared(each: Asked, node: NodeType) -> _Condition:
    types = [(name, item.type) for name, item in node.properties.items()]
    kinds = [
        (_NUMBERS, [name for name, kind in types if kind.is_plain and kind.scalar.is_numeric]),
        (_TEXTS, [name for name, kind in types if kind.is_text and kind.enum_values is None]),
        (_LISTS, [name for name, kind in types if kind.is_list and kind.item.is_text]),
    ]
    forms, known = each.rng.choice([(forms, known) for forms, known in kinds if known])
    form = each.rng.choice(forms)
    names = [each.rng.choice(known) for _ in range(form.count("{"))]
    holds = form.format(*names)
    return _Condition(holds, f"not ({holds})", " or ".join(f"$a.{name} is null" for name in names))


def test_a_condition_its_negation_and_the_unknown_are_all_rows(asked: list[Asked]) -> None:
    for each in asked:
        for node in each.nodes:
            every = Counter(each.rows(f"match {{ $a: {node.name} }} return {{ $a }}"))
            for depth in (1, 2):
                drawn = _drawn(each, node, depth)
                parts = [
                    Counter(each.rows(f"match {{ $a: {node.name} {test} }} return {{ $a }}"))
                    for test in (drawn.holds, f"not ({drawn.holds})", drawn.unknown)
                ]
                assert sum(parts, Counter()) == every, (node.name, drawn)


def test_optional_rows_without_the_empty_ones_are_the_rows_of_the_walk(asked: list[Asked]) -> None:
    for each in asked:
        for start, walk in each.walks():
            head = f"match {{ $a: {start}"
            inner = each.rows(f"{head} {walk} }} return {{ $a, $b }}")
            outer = each.rows(f"{head} optional {{ {walk} }} }} return {{ $a, $b }}")
            assert Counter(row for row in outer if row[1] is not None) == Counter(inner)
            alone = {row[0] for row in outer if row[1] is None}
            every = {row[0] for row in each.rows(f"{head} }} return {{ $a }}")}
            assert alone == every - {row[0] for row in inner}
            counted = f"{head} optional {{ {walk} }} }} return {{ count($b) as n, count($a) as m }}"
            assert each.rows(counted) == [(len(inner), len(outer))]


def test_what_exists_and_what_does_not_are_all_rows(asked: list[Asked]) -> None:
    for each in asked:
        for start, walk in each.walks():
            head = f"match {{ $a: {start}"
            every = each.rows(f"{head} }} return {{ $a }}")
            found = each.rows(f"{head} exists {{ {walk} }} }} return {{ $a }}")
            rest = each.rows(f"{head} not {{ {walk} }} }} return {{ $a }}")
            assert Counter(found) + Counter(rest) == Counter(every)
            counted = each.rows(f"{head} count {{ {walk} }} > 0 }} return {{ $a }}")
            assert counted == found


def test_pages_one_after_the_other_are_the_whole_result(asked: list[Asked]) -> None:
    for each in asked:
        for node in each.nodes:
            key = each.rng.choice(
                [name for name, item in node.properties.items() if item.type.is_plain]
            )
            body = (
                f"match {{ $a: {node.name} }} return {{ $a, $a.{key} }} order {{ $a.{key} desc }}"
            )
            whole = each.rows(body)
            size = each.rng.choice((1, 2, 3))
            pages = [
                each.rows(f"{body} limit {size} offset {start}")
                for start in range(0, len(whole) + size, size)
            ]
            assert [row for page in pages for row in page] == whole
            assert each.rows(f"{body} offset 1") == whole[1:]


def test_distinct_rows_are_the_groups_by_all_columns(asked: list[Asked]) -> None:
    for each in asked:
        for node in each.nodes:
            plain = [name for name, item in node.properties.items() if item.type.is_plain]
            chosen = each.rng.sample(plain, min(2, len(plain)))
            columns = ", ".join([*(f"$a.{name}" for name in chosen), "type($a) as t"])
            head = f"match {{ $a: {node.name} }} return"
            groups = each.rows(f"{head} {{ {columns}, count($a) as n }}")
            assert each.rows(f"{head} distinct {{ {columns} }}") == [row[:-1] for row in groups]
