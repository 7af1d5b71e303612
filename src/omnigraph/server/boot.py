"""What a server serves: graphs under their ids, opened once before the socket listens.

A boot source opens graphs and says which policies guard them. Serving is static: what changes
outside is picked up by a restart.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from omnigraph.api import Graph
from omnigraph.errors import ClusterRefused, GraphNotFound, InvalidArgument, UsageError
from omnigraph.policy import load_policy, load_server_policy
from omnigraph.server.runtime_state import RuntimeState, policy_in_force
from omnigraph.settings import Engine

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from omnigraph.graph.access import AccessPolicy
    from omnigraph.settings import Settings

DEFAULT_GRAPH_ID: Final = "default"
_GRAPH_ID: Final = re.compile("[a-zA-Z0-9-]{1,64}")
_RESERVED_IDS: Final = frozenset({"policies", "healthz", "openapi", "graphs", "readyz", "metrics"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """One graph that is served."""

    graph_id: str
    uri: str
    graph: Graph
    policy: AccessPolicy | None = None
    """What decides about requests; without it everything is allowed."""
    is_cluster_managed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedGraph:
    """One graph that is configured and cannot be served."""

    graph_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraphs:
    """Everything that one server serves; it owns the open graphs."""

    state: RuntimeState
    graphs: Mapping[str, ServedGraph]
    quarantined: tuple[QuarantinedGraph, ...] = ()
    server_policy: AccessPolicy | None = None
    """What decides about actions on the server itself; without it nobody may do any."""

    def find(self, graph_id: str) -> ServedGraph:
        """The graph of an id.

        Raises:
            InvalidArgument: no graph can have this id.
            GraphNotFound: none of that id is served.
        """
        checked_graph_id(graph_id)
        served = self.graphs.get(graph_id)
        if served is None:
            raise GraphNotFound(f"graph '{graph_id}' not found", graph_id=graph_id)
        return served

    def require_all(self) -> None:
        """Refuse to serve some of the graphs only; then those that are open are closed.

        Raises:
            ClusterRefused: one of them cannot be served; each is told with its cause.
        """
        if not self.quarantined:
            return
        self.close()
        told = "; ".join(f"{graph.graph_id}: {graph.message}" for graph in self.quarantined)
        raise ClusterRefused(
            f"{len(self.quarantined)} of the graphs cannot be served, and all are required: {told}",
            diagnostics=[asdict(graph) for graph in self.quarantined],
        )

    def close(self) -> None:
        """Close every graph; safe twice."""
        for served in self.graphs.values():
            served.graph.close()


class BootSource(Protocol):
    """Where the graphs of a server come from."""

    @property
    def has_policy(self) -> bool:
        """Whether any graph, or the server itself, has a policy of its own."""
        ...

    def describe(self) -> dict[str, object]:
        """What is served, under which policy, for the line that a server says at its start."""
        ...

    def open(self, settings: Settings, state: RuntimeState) -> ServedGraphs:
        """Open what is to be served."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSource:
    """Graphs that the command line names, each with its id.

    Files of policies and queries are read when the graphs are opened, by every process that opens
    them. Policies may also be given as objects, which one process can use.
    """

    uris: Mapping[str, str]
    policies: Mapping[str, AccessPolicy] = field(default_factory=dict)
    server_policy: AccessPolicy | None = None
    policy_files: Mapping[str, str] = field(default_factory=dict)
    server_policy_file: str | None = None
    queries: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def has_policy(self) -> bool:
        """Whether any graph, or the server itself, has a policy of its own."""
        return bool(self.policies or self.policy_files) or not (
            self.server_policy is None and self.server_policy_file is None
        )

    def describe(self) -> dict[str, object]:
        """What is served, under which policy, for the line that a server says at its start."""
        return {
            "graphs": ", ".join(f"{name} ({uri})" for name, uri in self.uris.items()),
            "policy": ", ".join(f"{name}: {file}" for name, file in self.policy_files.items())
            or ("given" if self.policies else "none"),
            "server_policy": self.server_policy_file or "none",
        }

    def open(self, settings: Settings, state: RuntimeState) -> ServedGraphs:
        """Open all of them, or none.

        Raises:
            GraphNotFound: there is no graph at one of the addresses.
            PolicyInvalid: the file of a policy is wrong.
            QueryInvalid: stored queries do not fit their graph.
        """
        graphs: dict[str, ServedGraph] = {}
        served = ServedGraphs(state=state, graphs=graphs, server_policy=self._server_policy())
        try:
            for graph_id, uri in self.uris.items():
                policy = policy_in_force(state, self._policy_of(graph_id))
                graph = Graph.open(
                    uri,
                    queries=tuple(self.queries.get(graph_id, ())),
                    settings=_in_process(settings),
                )
                graphs[graph_id] = ServedGraph(
                    graph_id=graph_id, uri=uri, graph=graph, policy=policy
                )
                if policy is not None:
                    policy.bind(graph.schema.catalog)
        except BaseException:
            served.close()
            raise
        return served

    def _policy_of(self, graph_id: str) -> AccessPolicy | None:
        if graph_id in self.policy_files:
            return load_policy(self.policy_files[graph_id], graph_id=graph_id)
        return self.policies.get(graph_id)

    def _server_policy(self) -> AccessPolicy | None:
        if self.server_policy_file is not None:
            return load_server_policy(self.server_policy_file)
        return self.server_policy


def parse_graph_options(
    uri: str | None, graph_id: str | None, named: Sequence[str]
) -> dict[str, str]:
    """The addresses of graphs by id: one without a name, or any number as `id=uri`.

    Raises:
        UsageError: none, both kinds, a bad id, or one id twice.
    """
    if (uri is None) == (not named):
        raise UsageError("give the address of one graph, or --graph ID=URI for each of many")
    if uri is not None:
        return {_given_id(graph_id or DEFAULT_GRAPH_ID): uri}
    if graph_id is not None:
        raise UsageError("--graph-id names the one graph that is given without --graph")
    graphs: dict[str, str] = {}
    for text in named:
        name, separator, address = text.partition("=")
        if not separator or not address:
            raise UsageError(f"--graph is ID=URI, not {text!r}")
        if _given_id(name) in graphs:
            raise UsageError(f"the graph id {name!r} is given twice")
        graphs[name] = address
    return graphs


def _given_id(text: str) -> str:
    try:
        return checked_graph_id(text)
    except InvalidArgument as error:
        raise UsageError(error.message) from None


def parse_assignments(values: Sequence[str], graph_ids: Collection[str]) -> dict[str, list[str]]:
    """Values by graph: `ID=VALUE` is for one graph, a value without an id for every one."""
    assigned: dict[str, list[str]] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if separator and name in graph_ids:
            assigned.setdefault(name, []).append(value)
        else:
            for graph_id in graph_ids:
                assigned.setdefault(graph_id, []).append(text)
    return assigned


def checked_graph_id(graph_id: str) -> str:
    """An id that a graph may be served under.

    Raises:
        InvalidArgument: it is none.
    """
    if not _GRAPH_ID.fullmatch(graph_id) or graph_id in _RESERVED_IDS:
        raise InvalidArgument(
            f"{graph_id!r} is no graph id: it has 1 to 64 letters, digits and hyphens and is none"
            f" of {', '.join(sorted(_RESERVED_IDS))}",
            argument="graph_id",
        )
    return graph_id


def _in_process(settings: Settings) -> Settings:
    """A server answers in its own process, whatever the environment says of engines."""
    return replace(settings, spark=replace(settings.spark, engine=Engine.LOCAL))
