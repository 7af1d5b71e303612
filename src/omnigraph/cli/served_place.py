"""One graph of a server, as a command addresses it, and the server itself.

Nothing here imports the engine: a command that talks to a server needs neither Lance nor
DataFusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import AccessError, OmnigraphError, UsageError

if TYPE_CHECKING:
    from omnigraph.client import RemoteGraph
    from omnigraph.settings import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server, and who asks it."""

    url: str
    token: Secret | None = None

    def list_graphs(self) -> dict[str, Any]:  # Any: the body of the contract
        """What it serves.

        Raises:
            PolicyError: it does not tell.
        """
        from omnigraph.client import calls
        from omnigraph.client.connection import Connection

        connection = Connection(self._endpoint(None))
        try:
            return connection.send(calls.list_graphs())
        finally:
            connection.close()

    def connect(self, graph: str) -> RemoteGraph:
        """One of its graphs."""
        from omnigraph.client import RemoteGraph
        from omnigraph.client.connection import Connection

        return RemoteGraph(Connection(self._endpoint(graph)))

    def _endpoint(self, graph: str | None) -> Any:  # noqa: ANN401 - imported on use
        from omnigraph.client.endpoint import Endpoint

        token = None if self.token is None else self.token.reveal()
        return Endpoint.parse(self.url, graph=graph, token=token, timeout_s=None)

    def place(self, graph: str | None) -> ServedPlace:
        """One of its graphs, which has to be named.

        Raises:
            UsageError: none is named; the candidates are listed if the server tells them.
        """
        if graph is not None:
            return ServedPlace(server=self, graph=graph)
        raise UsageError(f"no graph of {self.url} is named; give --graph ID ({self._candidates()})")

    def _candidates(self) -> str:
        try:
            graphs = [each["graph_id"] for each in self.list_graphs()["graphs"]]
        except AccessError:
            return "it does not tell you which graphs it serves"
        except OmnigraphError as error:
            return f"its graphs cannot be listed: {error.message}"
        return f"it serves {', '.join(graphs)}" if graphs else "it serves none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPlace:
    """One graph of a server."""

    server: Server
    graph: str

    @property
    def url(self) -> str:
        """Its address, for people."""
        return f"{self.server.url}/graphs/{self.graph}"

    def open(self) -> RemoteGraph:
        """The graph; nothing is sent yet."""
        return self.server.connect(self.graph)
