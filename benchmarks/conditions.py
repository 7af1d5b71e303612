"""What conditions, optional blocks, counts and distances cost, each beside its plainer form.

A list of 1,000 keys stands beside a take of the same rows by bare Lance, `or` of two indexed
equalities beside the two alone, an optional block beside the walk itself, a degree filter beside
the aggregate that counts the same, and `hops` beside the walk without it. Both sides are measured
in one run, in alternation, after their answers were compared. `--target` fails when a bar is
missed; only ratios mean anything from one machine to another.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from omnigraph import Graph

SCHEMA = """
node Person { handle: String @key  age: I32 @index  city: String @index }
edge Knows: Person -> Person
"""
LISTED = 1_000


@dataclass(frozen=True)
class Sizes:
    """How large the graph is, and how often each side is measured."""

    nodes: int
    edges: int
    rounds: int


FULL = Sizes(nodes=1_000_000, edges=1_000_000, rounds=15)
QUICK = Sizes(nodes=20_000, edges=50_000, rounds=5)


@dataclass(frozen=True)
class Case:
    """One form of a query beside others, and how many times as long it may take."""

    name: str
    form: Callable[[], object]
    plain: tuple[Callable[[], object], ...]
    bar: float


def make_graph(where: Path, sizes: Sizes) -> Graph:
    """A seeded graph whose edges lie among a fifth of its nodes."""
    rng = np.random.default_rng(1)
    handles = pa.array([f"u{number:07d}" for number in range(sizes.nodes)])
    ends = rng.integers(0, sizes.nodes // 5, (2, sizes.edges))
    graph = Graph.init(where, schema=SCHEMA)
    with graph.write() as write:
        ages = pa.array(rng.integers(0, sizes.nodes // 10, sizes.nodes), pa.int32())
        cities = [f"c{number}" for number in rng.integers(0, sizes.nodes // 50, sizes.nodes)]
        write.append("Person", pa.table({"handle": handles, "age": ages, "city": cities}))
        write.append(
            "Knows", pa.table({"src": handles.take(ends[0]), "dst": handles.take(ends[1])})
        )
        write.commit()
    graph.maintenance.ensure_indices()
    return graph


def cases(graph: Graph, sizes: Sizes) -> list[Case]:
    """What is measured; the sides of each were compared."""
    rng = np.random.default_rng(3)
    chosen = [int(number) for number in rng.choice(sizes.nodes, LISTED, replace=False)]
    handles = [f"u{number:07d}" for number in chosen]
    snapshot = graph.snapshot()
    table = snapshot.handle(snapshot.type("Person")).dataset

    def take() -> object:
        return table.take(chosen, columns=["handle", "age"])

    def ask(body: str, **params: object) -> Callable[[], pa.Table]:
        declared = ", ".join(f"${name}: [String]" for name in params)
        source = f"query q({declared}) {{ {body} }}"
        return lambda: graph.query(source, params=params).to_arrow()

    member = ask(
        "match { $p: Person $p.handle in $list } return { $p.handle, $p.age }", list=handles
    )
    either = ask('match { $p: Person $p.age = 5 or $p.city = "c7" } return { $p.handle }')
    ages = ask("match { $p: Person $p.age = 5 } return { $p.handle }")
    cities = ask('match { $p: Person $p.city = "c7" } return { $p.handle }')
    inner = ask("match { $p: Person $p knows $f } return { count($f) as n }")
    outer = ask("match { $p: Person optional { $p knows $f } } return { count($f) as n }")
    pairs = ask("match { $p: Person $p knows $f } return { $p, $f }")
    all_pairs = ask("match { $p: Person optional { $p knows $f } } return { $p, $f }")
    degrees = ask(
        "match { $p: Person $p knows $f } return { $p, count($f) as n } having { n >= 15 }"
    )
    filtered = ask("match { $p: Person count { $p knows $_ } >= 15 } return { $p }")
    start = f"$p.age < {max(3, sizes.nodes // 300_000)}"
    walk = ask(f"match {{ $p: Person {start} $p knows{{1,4}} $f }} return {{ $p, $f }}")
    told = ask(
        f"match {{ $p: Person {start} $p knows{{1,4}} $f }} return {{ $p, $f, hops($p, $f) as d }}"
    )
    same = {
        "a list": (member().column(0).to_pylist(), sorted(handles)),
        "an optional block": (inner(), outer()),
        "a degree": (degrees().column("p"), filtered().column("p")),
        "a distance": (walk(), told().drop_columns(["d"])),
        "or": (
            {*either().column(0).to_pylist()},
            {*ages().column(0).to_pylist(), *cities().column(0).to_pylist()},
        ),
    }
    wrong = [name for name, (one, other) in same.items() if one != other]
    if wrong:
        raise SystemExit(f"wrong answers: {', '.join(wrong)}")
    return [
        Case(f"{LISTED:,} keys in a list / take of these rows", member, (take,), 3.0),
        Case("or of two indexed equalities / the two", either, (ages, cities), 1.5),
        Case("optional, counted / the walk, counted", outer, (inner,), 5.0),
        Case("optional, as rows / the walk, as rows", all_pairs, (pairs,), 4.0),
        Case("degree filter / aggregate with having", filtered, (degrees,), 2.0),
        Case("hops over {1,4} / without", told, (walk,), 1.3),
    ]


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """The least time of either side in milliseconds; the sides take turns."""
    taken: list[list[float]] = [[], []]
    for _ in range(rounds):
        for side, calls in enumerate(((case.form,), case.plain)):
            begun = perf_counter()
            for call in calls:
                call()
            taken[side].append((perf_counter() - begun) * 1e3)
    return min(taken[0]), min(taken[1])


def main() -> int:
    """Print the table; with `--target` fail on a missed bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small graph")
    parser.add_argument("--target", action="store_true", help="fail when a bar is missed")
    options = parser.parse_args()
    sizes = QUICK if options.quick else FULL
    is_missed = False
    with (
        tempfile.TemporaryDirectory(prefix="conditions-") as folder,
        make_graph(Path(folder) / "g", sizes) as graph,
    ):
        print(f"load average {os.getloadavg()[0]:.1f}")
        for case in cases(graph, sizes):
            form, plain = measure(case, sizes.rounds)
            verdict = "" if form <= case.bar * plain else "  MISSED"
            is_missed |= bool(verdict)
            print(
                f"{case.name:46} {form:8.2f} / {plain:8.2f} ms  {form / plain:5.2f} x"
                f"  (bar {case.bar}){verdict}"
            )
    return int(options.target and is_missed)


if __name__ == "__main__":
    sys.exit(main())
