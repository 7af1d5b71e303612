"""Every error has one status, one exit code, one class, and comes back from its body as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.serving import ACTOR, TOKEN, serving

import omnigraph
from omnigraph import Graph, errors
from omnigraph.cli.exit_codes import EXIT_CODES, exit_code_of
from omnigraph.errors import (
    ConflictError,
    InputError,
    NotFoundError,
    OmnigraphError,
    PolicyError,
    Retry,
)
from omnigraph.graph.results.envelope import envelope_of, error_of
from omnigraph.policy import load_policy
from omnigraph.server.statuses import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from omnigraph.client import RemoteGraph
    from omnigraph.errors import JsonValue


def concrete(base: type[OmnigraphError] = OmnigraphError) -> Iterator[type[OmnigraphError]]:
    for kind in base.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from concrete(kind)


CLASSES = sorted({kind for kind in concrete() if kind.__module__ == errors.__name__}, key=str)
DETAILS: dict[str, JsonValue] = {
    "expected": "a",
    "actual": "b",
    "member": "graph_head",
    "operation_id": "01K",
    "resource": "rows",
    "limit": 1,
    "argument": "branch",
    "reason": "parameter_type",
    "parameter": "n",
}


def test_every_code_is_one_row_of_each_table() -> None:
    codes = [kind.code for kind in CLASSES]
    assert len(codes) == len(set(codes)) > 70
    assert set(codes) == set(EXIT_CODES) == set(STATUSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.code)
def test_an_error_comes_back_as_its_class_with_its_exit_code(kind: type[OmnigraphError]) -> None:
    error = kind("what went wrong", **DETAILS)
    told = envelope_of(error)
    back = error_of(STATUSES[kind.code], told)
    assert type(back) is kind
    assert (back.message, back.code, back.retry) == (error.message, error.code, error.retry)
    assert exit_code_of(back) == exit_code_of(error)
    assert envelope_of(back) == told


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.code)
def test_the_exit_code_follows_the_class_of_retry(kind: type[OmnigraphError]) -> None:
    expected = {Retry.AS_IS: {75, 130}, Retry.UNKNOWN: {7}, Retry.REBASE: {1, 4}}
    assert EXIT_CODES[kind.code] in expected.get(kind.retry, {1, 2, 6})


@pytest.mark.parametrize(
    ("status", "group"), [(400, InputError), (404, NotFoundError), (409, ConflictError)]
)
def test_a_reason_that_is_not_known_becomes_the_group_of_its_status(
    status: int, group: type[OmnigraphError]
) -> None:
    error = error_of(status, {"error": "new", "reason": "of_a_newer_server"})
    assert type(error) is group


ADD = "query add($n: String) { insert Person { name: $n } }"
AGED = "query aged($a: I64) { match { $p: Person { age: $a } } return { $p.name } }"
BAD_LINES = b'xx\n{"type":"Person","data":{"name":1}}\n{"type":"Nobody","data":{}}\n'
REFUSALS: list[Callable[[Any], object]] = [
    lambda graph: graph.query(AGED),
    lambda graph: graph.query(AGED, params={"a": "old"}),
    lambda graph: graph.query(AGED, "young"),
    lambda graph: graph.query(AGED, params={"a": 1}, branch="nowhere"),
    lambda graph: graph.query(AGED, params={"a": 1}, branch=" main "),
    lambda graph: graph.query(AGED, params={"a": 1}, snapshot="v0"),
    lambda graph: graph.query(AGED, params={"a": 1}, snapshot=99),
    lambda graph: graph.query(AGED, params={"a": 1}, snapshot=datetime(2020, 1, 1, tzinfo=UTC)),
    lambda graph: graph.mutate(ADD, params={"n": "Zoe"}, if_commit="01K0000000000000000000000A"),
    lambda graph: graph.branches.create("a b"),
    lambda graph: graph.branches.create(" padded "),
    lambda graph: graph.branches.delete("main"),
    lambda graph: graph.branches.delete("nowhere"),
    lambda graph: graph.commits.get("v0"),
    lambda graph: graph.commits.changes(0),
    lambda graph: graph.blob("node", "Person", "Ada", "photo"),
    lambda graph: graph.blob("node", "Person", "Ada", "name"),
    lambda graph: list(graph.export(types=["Nobody"])),
    lambda graph: graph.load(BAD_LINES, mode="merge"),
    lambda graph: graph.load(b'{"type":"Person","data":{"name":"Ada"}}\n', mode="append"),
    lambda graph: graph.load(b"", mode="merge", branch="nowhere"),
    lambda graph: graph.schema.apply("node Person { name: I64 @key }"),
]


@pytest.mark.parametrize("refused", REFUSALS)
def test_a_refusal_has_the_same_details_through_a_server(
    refused: Callable[[Any], object], remote: RemoteGraph, embedded: Graph
) -> None:
    with pytest.raises(OmnigraphError) as here:
        refused(embedded)
    with pytest.raises(OmnigraphError) as there:
        refused(remote)
    assert type(there.value) is type(here.value)
    assert there.value.details == here.value.details
    known = here.value.message.partition("; live branches: ")[0]
    assert there.value.message.startswith(known)


BUNDLE = """version: 1
groups: { team: [alice] }
protected_branches: [main]
rules:
  - id: drafts
    allow: { actors: { group: team }, actions: [read], branch_scope: unprotected }
"""
DENIED: list[Callable[[Any], object]] = [
    lambda graph: graph.query(AGED, params={"a": 1}),
    lambda graph: graph.query(AGED, params={"a": 1}, snapshot="v0"),
    lambda graph: graph.mutate(ADD, params={"n": "Zoe"}, branch="draft"),
    lambda graph: graph.load(b"", mode="merge"),
    lambda graph: graph.branches.list(),
    lambda graph: graph.branches.create("draft"),
    lambda graph: graph.branches.merge("draft"),
    lambda graph: graph.schema.apply("node Person { name: I64 @key }"),
    lambda graph: list(graph.export()),
]


def test_a_denial_has_the_same_details_through_a_server(tmp_path: Path, graph_path: Path) -> None:
    bundle = tmp_path / "policy.yaml"
    bundle.write_text(BUNDLE)
    policy = load_policy(bundle)
    with (
        serving({"people": graph_path}, tokens={ACTOR: TOKEN}, policies={"people": policy}) as live,
        omnigraph.connect(live.url, graph="people", token=TOKEN) as remote,
        Graph.open(graph_path, policy=policy, actor=ACTOR) as embedded,
    ):
        for refused in DENIED:
            with pytest.raises(PolicyError) as here:
                refused(embedded)
            with pytest.raises(PolicyError) as there:
                refused(remote)
            assert there.value.details == here.value.details
            assert there.value.message == here.value.message
