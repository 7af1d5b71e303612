"""What the first read after a write costs, beside the same read when nothing was written.

On the seeded social graph of `people.py`: a new edge, a new person and a changed person, each as
one commit, and after each a lookup by key, a walk of two hops and a walk with a filter. Both kinds
of read alternate in one run. Processor time leaves out what other programs took; `--target` fails
when a bar is missed.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.people import SIZES, Size, generate

from omnigraph import Graph

QUERIES = """
query lookup($h: String) { match { $p: Person { handle: $h } } return { $p.name, $p.city, $p.age } }
query hops($h: String) {
  match { $p: Person { handle: $h }  $p knows{1,2} $f } return { count($f) as reached }
}
query filtered($h: String) {
  match { $p: Person { handle: $h }  $p knows $a  $a knows $f  $f.age > 60 } return { $f.handle }
}
query edge($a: String, $b: String) { insert Knows { from: $a, to: $b } }
query person($h: String, $n: I64) {
  insert Person { handle: $h, num: $n, name: "x y", city: "Rome"EXTRA }
}
query change($h: String) { update Person set { age: 44 } where handle = $h }
"""
READS = ("lookup", "hops", "filtered")
BAR = 2.0


class Times(NamedTuple):
    """Milliseconds of one call."""

    wall: float
    processor: float


def timed(call: Callable[[], object]) -> Times:
    """How long a call takes."""
    started, worked = perf_counter(), process_time()
    call()
    return Times((perf_counter() - started) * 1e3, (process_time() - worked) * 1e3)


def median(times: list[Times]) -> Times:
    """The median of each figure."""
    walls, works = zip(*times, strict=True)
    return Times(statistics.median(walls), statistics.median(works))


def make_graph(where: Path, size: Size) -> Graph:
    """The graph of a size, with its indexes."""
    people = generate(size)
    graph = Graph.init(where, schema=size.schema)
    with graph.write() as write:
        write.append("Person", people.persons)
        write.append("Company", people.companies)
        write.append("Knows", people.knows)
        write.append("WorksAt", people.works_at)
        write.commit()
    graph.maintenance.ensure_indices()
    return graph


def handle(number: int, size: Size) -> str:
    """The key of some person."""
    return f"p{number * 7919 % size.persons:07d}"


def measure(graph: Graph, size: Size, rounds: int) -> list[tuple[str, Times, Times]]:
    """By write and read: the read right after it, and the one after that."""
    extra = ', bio: "some words", embedding: $e' if size.is_searched else ""
    source = QUERIES.replace("EXTRA", extra)
    vector: dict[str, object] = {"e": [0.1] * 64} if size.is_searched else {}
    if vector:
        source = source.replace("$n: I64)", "$n: I64, $e: Vector(64))")

    def read(name: str, number: int) -> Times:
        return timed(lambda: graph.query(source, name, {"h": handle(number, size)}))

    writes: dict[str, Callable[[int], object]] = {
        "a new edge": lambda number: graph.mutate(
            source, "edge", {"a": handle(number, size), "b": handle(number + 1, size)}
        ),
        "a new person": lambda number: graph.mutate(
            source, "person", {"h": f"z{number:07d}", "n": size.persons + number, **vector}
        ),
        "a changed person": lambda number: graph.mutate(
            source, "change", {"h": handle(number, size)}
        ),
    }
    for name in READS:
        for number in range(400):
            read(name, number)
    figures: list[tuple[str, Times, Times]] = []
    number = 0
    for what, write in writes.items():
        for name in READS:
            first: list[Times] = []
            warm: list[Times] = []
            for _ in range(rounds):
                number += 1
                write(number)
                first.append(read(name, number * 3))
                read(name, number * 5)
                warm.append(read(name, number * 7))
            figures.append((f"{name} after {what}", median(first), median(warm)))
    return figures


def main() -> int:
    """Measure and print; 1 if `--target` was asked for and missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=[*SIZES], default="s")
    parser.add_argument("--quick", action="store_true", help="the smallest size, few rounds")
    parser.add_argument("--target", action="store_true", help=f"fail above {BAR} x")
    options = parser.parse_args()
    size = SIZES["xs" if options.quick else options.size]
    with tempfile.TemporaryDirectory() as folder:
        graph = make_graph(Path(folder) / "people.omni", size)
        figures = measure(graph, size, 5 if options.quick else 15)
        graph.close()
    print(f"{size.persons:,} persons, {size.knows:,} edges; load average {os.getloadavg()[0]:.1f}")
    missed = 0
    for name, first, warm in figures:
        ratio = first.processor / warm.processor
        missed += ratio > BAR
        print(
            f"{name:28} {first.wall:8.2f} ms after, {warm.wall:7.2f} ms warm; processor"
            f" {first.processor:7.2f} and {warm.processor:6.2f} ms, {ratio:5.1f} x (bar {BAR} x)"
        )
    return 1 if options.target and missed else 0


if __name__ == "__main__":
    sys.exit(main())
