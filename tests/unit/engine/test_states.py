"""Every result is that of one committed state: beside writers, at older commits, on branches."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import (
    Opened,
    arrow,
    ask,
    compact,
    fill,
    first_of,
    index,
    put,
    remove,
    rows_of,
)

from omnigraph import Graph
from omnigraph.errors import BranchNotFound

SCHEMA = """
node Person { name: String @key  n: I32? @index  bio: String? @index  note: String?
              vec: Vector(2)? @index }
edge Knows: Person -> Person { since: I32? @index }
"""
QUERIES = {
    "scan": "query q() { match { $p: Person } return { $p.name, $p.n } }",
    "filter": "query q() { match { $p: Person $p.n >= 105 } return { $p.name } }",
    "prefix": 'query q() { match { $p: Person $p.bio starts_with "state" } return { $p.bio } }',
    "text": 'query q() { match { $p: Person search($p.bio, "fox") } return { $p } }',
    "unindexed text": 'query q() { match { $p: Person search($p.note, "fox") } return { $p } }',
    "phrase": 'query q() { match { $p: Person match_text($p.bio, "red fox") } return { $p } }',
    "fuzzy": 'query q() { match { $p: Person fuzzy($p.note, "fix", 1) } return { $p } }',
    "nearest": (
        "query q() { match { $p: Person } return { $p, nearest($p.vec, [1, 1]) as away }"
        " order { away } limit 4 }"
    ),
    "walk": "query q() { match { $p: Person $p knows{1,3} $f } return { $p, $f, $f.n } }",
    "both ways": "query q() { match { $p: Person $p <knows> $f } return { $p, $f } }",
    "edges": "query q() { match { $p: Person $p $w:knows $f } return { $p, $w.since, $f } }",
    "negation": "query q() { match { $p: Person not { $p knows $_ } } return { $p } }",
    "inner filter": (
        "query q() { match { $p: Person not { $p knows $f $f.n > 2 } } return { $p } }"
    ),
    "groups": "query q() { match { $p: Person $p knows $f } return { $p, count($f), sum($f.n) } }",
    "count": "query q() { match { $p: Person } return { count($p), sum($p.n), max($p.bio) } }",
    "join": "query q() { match { $a: Person $b: Person $a.n = $b.n } return { $a, $b } }",
}
PEOPLE = 12


def people(state: int) -> list[dict[str, Any]]:
    """All people as the state has them; each differs from every other state."""
    return [
        {
            "name": f"p{at:02}",
            "n": state * 100 + at,
            "bio": f"state{state} " + ("red fox" if (at + state) % 3 else "blue dog"),
            "note": "a fox" if (at + state) % 2 else f"note {state}",
            "vec": [1.0, float((at * 7 + state * 3) % 11) - 5.0],
        }
        for at in range(PEOPLE)
    ]


def edges(state: int) -> list[dict[str, Any]]:
    step = 1 + state % 5
    return [
        {"src": f"p{at:02}", "dst": f"p{(at * step + state) % PEOPLE:02}", "since": state}
        for at in range(state % 7, PEOPLE)
    ]


def commit_state(graph: Graph, state: int, branch: str = "main") -> str:
    with graph.write(branch) as writer:
        writer.overwrite("Person", arrow(graph, "Person", people(state)))
        writer.overwrite("Knows", arrow(graph, "Knows", edges(state)))
        commit = writer.commit()
    assert commit is not None
    return commit.graph_commit_id


def answers(
    graph: Graph, *, branch: str | None = None, snapshot: str | None = None
) -> dict[str, pa.Table]:
    return {
        name: graph.query(source, branch=branch, snapshot=snapshot).to_arrow()
        for name, source in QUERIES.items()
    }


def fresh_answers(graphs: Opened, state: int) -> dict[str, pa.Table]:
    graph = graphs.init(SCHEMA)
    commit_state(graph, state)
    return answers(graph)


def test_readers_beside_a_writer_see_exactly_one_state_each(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    states = 8
    commits = {commit_state(graph, 0): 0}
    seen: list[tuple[str, str, pa.Table]] = []
    is_over = threading.Event()

    def write() -> None:
        try:
            for state in range(1, states):
                commits[commit_state(graph, state)] = state
                if state % 3 == 0:
                    index(graph)
        finally:
            is_over.set()

    def read(offset: int) -> None:
        names = list(QUERIES)[offset:] + list(QUERIES)[:offset]
        rounds = 0
        while not (is_over.is_set() and rounds):
            rounds += 1
            for name in names:
                result = graph.query(QUERIES[name])
                seen.append((result.graph_commit_id, name, result.to_arrow()))

    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(read, offset) for offset in (0, 5, 9, 13)]
        waiting.append(pool.submit(write))
        for each in waiting:
            each.result(55)
    wanted = {state: fresh_answers(graphs, state) for state in range(states)}
    parents = {each.graph_commit_id: each.parent_commit_id for each in graph.commits}
    found_states = set()
    for commit, name, table in seen:
        # An index commit shows the state of its parent.
        state = commits[commit] if commit in commits else commits[str(parents[commit])]
        found_states.add(state)
        assert table == wanted[state][name], (state, name)
    assert len(found_states) > 1
    assert answers(graph) == wanted[states - 1]


def test_many_threads_share_what_one_has_built(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    commit_state(graph, 4)
    wanted = answers(graph)
    again = graphs.again(graph)
    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(lambda _: answers(again), range(6)):
            assert found == wanted


@pytest.mark.parametrize("mode", thinned([None, "indexed", "csr"]))
def test_an_older_commit_shows_its_own_state_for_every_kind_of_query(
    graphs: Opened, mode: str | None
) -> None:
    env = {} if mode is None else {"TRAVERSAL_MODE": mode}
    graph = graphs.init(SCHEMA, embedder=None, **env)
    recorded: dict[str, dict[str, pa.Table]] = {}

    def note() -> None:
        commit = graph.snapshot().graph_commit_id
        recorded[commit] = answers(graph)

    note()
    fill(graph, Person=people(1), Knows=edges(1))
    note()
    index(graph)
    note()
    put(graph, Person=people(5)[:5])
    note()
    remove(
        graph, Knows=[f"{each['src']}-{each['dst']}-{at}" for at, each in enumerate(edges(1))][:4]
    )
    note()
    fill(graph, Person=[{"name": "zed", "n": 1, "bio": "a red fox", "vec": [1, 1]}])
    note()
    compact(graph, "Person")
    note()
    commit_state(graph, 2)
    note()
    index(graph)
    assert len(recorded) == 8
    for commit, wanted in recorded.items():
        assert answers(graph, snapshot=commit) == wanted, commit
    other = graphs.again(graph)
    for commit, wanted in reversed(recorded.items()):
        assert answers(other, snapshot=commit) == wanted, commit
    filled = [name for name, table in recorded[list(recorded)[3]].items() if table.num_rows]
    assert set(filled) == set(QUERIES)


@pytest.mark.extended
def test_a_branch_shows_its_own_state_for_every_kind_of_query(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    commit_state(graph, 1)
    index(graph)
    on_main = answers(graph)
    graph.branches.create("work")
    assert answers(graph, branch="work") == on_main
    put(graph, branch="work", Person=people(3)[:4])
    fill(graph, branch="work", Knows=[{"id": "extra", "src": "p00", "dst": "p03", "since": 7}])
    on_work = answers(graph, branch="work")
    assert all(on_work[name] != on_main[name] for name in ("scan", "filter", "edges", "count"))
    assert answers(graph) == on_main
    graph.branches.create("work/more", from_="work")
    remove(graph, branch="work/more", Knows=["extra"])
    commit_state(graph, 6)
    assert answers(graph, branch="work") == on_work
    index(graph, "work")
    assert answers(graph, branch="work") == on_work
    assert answers(graph, branch="work/more")["edges"] != on_work["edges"]
    assert answers(graph, branch="work/more")["scan"] == on_work["scan"]
    assert answers(graph) == fresh_answers(graphs, 6)
    head = graph.snapshot(branch="work").graph_commit_id
    put(graph, branch="work", Person=people(0))
    assert answers(graph, snapshot=head) == on_work


@pytest.mark.extended
def test_a_branch_made_again_under_its_name_shows_nothing_of_the_old_one(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    commit_state(graph, 1)
    on_main = answers(graph)
    for state in (2, 3):
        graph.branches.create("again")
        assert answers(graph, branch="again") == on_main
        commit_state(graph, state, "again")
        assert answers(graph, branch="again") == fresh_answers(graphs, state)
        graph.branches.delete("again")
        with pytest.raises(BranchNotFound):
            graph.query(QUERIES["scan"], branch="again")
    assert answers(graph) == on_main


def test_a_result_names_its_commit_and_its_target(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    first = commit_state(graph, 1)
    second = commit_state(graph, 2)
    at_head = graph.query(QUERIES["scan"])
    assert at_head.graph_commit_id == second
    assert (at_head.target.branch, at_head.target.snapshot) == ("main", None)
    older = graph.query(QUERIES["scan"], snapshot=first)
    assert older.graph_commit_id == first
    assert (older.target.branch, older.target.snapshot) == (None, first)
    assert first_of(rows_of(older.to_arrow())) == [row["name"] for row in people(1)]


def test_a_handle_sees_what_another_has_committed(graphs: Opened) -> None:
    graph = graphs.init(SCHEMA)
    reader = graphs.again(graph)
    assert ask(reader, "$p: Person", "$p") == []
    commit_state(graph, 3)
    assert answers(reader) == answers(graph)
    assert ask(reader, "$p: Person", "count($p)") == [(PEOPLE,)]
