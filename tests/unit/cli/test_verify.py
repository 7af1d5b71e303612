import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from tests.unit.cli.test_ensure_indices import add_person
from tests.unit.graph.maintenance.test_repair import outside

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


def test_it_exits_with_zero_only_if_nothing_is_wrong(call: Door, graph: Path) -> None:
    add_person(graph, "Ada")
    whole = call("verify", graph, "--deep")
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.splitlines() == [
        "branches  main",
        "tables    2",
        "rows      1",
        "problems  0",
    ]
    with Graph.open(graph) as opened:
        outside(opened).delete("name = 'Ada'")
    broken = call("verify", graph)
    assert broken.returncode == 1
    assert "main  node:Person  drift  1  version 3 is pinned and 4 is the newest" in broken.stdout
    body = json.loads(call("verify", graph, "--json", "--branch", "main").stdout)
    assert (body["sound"], body["problems"][0]["check"]) == (False, "drift")
    assert set(body) == {"sound", "deep", "branches", "tables", "rows", "problems", "notes"}
