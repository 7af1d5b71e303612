"""An init that dies leaves no graph, or a whole one; the place can be used either way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.crash.checks import content_of, open_graph, settings
from tests.crash.model import SCHEMA
from tests.crash.processes import Trap, run_child
from tests.crash.scripts import SEED
from tests.crash.writes import commit, play_all

from omnigraph import Graph
from omnigraph.errors import GraphExists, GraphNotFound, InitInProgress

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crash

EMPTY = play_all()


def require_usable(root: Path) -> None:
    with open_graph(root) as graph:
        assert content_of(graph, "main") == EMPTY
        for script in SEED:
            commit(graph, script)
        assert content_of(graph, "main") == play_all(*SEED)


@pytest.mark.parametrize("point", ["init.post_claim", "init.post_schema", "init.post_table_create"])
def test_an_init_that_dies_before_its_manifest_leaves_no_graph(point: str, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    ended = run_child(root, "main", "init", Trap(point=point, action="kill"))
    assert ended.was_killed, ended
    with pytest.raises(GraphNotFound):
        Graph.open(root, mode="read_only", settings=settings())
    with pytest.raises(InitInProgress):
        Graph.init(root, schema=SCHEMA, settings=settings())
    Graph.init(root, schema=SCHEMA, force=True, settings=settings()).close()
    require_usable(root)


@pytest.mark.parametrize("point", ["init.manifest_ack_lost", "init.post_manifest_pre_unclaim"])
def test_an_init_that_dies_after_its_manifest_leaves_a_graph(point: str, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    ended = run_child(root, "main", "init", Trap(point=point, action="kill"))
    assert ended.was_killed, ended
    with pytest.raises(GraphExists):
        Graph.init(root, schema=SCHEMA, force=True, settings=settings())
    with Graph.open(root, mode="read_only", settings=settings()) as graph:
        assert content_of(graph, "main") == EMPTY
    require_usable(root)


def test_an_init_whose_answer_was_lost_has_made_the_graph(tmp_path: Path) -> None:
    root = tmp_path / "graph"
    trap = Trap(point="init.manifest_ack_lost", action="raise")
    ended = run_child(root, "main", "init", trap)
    assert ended.result == {"commit": None}, ended
    require_usable(root)
