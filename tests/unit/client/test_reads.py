"""What is read through a server equals what is read from an open graph."""

from __future__ import annotations

import inspect
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.client import RemoteGraph, calls
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    GraphNotFound,
    InvalidArgument,
    NotServed,
    OmnigraphError,
    ParameterError,
    QueryInvalid,
    ServerUnavailable,
    StoredQueryNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.serving import LiveServer

    from omnigraph import Graph

ALL = (
    "query all() { match { $p: Person } return { $p, $p.name, $p.age, $p.born, $p.seen,"
    " $p.weights } order { $p.name } }"
)
ADD = "query add($n: String) { insert Person { name: $n } }"
BORN = (
    "query born($d: Date, $t: DateTime?, $a: I64?) { match { $p: Person { born: $d } }"
    " return { $p.name } }"
)


def test_rows_have_the_types_and_values_of_an_open_graph(
    remote: RemoteGraph, embedded: Graph
) -> None:
    ours, theirs = remote.query(ALL), embedded.query(ALL)
    assert ours.to_arrow().equals(theirs.to_arrow())
    assert ours.schema == theirs.schema
    assert ours.to_json() == theirs.to_json()
    assert (ours.query_name, ours.target, ours.graph_commit_id) == (
        theirs.query_name,
        theirs.target,
        theirs.graph_commit_id,
    )


def test_a_prepared_query_is_asked_of_the_server(remote: RemoteGraph, embedded: Graph) -> None:
    ours, theirs = remote.prepare(ALL), embedded.prepare(ALL)
    assert (ours.name, ours.source) == (theirs.name, theirs.source) == ("all", ALL)
    assert ours().to_arrow().equals(theirs().to_arrow())
    assert len(ours(snapshot=0)) == 0
    with pytest.raises(BranchNotFound):
        ours(branch="none")
    with pytest.raises(QueryInvalid):
        remote.prepare("query q( {")


def test_an_empty_result_keeps_its_columns(remote: RemoteGraph, embedded: Graph) -> None:
    source = 'query none() { match { $p: Person { name: "-" } } return { $p.name, $p.age } }'
    assert remote.query(source).schema == embedded.query(source).schema
    assert remote.query(source).to_dicts() == []


def test_parameters_are_python_values(remote: RemoteGraph) -> None:
    params = {"d": date(1815, 12, 10), "t": datetime(2026, 1, 1, tzinfo=UTC), "a": 2**60}
    assert remote.query(BORN, params=params).to_dicts() == [{"p.name": "Ada"}]


def test_older_states_are_read_by_every_name(remote: RemoteGraph, embedded: Graph) -> None:
    assert remote.snapshot().graph_commit_id == embedded.snapshot().graph_commit_id
    assert remote.snapshot().tables == embedded.snapshot().tables
    before = embedded.snapshot(0)
    for name in (0, before.graph_commit_id, before.resolved_snapshot):
        assert len(remote.query(ALL, snapshot=name)) == 0
        assert remote.snapshot(name).graph_commit_id == before.graph_commit_id
    assert remote.snapshot(0).tables == before.tables


def test_a_served_graph_tells_the_ids_of_keys(remote: RemoteGraph) -> None:
    assert omnigraph.key(remote, "Person", {"name": "Ada"}) == "Ada"
    with pytest.raises(InvalidArgument, match="not by RemoteSnapshot; give the graph"):
        omnigraph.key(remote.snapshot(), "Person", {"name": "Ada"})  # type: ignore[arg-type]


def test_the_schema_is_the_accepted_one(remote: RemoteGraph, embedded: Graph) -> None:
    assert remote.schema.source == embedded.schema.source
    assert remote.schema.show() == embedded.schema.show()
    assert remote.schema.hash == embedded.schema.hash


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda graph: graph.query("query q() { match"), QueryInvalid),
        (lambda graph: graph.query(BORN), ParameterError),
        (lambda graph: graph.query(BORN, params={"d": "x"}), ParameterError),
        (lambda graph: graph.query(ALL, branch="side"), BranchNotFound),
        (lambda graph: graph.query(ALL, snapshot="nothing"), CommitNotFound),
        (lambda graph: graph.query(ALL, branch="main", snapshot="x"), InvalidArgument),
        (lambda graph: graph.query(None), InvalidArgument),
        (lambda graph: graph.query(ALL, params=[]), InvalidArgument),
        *(
            (lambda graph, state=state: graph.diff(state, "main"), InvalidArgument)
            for state in (None, True, 1.5)
        ),
        (lambda graph: graph.commits.get(None), InvalidArgument),
        (lambda graph: graph.query(ALL, snapshot=True), InvalidArgument),
        (lambda graph: graph.snapshot(branch=None), InvalidArgument),
        (lambda graph: graph.branches.merge(None), InvalidArgument),
        (lambda graph: graph.branches.merge("main", into=None), InvalidArgument),
        (lambda graph: graph.mutate(ADD, params={"n": "Zoe"}, branch=None), InvalidArgument),
        *(
            (lambda graph, name=name: graph.queries.invoke(name), StoredQueryNotFound)
            for name in (".", "..", "", "a/b", "../schema", "none/if-graph-commit")
        ),
    ],
)
def test_a_refusal_is_the_same_error(
    remote: RemoteGraph,
    embedded: Graph,
    ask: Callable[[RemoteGraph | Graph], object],
    kind: type[OmnigraphError],
) -> None:
    errors = []
    for graph in (remote, embedded):
        with pytest.raises(kind) as caught:
            ask(graph)
        errors.append(caught.value)
    assert errors[0].code == errors[1].code
    assert errors[0].message == errors[1].message


def test_what_needs_storage_says_what_to_use_instead(remote: RemoteGraph) -> None:
    for ask in (
        lambda: remote.maintenance,
        remote.write,
        remote.pipeline,
        lambda: remote.as_actor("x"),
        remote.warm,
        lambda: remote.system("manifest"),
        lambda: remote.snapshot().scan("Person"),
        lambda: remote.query(ALL, executor="spark"),
        lambda: remote.load(b"", mode="merge", if_commit="x"),
        lambda: remote.load(b"", mode="merge", engine="spark"),
        lambda: remote.load(b"", mode="merge", dry_run=True),
        lambda: remote.load({"Person": pa.table({"name": []})}, mode="overwrite"),
    ):
        with pytest.raises(NotServed, match="not available on a remote graph; "):
            ask()


def test_every_option_of_a_load_is_known_to_remote_graphs(remote: RemoteGraph) -> None:
    embedded = inspect.signature(omnigraph.Graph.load).parameters
    own = inspect.signature(RemoteGraph.load).parameters
    for name, parameter in embedded.items():
        if name not in own:
            calls.refuse_load_options({name: parameter.default})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        remote.load(b"", mode="merge", nothing=1)


def test_an_unknown_graph_and_an_absent_server_are_told_apart(server: LiveServer) -> None:
    with omnigraph.connect(server.url, graph="other") as graph, pytest.raises(GraphNotFound):
        graph.query(ALL)
    with (
        omnigraph.connect("http://127.0.0.1:9", graph="people") as graph,
        pytest.raises(ServerUnavailable, match="nothing was sent"),
    ):
        graph.query(ALL)


@pytest.mark.parametrize(
    ("url", "graph"),
    [
        ("people.omni", "people"),
        ("ftp://host", "people"),
        ("http://", "people"),
        ("http://user:secret@host", "people"),
        ("http://host?x=1", "people"),
        ("http://host:port", "people"),
        ("http://host:99999", "people"),
        ("http://user:secret", "people"),
        ("http://[::1", "people"),
        ("http://a b", "people"),
        ("http://\ud800", "people"),
        ("http://host", "../x"),
        ("http://host", ""),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str, graph: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        omnigraph.connect(url, graph=graph)
    assert "secret" not in caught.value.message


def test_a_closed_graph_says_so(server: LiveServer) -> None:
    graph = omnigraph.connect(server.url, graph="people")
    graph.close()
    graph.close()
    with pytest.raises(InvalidArgument, match="closed"):
        graph.query(ALL)


def test_a_token_is_in_no_text() -> None:
    with omnigraph.connect("http://127.0.0.1:9", graph="g", token="canary-token") as graph:  # noqa: S106 - a token of tests
        assert "canary" not in repr(graph._http.endpoint)
        with pytest.raises(ServerUnavailable) as caught:
            graph.query(ALL)
    assert "canary" not in repr(caught.value) + str(caught.value.details)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda graph: graph.query(ALL, branch=""), BranchNotFound),
        (lambda graph: graph.query(ALL, timeout_s=-1), InvalidArgument),
        (lambda graph: graph.commits.get(""), CommitNotFound),
        (lambda graph: graph.commits.get(".."), CommitNotFound),
        (lambda graph: graph.queries.get("none"), StoredQueryNotFound),
    ],
)
def test_what_cannot_be_sent_is_refused_as_an_open_graph_refuses_it(
    remote: RemoteGraph,
    embedded: Graph,
    call: Callable[[RemoteGraph | Graph], object],
    kind: type[OmnigraphError],
) -> None:
    for graph in (remote, embedded):
        with pytest.raises(kind):
            call(graph)


@pytest.mark.parametrize(
    "given",
    [{"idempotency_key": " k "}, {"if_commit": "日本"}, {"params": {"n": "\ud800"}}],
)
def test_a_write_that_cannot_be_sent_is_no_write_of_unknown_outcome(
    remote: RemoteGraph, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        remote.mutate("query m($n: String?) { insert Person { name: $n } }", **given)
