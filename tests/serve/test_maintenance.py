"""A server does what is due on its graphs; of several processes, one at a time does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.serving import server_process, serving

from omnigraph import Graph
from omnigraph.graph.maintenance import due
from omnigraph.graph.maintenance.reconciler import MAINTENANCE_ACTOR
from omnigraph.graph.recovery.leases import MAINTENANCE_SCOPE

if TYPE_CHECKING:
    from pathlib import Path

    from omnigraph.graph.history.commit import Commit

PEOPLE = "query n() { match { $p: Person } return { count($p) as n } }"


def fill(graph: Graph, commits: int) -> None:
    for number in range(commits):
        graph.load(b'{"type":"Person","data":{"name":"p%d"}}\n' % number, mode="append")


def maintained(graph: Graph) -> list[Commit]:
    return list(graph.commits.list(actor=MAINTENANCE_ACTOR, all=True))


def rounds_of(path: Path) -> None:
    """Serve until the first round of maintenance is over, whatever it did."""
    with serving({"default": path}, maintains=True) as live, live.client() as client:
        answer = client.post("/graphs/default/query", json={"query": PEOPLE})
        assert answer.json()["rows"] == [{"n": 5}]
        live.runtime.served.graphs["default"].graph.maintenance.stop()


def test_a_server_does_what_is_due_unless_another_process_is_at_it(
    graph_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(due, "MOST_FRAGMENTS", 3)
    with Graph.open(graph_path) as graph:
        fill(graph, 4)
        with graph._graph.leases.holding(MAINTENANCE_SCOPE), caplog.at_level("INFO"):
            rounds_of(graph_path)
        assert "maintenance left to others" in caplog.messages
        assert maintained(graph) == []
        rounds_of(graph_path)
        assert [commit.kind for commit in maintained(graph)] == ["optimize"]
        assert graph.maintenance.status().tables == ()


@pytest.mark.extended
def test_workers_that_start_together_do_it_once(graph_path: Path) -> None:
    lines = [f'{{"type":"Person","data":{{"name":"p{age}","age":{age}}}}}' for age in range(4_000)]
    with Graph.open(graph_path) as graph:
        graph.load("\n".join(lines).encode(), mode="append")
        graph.mutate("query m() { delete Person where age >= 1000 }")
        assert graph.maintenance.status().tables
    with (
        server_process(graph_path, "--workers", "2", "--unauthenticated") as server,
        # One that could write would hold on to the lease of the branch.
        Graph.open(graph_path, mode="read_only") as graph,
    ):
        while graph.maintenance.status().tables:
            graph.refresh()
        code, _, log = server.end()
        assert (code, "Traceback" in log) == (0, False), log
        assert len(maintained(graph)) == 1
