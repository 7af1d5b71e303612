"""An open graph and one behind a server are both what `GraphLike` says."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from omnigraph import Graph
from omnigraph.api import parts, queries
from omnigraph.client import RemoteGraph, remote_changes, remote_parts
from omnigraph.graph import graph_like

if TYPE_CHECKING:
    from omnigraph.graph.graph_like import GraphLike


def of_open(graph: Graph) -> GraphLike:
    """The type checker holds the class against the protocol."""
    return graph


def of_remote(graph: RemoteGraph) -> GraphLike:
    """The same for the other one."""
    return graph


PAIRS = [
    (graph_like.GraphLike, Graph),
    (graph_like.GraphLike, RemoteGraph),
    (graph_like.BranchesLike, parts.GraphBranches),
    (graph_like.BranchesLike, remote_parts.RemoteBranches),
    (graph_like.TagsLike, parts.GraphTags),
    (graph_like.TagsLike, remote_parts.RemoteTags),
    (graph_like.CommitsLike, parts.GraphCommits),
    (graph_like.CommitsLike, remote_parts.RemoteCommits),
    (graph_like.ChangesLike, parts.GraphChanges),
    (graph_like.ChangesLike, remote_changes.RemoteChanges),
    (graph_like.SchemaLike, parts.GraphSchema),
    (graph_like.SchemaLike, remote_parts.RemoteSchema),
    (graph_like.QueriesLike, queries.GraphQueries),
    (graph_like.QueriesLike, remote_parts.RemoteQueries),
]


@pytest.mark.parametrize(("protocol", "kind"), PAIRS, ids=lambda each: each.__name__)
def test_every_method_takes_what_the_protocol_says(protocol: type, kind: type) -> None:
    for name, said in vars(protocol).items():
        if not inspect.isfunction(said) or name in ("__init__", "__subclasshook__"):
            continue
        wanted = inspect.signature(said).parameters
        given = inspect.signature(getattr(kind, name)).parameters
        for parameter in wanted.values():
            found = given[parameter.name]
            assert (found.kind, found.default) == (parameter.kind, parameter.default), name


def test_what_an_open_graph_alone_can_do_is_known() -> None:
    """A new method of `Graph` belongs to both, or to this list."""

    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    storage = {"init", "open", "clone", "pipeline", "write", "system", "as_actor"}
    storage |= {"maintenance", "warm"}
    assert public(Graph) - public(graph_like.GraphLike) == storage
