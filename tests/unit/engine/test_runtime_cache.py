"""What queries keep between them: by table version, within bounds, built once."""

import threading
from dataclasses import dataclass

import pyarrow as pa
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.engine.runtime_cache import LruCache, TableVersion

SCHEMA = "node N { name: String @key }\nedge E: N -> N"
WALK = "query q() { match { $a: N  $a e $b } return { $a, $b } }"


@dataclass(frozen=True)
class Entry:
    nbytes: int


def test_the_least_recently_used_goes_first_by_number_and_by_bytes() -> None:
    cache: LruCache[Entry] = LruCache(most_entries=2, most_bytes=10)
    first = cache.obtain("a", lambda: Entry(1))
    cache.obtain("b", lambda: Entry(1))
    assert cache.peek("a") is first
    cache.obtain("c", lambda: Entry(1))
    assert cache.peek("b") is None
    cache.obtain("d", lambda: Entry(9))
    assert cache.peek("a") is None
    assert cache.peek("d") == Entry(9)


def test_an_entry_above_the_budget_is_given_and_not_kept() -> None:
    cache: LruCache[Entry] = LruCache(most_entries=2, most_bytes=10)
    cache.obtain("small", lambda: Entry(1))
    assert cache.obtain("large", lambda: Entry(11)) == Entry(11)
    assert cache.peek("large") is None
    assert cache.peek("small") is not None


def test_threads_that_want_the_same_entry_build_it_once() -> None:
    cache: LruCache[Entry] = LruCache(most_entries=2, most_bytes=10)
    built: list[int] = []
    gate = threading.Barrier(8)

    def build() -> Entry:
        built.append(1)
        return Entry(1)

    def ask() -> None:
        gate.wait()
        cache.obtain("a", build)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]


def test_a_build_that_fails_is_tried_again() -> None:
    cache: LruCache[Entry] = LruCache(most_entries=2, most_bytes=10)

    def fail() -> Entry:
        raise ValueError("no")

    for _ in range(2):
        try:
            cache.obtain("a", fail)
        except ValueError:
            continue
    assert cache.obtain("a", lambda: Entry(1)) == Entry(1)


def _fill(graph: Graph, *names: str) -> None:
    with graph.write() as write:
        write.append("N", pa.table({"name": list(names)}))
        write.append("E", pa.table({"src": [names[0]], "dst": [names[-1]]}))
        write.commit()


def _topology(graph: Graph, branch: str = "main") -> object:
    snapshot = graph.snapshot(branch=branch)
    version = TableVersion.of(snapshot.handle(snapshot.type("E")))
    return graph._engine.caches.topologies.peek(version)


def test_a_branch_shares_the_topology_until_it_writes(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA, TRAVERSAL_MODE="csr")
    _fill(graph, "a", "b")
    assert len(graph.query(WALK)) == 1
    graph.branches.create("side")
    kept = _topology(graph)
    assert kept is not None
    assert _topology(graph, "side") is kept
    with graph.write("side") as write:
        write.append("E", pa.table({"src": ["b"], "dst": ["b"]}))
        write.commit()
    assert _topology(graph, "side") is None
    assert len(graph.query(WALK, branch="side")) == 2
    assert len(graph.query(WALK)) == 1
    assert _topology(graph) is kept


def test_closing_drops_what_was_kept(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA, TRAVERSAL_MODE="csr")
    _fill(graph, "a", "b")
    graph.query(WALK)
    caches = graph._engine.caches
    graph.close()
    assert not caches.topologies._entries
    assert not caches.types._entries
