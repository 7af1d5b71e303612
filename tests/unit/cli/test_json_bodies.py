"""The JSON of a command on a graph is the body of the HTTP contract."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.declared import differences, model
from tests.unit.cli.test_served_parity import ADD, ALL, LINES, SCHEMA

from omnigraph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.unit.cli.conftest import Result

BODIES: Sequence[tuple[str, Sequence[str]]] = (
    ("ReadOutput", ("query", "-e", ALL)),
    ("ExplainOutput", ("explain", "-e", ALL)),
    ("SnapshotOutput", ("snapshot",)),
    ("SchemaOutput", ("schema", "show")),
    ("SchemaPlanOutput", ("schema", "plan", "--schema", "SCHEMA")),
    ("BranchListOutput", ("branch", "list")),
    ("TagListOutput", ("tag", "list")),
    ("CommitListOutput", ("commit", "list")),
    ("CommitOutput", ("commit", "show", "1")),
    ("CommitChangesOutput", ("commit", "changes", "1")),
    ("ChangeFeedOutput", ("changes", "poll", "--start", "beginning")),
    ("DiffOutput", ("diff", "main", "side")),
    ("BranchMergePlanOutput", ("branch", "merge", "side", "--dry-run")),
    ("ChangeOutput", ("mutate", "-e", ADD)),
    ("GraphBatchLoadOutput", ("load", "--data", "DATA", "--mode", "merge")),
    ("GraphBatchLoadOutput", ("ingest", "--data", "DATA")),
    ("BranchCreateOutput", ("branch", "create", "other")),
    ("BranchMergeOutput", ("branch", "merge", "side")),
    ("BranchDeleteOutput", ("branch", "delete", "other")),
    ("TagOutput", ("tag", "create", "v1", "--at", "1")),
    ("TagDeleteOutput", ("tag", "delete", "v1")),
    ("CommitRevertOutput", ("commit", "revert", "2")),
    ("BranchDeleteOutput", ("branch", "delete", "side")),
    ("SchemaApplyOutput", ("schema", "apply", "--schema", "SCHEMA")),
)
"""The commands in an order in which each one finds what it needs, with the name of the body."""

OTHERWISE = {
    # What ties a plan to its schema is for a client, which applies it later.
    "schema plan": [".schema_from is missing"],
    # Commands that write tell where.
    "tag create": [".uri is not declared"],
}


def test_every_command_that_has_a_route_prints_the_body_of_it(
    call: Callable[..., Result], tmp_path: Path
) -> None:
    store = tmp_path / "people.omni"
    with Graph.init(store, schema=SCHEMA) as graph:
        graph.load(LINES, mode="append")
        graph.mutate('query m() { insert Person { name: "Max" } }')
        graph.branches.create("side")
        graph.mutate('query m() { insert Person { name: "Zoe" } }', branch="side")
    (tmp_path / "data.ndjson").write_bytes(LINES)
    (tmp_path / "new.pg").write_text(SCHEMA)
    files = {"DATA": str(tmp_path / "data.ndjson"), "SCHEMA": str(tmp_path / "new.pg")}
    wrong: dict[str, list[str]] = {}
    for name, words in BODIES:
        told = call(*(files.get(word, word) for word in words), "--json", "--store", store)
        assert told.returncode == 0, (words, told.stderr)
        found = list(differences(model(name), json.loads(told.stdout)))
        wrong |= {" ".join(words[:2]): found} if found else {}
    assert wrong == OTHERWISE
