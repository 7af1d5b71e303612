import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.unit.cli.test_ensure_indices import add_person

Door = Callable[..., CompletedProcess[str]]


def test_it_shows_what_would_go_and_removes_it_only_when_confirmed(
    call: Door, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_person(graph, "Ada")
    monkeypatch.chdir(graph.parent)
    shown = call("cleanup", graph.name, "--keep", "1")
    assert shown.returncode == 0
    assert shown.stdout.splitlines() == ["node:Person  0  0 B  -"]
    assert shown.stderr == (
        "warning: keep=1 acts as 3: a recovery may need those versions\n"
        "nothing was removed; --confirm removes it\n"
    )
    done = call("cleanup", graph.name, "--keep", "5", "--older-than", "7d", "--confirm", "--json")
    assert (done.returncode, done.stderr) == (
        0,
        "omnigraph cleanup → people.omni (direct, local)\n",
    )
    assert json.loads(done.stdout) == {
        "confirmed": True,
        "keep": 5,
        "older_than_s": 604800.0,
        "tables": [
            {
                "table_key": "node:Person",
                "bytes_removed": 0,
                "old_versions_removed": 0,
                "error": None,
            }
        ],
        "leftovers": [],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "--keep N, --older-than AGE, or both"),
        (("--older-than", "soon"), 1, "a number and a unit"),
        (("--keep", "-1"), 2, "--keep"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    call: Door, graph: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    result = call("cleanup", graph, *words)
    assert (result.returncode, result.stdout) == (code, "")
    assert told in result.stderr
