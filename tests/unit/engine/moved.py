"""A small graph of two node types, reads that walk it, and writes that change it a little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from tests.unit.engine.graphs import Opened

    from omnigraph import Graph

SCHEMA = """
node N { name: String @key  age: I64? }
node C { name: String @key }
edge E: N -> N
edge W: N -> C
"""
QUERIES = """
query hops() { match { $a: N  $a e{1,2} $b } return { $a, $b } }
query back() { match { $a: N  $b e $a } return { $a, count($b) as n } }
query either() { match { $a: N  $b: N { name: "n2" }  $a <e> $b } return { $a } }
query work() { match { $a: N  $a w $c } return { $a, $c, $a.age } }
query idle() { match { $a: N  not { $a w $_ } } return { $a } }
query one($name: String) { match { $a: N { name: $name } } return { $a.age } }
query ages() { match { $a: N } return { $a.age, count($a) as n } }
query grown() { match { $a: N  $a.age > 3  $a e $b } return { $a, $b.age, $b.name } }
query add($name: String, $age: I64) { insert N { name: $name, age: $age } }
query put($name: String, $age: I64) { update N set { age: $age } where name = $name }
query drop($name: String) { delete N where name = $name }
query tie($a: String, $b: String) { insert E { from: $a, to: $b } }
query hire($a: String, $b: String) { insert W { from: $a, to: $b } }
query cut($a: String) { delete E where from = $a }
query fire($a: String) { delete W where from = $a }
"""
READS = ("hops", "back", "either", "work", "idle", "ages", "grown")
NAMES = tuple(f"n{number}" for number in range(8))


def filled(graphs: Opened, *, column_bytes: str = "1000000") -> Graph:
    """A graph whose walks are kept in memory."""
    graph = graphs.init(
        SCHEMA, TRAVERSAL_MODE="csr", AUTO_MAINTENANCE="1", COLUMN_CACHE_BYTES=column_bytes
    )
    with graph.write() as write:
        write.append("N", pa.table({"name": list(NAMES[:5]), "age": [1, 2, 3, 4, 5]}))
        write.append("C", pa.table({"name": ["c0", "c1"]}))
        write.append("E", pa.table({"src": ["n0", "n0", "n1"], "dst": ["n1", "n1", "n2"]}))
        write.append("W", pa.table({"src": ["n0"], "dst": ["c0"]}))
        write.commit()
    ask(graph, "main")
    return graph


def ask(graph: Graph, branch: str) -> list[list[dict[str, Any]]]:
    """The answers of all reads."""
    answers = [graph.query(QUERIES, name, branch=branch).to_dicts() for name in READS]
    named = [graph.query(QUERIES, "one", {"name": name}, branch=branch) for name in NAMES]
    return [*answers, *(rows.to_dicts() for rows in named)]
