"""A process that makes one write, for `main` with the arguments ROOT BRANCH SCRIPT.

It prints one JSON line: its commit, or its error. `SCRIPT` may also be `none`, which only opens the
graph, `init`, which makes it, `branch` or `unbranch`, which create and delete a branch, `tag` or
`untag`, which do so with a tag, `merge`, which merges the branch `SIDE` into it, `schema`, which
applies `EVOLVED`, and `fold`, which makes a write that folds what it wrote to. The variables of the
failpoints are read as in production; `--hit` makes a point act at its n-th passage, which they
cannot say, and `--slow` makes the child pause at another point.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from tests.crash.model import EVOLVED, SCHEMA, knows, person
from tests.crash.scripts import RIVAL, Script, Step
from tests.crash.spark_loads import JOBS, join_running_java
from tests.crash.writes import WRITES, Write, commit

from omnigraph import Graph, failpoints
from omnigraph.errors import OmnigraphError
from omnigraph.graph.lifecycle import tail_folding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMING = ("branch", "unbranch", "tag", "untag")

MAINTAINING = ("index", "optimize")
"""They run on Spark where the variables of the child say so."""

SIDE = "side"
"""The branch that a child merges."""

FOLDED = Script(
    steps=(
        Step("upsert", "Person", (person("p2", 22), person("folded", 23))),
        Step("upsert", "Knows", (knows("kf", "folded", "p2", 8),)),
    )
)
"""What a child writes whose tails are folded right after it, two tables in one commit."""

ALL: Mapping[str, Write] = {**WRITES, "rival": RIVAL}


class _NthTime:
    """Acts at the n-th passage, once."""

    def __init__(self, point: str, action: failpoints.Action, hit: int) -> None:
        self._left = hit
        self._act = failpoints._act(point, action)

    def __call__(self) -> None:
        self._left -= 1
        if not self._left:
            self._act()


def run(
    arguments: Sequence[str], environ: Mapping[str, str], folder: str, out: str, err: str
) -> None:
    """The body of a forked process: its variables, its folder, and files for what it prints."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    main(arguments)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("branch")
    parser.add_argument(
        "script", choices=[*ALL, "none", "init", *NAMING, "merge", "schema", "fold"]
    )
    parser.add_argument("--actor", default="child")
    parser.add_argument("--hit", nargs=3, metavar=("POINT", "ACTION", "NUMBER"))
    parser.add_argument("--slow", nargs=2, metavar=("POINT", "MS"))
    given = parser.parse_args(arguments)
    if given.hit:
        point, action, number = given.hit
        nth = _NthTime(point, failpoints.Action(action), int(number))
        failpoints._armed[point] = nth
    if given.slow:
        point, pause_ms = given.slow
        failpoints._armed[point] = lambda: time.sleep(int(pause_ms) / 1000)
    sys.stdout.write(json.dumps(_result(given)))


def _result(given: argparse.Namespace) -> dict[str, Any]:
    try:
        if given.script == "init":
            Graph.init(given.root, schema=SCHEMA, actor=given.actor).close()
            return {"commit": None}
        with Graph.open(given.root, actor=given.actor) as graph:
            return {"commit": _act(graph, given.script, given.branch)}
    except OmnigraphError as error:
        return {"error": type(error).__name__, "message": str(error)}


def _act(graph: Graph, script: str, branch: str) -> str | None:
    match script:
        case "none":
            return None
        case "branch":
            graph.branches.create(branch)
            return None
        case "unbranch":
            graph.branches.delete(branch)
            return None
        case "tag":
            graph.tags.create(branch)
            return None
        case "untag":
            graph.tags.delete(branch)
            return None
        case "merge":
            merged = graph.branches.merge(SIDE, into=branch).commit
            return None if merged is None else merged.graph_commit_id
        case "schema":
            applied = graph.schema.apply(EVOLVED).commit
            return None if applied is None else applied.graph_commit_id
        case "fold":
            vars(tail_folding)["TIERS"] = ((1_000, 2),)  # of this process alone
            folded = commit(graph, FOLDED, branch)
            return None if folded is None else folded.graph_commit_id
        case _:
            if script in JOBS or script in MAINTAINING:
                join_running_java()
            made = commit(graph, ALL[script], branch)
            return None if made is None else made.graph_commit_id
