"""Writes that change nothing, or fail, leave every table where it is."""

from pathlib import Path

import pytest
from tests.extended import thinned
from tests.unit.engine.graphs import Opened

from omnigraph import Graph
from omnigraph.errors import ConstraintViolation, KeyConflict, LoadRejected
from omnigraph.failpoints import Action, FailpointHit, armed
from omnigraph.graph.manifest.table_refs import bare_layout
from omnigraph.storage.handles import lance_branch

SCHEMA = """
node Person {
  name: String @key
  age: I32?
}
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
BRANCHES = ("own", "bare", "main")
"""`own` has written to every table, `bare` to none."""


@pytest.fixture
def graph(graphs: Opened) -> Graph:
    graph = graphs.init(SCHEMA)
    mutate(
        graph,
        'insert Person { name: "Ann", age: 1 } insert Person { name: "Bob" }'
        ' insert Person { name: "Lone" } insert City { name: "Rome" }'
        ' insert Knows { from: "Ann", to: "Bob" } insert LivesIn { from: "Bob", to: "Rome" }',
    )
    for branch in BRANCHES[:2]:
        graph.branches.create(branch)
    mutate(
        graph,
        'insert Person { name: "Own" } insert City { name: "Own" }'
        ' insert Knows { from: "Own", to: "Bob" } insert LivesIn { from: "Own", to: "Own" }',
        "own",
    )
    return graph


def mutate(graph: Graph, body: str, branch: str = "main") -> int:
    """Rows that the mutation hit."""
    result = graph.mutate(f"query m() {{ {body} }}", branch=branch)
    return result.affected_nodes + result.affected_edges


def versions(graph: Graph) -> dict[str, set[str]]:
    """The files that stand for a version, on whichever line, by the folder of the table."""
    root = Path(str(graph._graph.storage.location))
    found: dict[str, set[str]] = {}
    for kind in ("nodes", "edges"):
        for path in (root / kind).rglob("_versions/*"):
            folder, _, rest = str(path.relative_to(root / kind)).partition("/")
            found.setdefault(f"{kind}/{folder}", set()).add(rest)
    assert len(found) == 4
    return found


def require_no_drift(graph: Graph) -> None:
    """No sidecar is left, and the newest version of every table is its pin, on every line."""
    parts = graph._graph
    assert parts.sidecars.list() == []
    for branch_id in parts.lines.live_branch_ids():
        for ref, pin in parts.lines.read(branch_id).pins.items():
            if pin.branch != lance_branch(branch_id):
                continue
            layout = bare_layout(ref, pin.table_key, pin.location)
            assert parts.tables.head_version(layout, pin.branch) == pin.version, pin


def pins(graph: Graph, branch: str) -> dict[str, int]:
    return {
        each.table_key: each.published_dataset_version
        for each in graph.snapshot(branch=branch).tables
    }


HIT_NOTHING = (
    'delete Person where name = "Nobody"',
    "delete Person where age > 100",
    'delete Knows where from = "Lone"',
    'delete Person where name = "Nobody" delete LivesIn where to = "Nowhere"',
    "update Person set { age: 2 } where age > 100",
)


@pytest.mark.parametrize("branch", thinned(BRANCHES))
def test_a_mutation_that_hits_nothing_touches_no_table(graph: Graph, branch: str) -> None:
    before, head = versions(graph), graph.snapshot(branch=branch).graph_commit_id
    for body in HIT_NOTHING * 2:
        assert mutate(graph, body, branch) == 0
        assert versions(graph) == before, body
    assert graph.snapshot(branch=branch).graph_commit_id == head
    require_no_drift(graph)


@pytest.mark.parametrize("branch", thinned(BRANCHES, keep=2))
@pytest.mark.parametrize(
    ("name", "moved"),
    [("Lone", {"node:Person"}), ("Ann", {"node:Person", "edge:Knows"})],
)
def test_a_cascade_touches_only_the_edges_that_it_removes(
    graph: Graph, name: str, moved: set[str], branch: str
) -> None:
    before, files = pins(graph, branch), versions(graph)
    assert mutate(graph, f'delete Person where name = "{name}"', branch) == len(moved)
    after = pins(graph, branch)
    assert {each for each in after if after[each] != before[each]} == moved
    grown = [each for each, found in versions(graph).items() if found != files[each]]
    assert len(grown) == len(moved)
    require_no_drift(graph)


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_mutation_that_is_refused_again_and_again_touches_no_table(
    graph: Graph, branch: str
) -> None:
    before = versions(graph)
    for _ in range(3):
        with pytest.raises(ConstraintViolation):
            mutate(graph, 'insert Person { name: "X" } insert Knows { from: "X", to: "Y" }', branch)
    assert versions(graph) == before
    require_no_drift(graph)


@pytest.mark.parametrize("branch", thinned(BRANCHES))
def test_a_load_that_is_refused_again_and_again_touches_no_table(graph: Graph, branch: str) -> None:
    before = versions(graph)
    known = b'{"type":"Person","data":{"name":"Ann"}}\n{"type":"City","data":{"name":"Oslo"}}\n'
    alone = b'{"type":"Person","data":{"name":"X"}}\n'
    loose = alone + b'{"edge":"Knows","from":"X","to":"Y"}\n'
    for _ in range(3):
        with pytest.raises(KeyConflict):
            graph.load(known, mode="append", branch=branch)
        with pytest.raises(LoadRejected):
            graph.load(loose, mode="append", branch=branch)
        with pytest.raises(LoadRejected):
            graph.load(loose, mode="merge", branch=branch)
        with pytest.raises(LoadRejected):
            graph.load(alone, mode="overwrite", branch=branch)
    assert versions(graph) == before
    require_no_drift(graph)


@pytest.mark.parametrize("branch", thinned(BRANCHES, keep=2))
@pytest.mark.parametrize(
    "body",
    thinned(
        [
            'delete Person where name = "Ann"',
            'insert Person { name: "New" } insert Knows { from: "New", to: "Bob" }',
            'update Person set { age: 3 } where age = 1 insert Knows { from: "Ann", to: "Lone" }',
        ],
        keep=2,
    ),
)
def test_a_write_that_fails_half_way_again_and_again_leaves_every_head_at_its_pin(
    graph: Graph, body: str, branch: str
) -> None:
    for _ in range(3):
        before = pins(graph, branch)
        with armed("mutation.post_table_commit", Action.RAISE), pytest.raises(FailpointHit):
            mutate(graph, body, branch)
        require_no_drift(graph)
        # The version that failed and the one that took it back; a table that had not moved, one.
        after = pins(graph, branch)
        assert {after[each] - before[each] for each in after} <= {0, 1, 2}
        assert graph.snapshot(branch=branch).count("Knows") == 1 + (branch == "own")
    before = pins(graph, branch)
    assert mutate(graph, body, branch) > 0
    after = pins(graph, branch)
    assert {after[each] - before[each] for each in after} == {0, 1}
    require_no_drift(graph)
