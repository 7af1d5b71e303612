"""Many processes that want one name: a branch, or the root of a graph."""

from collections import Counter
from pathlib import Path

import pytest
from tests.extended import thinned
from tests.race import workers
from tests.race.crew import LONG_LEASE, Crew
from tests.race.pairs import SCHEMA, pairs_of, require_settled, write_pair

from omnigraph.api import Graph
from omnigraph.errors import BranchNotFound


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = tmp_path / "graph"
    Graph.init(root, schema=SCHEMA).close()
    return str(root)


@pytest.mark.parametrize("round_", thinned(range(3)))
def test_one_of_four_creators_of_a_branch_wins(root: str, tmp_path: Path, round_: int) -> None:
    gate, name = tmp_path / "gate", f"wanted-{round_}"
    with Crew(tmp_path) as crew:
        creators = [
            crew.start(f"c{number}", workers.create_branch, root, name, str(gate), **LONG_LEASE)
            for number in range(4)
        ]
        for each in creators:
            crew.await_words(each, "ready")
        gate.touch()
        assert [each.wait(30) for each in creators] == [0] * 4, [each.words() for each in creators]
    outcome = Counter(
        words[1] if words[0] == "error" else words[0]
        for each in creators
        for words in each.words("won", "error")
    )
    assert outcome == {"won": 1, "branch_exists": 3}
    [winner] = [words[1] for each in creators for words in each.words("won")]
    with Graph.open(root) as graph:
        assert [each.branch_id for each in graph.branches.list()] == ["main", winner]
        write_pair(graph, "a", branch=name)
        require_settled(graph, ["main", name])
        assert graph._graph.storage.manifest.lines() == [winner], "losers leave no line"


@pytest.mark.parametrize("round_", thinned(range(3)))
def test_one_of_two_tags_and_two_branches_of_one_name_wins(
    root: str, tmp_path: Path, round_: int
) -> None:
    gate, name = tmp_path / "gate", f"wanted-{round_}"
    with Crew(tmp_path) as crew:
        creators = [
            crew.start(f"c{number}", create, root, name, str(gate), **LONG_LEASE)
            for number, create in enumerate([workers.create_branch, workers.create_tag] * 2)
        ]
        for each in creators:
            crew.await_words(each, "ready")
        gate.touch()
        assert [each.wait(30) for each in creators] == [0] * 4, [each.words() for each in creators]
    assert sum(len(each.words("won")) for each in creators) == 1
    lost = [words[1] for each in creators for words in each.words("error")]
    with Graph.open(root) as graph:
        branches = [each.name for each in graph.branches.list()][1:]
        tags = [each.name for each in graph.tags.list()]
        assert branches + tags == [name]
        assert lost == ["branch_exists" if branches else "tag_exists"] * 3
        assert len(graph._graph.storage.manifest.lines()) == len(branches), "losers leave no line"


@pytest.mark.parametrize("round_", thinned(range(3)))
def test_a_branch_deleted_under_its_writers_is_gone_for_them(
    root: str, tmp_path: Path, round_: int
) -> None:
    gate, name = tmp_path / "gate", f"doomed-{round_}"
    with Crew(tmp_path) as crew, Graph.open(root) as graph:
        graph.branches.create(name)
        writers = [
            crew.start(
                f"w{number}",
                workers.write_branch,
                root,
                name,
                f"w{number}",
                str(gate),
                **LONG_LEASE,
            )
            for number in range(2)
        ]
        for each in writers:
            crew.await_words(each, "ready")
        gate.touch()
        for each in writers:
            crew.await_words(each, "ack")
        graph.branches.delete(name)
        assert [each.wait(30) for each in writers] == [0, 0], [each.words() for each in writers]
        told = {words[1] for each in writers for words in each.words("error")}
        assert told == {"branch_not_found"}, [each.words("error") for each in writers]
        with pytest.raises(BranchNotFound):
            graph.snapshot(branch=name)
        write_pair(graph, "after")
        assert pairs_of(graph.snapshot()) == ["after"]
        require_settled(graph)


@pytest.mark.parametrize("round_", thinned(range(3)))
def test_one_of_two_inits_of_a_root_wins(tmp_path: Path, round_: int) -> None:
    root, gate = tmp_path / f"graph-{round_}", tmp_path / "gate"
    with Crew(tmp_path) as crew:
        makers = [
            crew.start(f"m{number}", workers.init_graph, str(root), str(gate))
            for number in range(2)
        ]
        for each in makers:
            crew.await_words(each, "ready")
        gate.touch()
        assert [each.wait(30) for each in makers] == [0, 0], [each.words() for each in makers]
    won = [words[1] for each in makers for words in each.words("won")]
    lost = [words[1] for each in makers for words in each.words("error")]
    assert len(won) == 1
    assert len(lost) == 1
    assert lost[0] in ("init_in_progress", "graph_exists", "root_not_empty")
    with Graph.open(root) as graph:
        assert graph._graph.graph_id == won[0]
        write_pair(graph, "a")
        require_settled(graph)
    assert not (root / "__init_claim.json").exists()
