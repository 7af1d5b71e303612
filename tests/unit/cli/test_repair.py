import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.test_ensure_indices import add_person
from tests.unit.graph.maintenance.test_repair import outside

from omnigraph import Graph

Door = Callable[..., CompletedProcess[str]]


def test_it_shows_what_is_wrong_and_exits_with_one_until_it_is_repaired(
    call: Door, graph: Path
) -> None:
    add_person(graph, "Ada")
    whole = call("repair", graph)
    assert (whole.returncode, whole.stdout) == (0, "nothing to repair\n")
    with Graph.open(graph) as opened:
        outside(opened).delete("name = 'Ada'")
    shown = call("repair", graph, "--quiet")
    assert shown.returncode == 1
    assert shown.stdout.startswith("main  node:Person  foreign  3  4  -  something outside")
    left = call("repair", graph, "--quiet", "--confirm", "--json")
    assert (left.returncode, json.loads(left.stdout)["clean"]) == (1, False)
    done = call("repair", graph, "--quiet", "--confirm", "--force", "--discard", "--json")
    assert done.returncode == 0
    [table] = json.loads(done.stdout)["tables"]
    assert table == {
        "branch": "main",
        "table_key": "node:Person",
        "class": "foreign",
        "published_dataset_version": 3,
        "lance_head_version": 4,
        "action": "discarded",
        "error": None,
    }
    assert call("repair", graph).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--discard",),
        ("--force", "--discard"),
        ("--confirm", "--force"),
        ("--confirm", "--force", "--adopt", "--discard"),
    ],
)
def test_a_decision_needs_all_its_words(call: Door, graph: Path, words: tuple[str, ...]) -> None:
    result = call("repair", graph, *words)
    assert (result.returncode, result.stdout) == (2, "")
