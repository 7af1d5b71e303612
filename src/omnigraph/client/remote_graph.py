"""`RemoteGraph`: a graph behind a server, with the methods of an open one.

Every method builds a call and sends it: what is asked and what is understood is decided in `calls`
and `decoding`, which all transports share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self

from omnigraph.client import calls
from omnigraph.client.connection import Connection
from omnigraph.client.endpoint import Endpoint
from omnigraph.client.load_input import read_lines
from omnigraph.client.remote_blob import RemoteBlob, open_remote_blob
from omnigraph.client.remote_changes import RemoteChanges
from omnigraph.client.remote_diff import RemoteChangeSet, filter_of
from omnigraph.client.remote_parts import (
    RemoteBranches,
    RemoteCommits,
    RemoteQueries,
    RemoteSchema,
    RemoteTags,
)
from omnigraph.client.storage_names import StorageNames
from omnigraph.client.table_lines import table_lines
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from omnigraph.client.decoding import RemoteSnapshot
    from omnigraph.client.load_input import LoadSource
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.prepared_query import PreparedQuery
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult


def connect(
    url: str, *, graph: str, token: str | None = None, timeout_s: float | None = None
) -> RemoteGraph:
    """A graph behind a server, with the methods, results and exceptions of an open one.

    Nothing is sent before the first call.

    Args:
        url: the address of the server, `http://` or `https://`.
        graph: the id of the graph there.
        token: who asks; without it the one that the environment or the credentials of the operator
            have for this address.
        timeout_s: how long to wait for an answer; the server has limits of its own.

    Raises:
        InvalidArgument: the address or the id is none.
    """
    endpoint = Endpoint.parse(url, graph=graph, token=token, timeout_s=timeout_s)
    return RemoteGraph(Connection(endpoint.with_found_token()))


class RemoteGraph(StorageNames):
    """A typed property graph behind a server; safe to call from many threads on one object.

    A context manager; `close()` closes the connections and is safe twice. What needs the storage of
    the graph raises `NotServed` and says what to use instead. No write is repeated, except one with
    an idempotency key that had no effect yet.
    """

    def __init__(self, connection: Connection) -> None:
        self._http = connection
        self.branches = RemoteBranches(connection)
        self.tags = RemoteTags(connection)
        self.commits = RemoteCommits(connection)
        self.changes = RemoteChanges(connection)
        self.schema = RemoteSchema(connection)
        self.queries = RemoteQueries(connection)

    def query(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        executor: Literal["auto", "local", "spark"] = "auto",
        timeout_s: float | None = None,
    ) -> QueryResult:
        """Run a read query on one snapshot; as `Graph.query`."""
        return self._http.send(
            calls.query(
                source,
                name,
                params,
                branch=branch,
                snapshot=snapshot,
                executor=executor,
                timeout_s=timeout_s,
            )
        )

    def prepare(self, source: str, name: str | None = None) -> PreparedQuery[QueryResult]:
        """A read query to call with parameters; as `Graph.prepare`. Nothing is sent."""
        from omnigraph.graph.prepared_query import PreparedQuery

        return PreparedQuery(self.query, source, name)

    def explain(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        executor: Literal["auto", "local", "spark"] = "auto",
        analyze: bool = False,
    ) -> Plan:
        """How a query would run; as `Graph.explain`."""
        return self._http.send(
            calls.explain(
                source,
                name,
                params,
                branch=branch,
                snapshot=snapshot,
                executor=executor,
                analyze=analyze,
            )
        )

    def snapshot(
        self, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH
    ) -> RemoteSnapshot:
        """The tables of a branch's head, or as they were; rows are read by queries."""
        return self._http.send(calls.snapshot(at, branch=branch))

    def export(
        self,
        *,
        types: Sequence[str] | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> Iterator[bytes]:
        """The graph as NDJSON in the load format; as `Graph.export`.

        The server is asked here, so that a refusal comes before the first chunk.
        """
        stream = self._http.stream(calls.export(types=types, branch=branch, snapshot=snapshot))
        chunks = stream.__enter__()

        def read() -> Iterator[bytes]:
            try:
                yield from chunks
            finally:
                stream.__exit__(None, None, None)

        return read()

    def blob(
        self,
        kind: Literal["node", "edge"],
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> RemoteBlob:
        """A reader of one blob value; as `Graph.blob`."""
        return open_remote_blob(
            self._http, calls.blob(kind, type, id, property, branch=branch, snapshot=snapshot)
        )

    def mutate(
        self,
        source: str,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN_BRANCH,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        timeout_s: float | None = None,
    ) -> MutationResult:
        """Run a mutation as one commit; as `Graph.mutate`.

        Raises:
            OutcomeUnknown: the connection was lost after the request was sent.
        """
        return self._http.send(
            calls.mutate(
                source,
                name,
                params,
                branch=branch,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
                timeout_s=timeout_s,
            )
        )

    def load(
        self,
        source: LoadSource,
        *,
        mode: Literal["append", "merge", "update", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        idempotency_key: str | None = None,
        **others: object,
    ) -> JobReport:
        """Load nodes and edges as one commit; as `Graph.load`, at most 32 MiB of lines.

        Tables are sent as lines, for which the schema is asked first.

        Raises:
            NotServed: an option was given that needs the storage of the graph, as `dry_run` does.
            OutcomeUnknown: the connection was lost after the request was sent.
        """
        calls.refuse_load_options(others)
        content = (
            table_lines(self.schema.catalog, source, mode=mode)
            if isinstance(source, Mapping)
            else read_lines(source)
        )
        return self._http.send(
            calls.load(
                content,
                mode=mode,
                branch=branch,
                from_=from_,
                idempotency_key=idempotency_key,
            )
        )

    def diff(
        self,
        from_: ReadTarget,
        to: ReadTarget,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> RemoteChangeSet:
        """What differs between two states: branches, commits or tags; as `Graph.diff`."""
        wanted = filter_of(kinds, types, ops)
        first = self._http.send(calls.diff(from_, to, **wanted))
        return RemoteChangeSet(_first=first, _filter=wanted, _http=self._http)

    def refresh(self) -> None:
        """Every request sees the newest heads already."""

    def close(self) -> None:
        """Close the connections; safe twice."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
