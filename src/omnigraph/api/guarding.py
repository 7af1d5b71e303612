"""Handles for front ends that opened the storage themselves and answer to many actors.

A server looks up what it needs to ask the right question (which branch a commit was made on,
whether a branch is there) as whoever has the storage, and works on a guarded handle for the actor
of a request. A policy can be added to a handle and never taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.graph.gate import Gate

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph
    from omnigraph.graph.access import AccessPolicy


def guarded(graph: Graph, policy: AccessPolicy | None, actor: str | None) -> Graph:
    """A handle on an open graph for one actor, which asks the policy before everything it does.

    Raises:
        TypeError: the graph has a policy already.
    """
    if graph._gate.is_guarded:  # noqa: SLF001 - both are of the facade
        raise TypeError("the graph has a policy already; use as_actor")
    return graph._handle(actor, Gate(policy, None))  # noqa: SLF001 - as above
