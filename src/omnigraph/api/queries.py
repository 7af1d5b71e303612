"""`graph.queries`: the stored queries that the graph was opened with.

A stored query runs through the same door as a query that is sent as text, so what its body may read
or change is decided there. A name that does not exist and one that may not be invoked are told
alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import InvalidArgument, QuerySelectionError, StoredQueryNotFound
from omnigraph.graph.access import Action
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from omnigraph.api.graph import Graph
    from omnigraph.graph.gate import Gate
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.lang import StoredQueries, StoredQuery

    Invoked: TypeAlias = "QueryResult | MutationResult"


class GraphQueries:
    """`graph.queries`."""

    def __init__(self, graph: Graph, stored: StoredQueries, gate: Gate) -> None:
        self._graph = graph
        self._stored = stored
        self._gate = gate

    def list(self) -> list[StoredQuery]:
        """What can be invoked, by name, with the kinds of the parameters.

        With a policy that names queries, those that this actor may invoke.
        """
        self._gate.require(Action.READ, MAIN_BRANCH)
        names = self._gate.callable_queries(sorted(self._stored.definitions))
        return [self._stored.definitions[name].entry for name in names]

    def get(self, name: str) -> StoredQuery:
        """One of them.

        Raises:
            StoredQueryNotFound: there is none of that name, or this actor may not invoke it.
        """
        definition = self._stored.definitions.get(name)
        is_allowed = self._gate.allows(Action.INVOKE_QUERY, query_name=name)
        if definition is None or not is_allowed:
            raise StoredQueryNotFound("stored query not found")
        return definition.entry

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        expect_mutation: bool | None = None,
        timeout_s: float | None = None,
    ) -> Invoked:
        """Run a stored query: a read on one snapshot, a mutation as one commit.

        Args:
            name: which one.
            params: values of the declared parameters.
            branch: what to read or write; `main` by default.
            snapshot: what a read reads instead; a mutation has none.
            if_commit: a mutation writes only while this commit is the head of the branch.
            idempotency_key: the same key again gives the first receipt of a mutation.
            expect_mutation: refuse a query of the other kind.
            timeout_s: instead of the setting; 0 means no limit.

        Raises:
            StoredQueryNotFound: there is none of that name, or this actor may not invoke it.
            QuerySelectionError: it is not of the kind that `expect_mutation` says.
            InvalidArgument: an argument that its kind does not have.
            otherwise as `query` or `mutate`.
        """
        entry = self.get(name)
        source = self._stored.definitions[name].source
        _require_kind(entry, expected=expect_mutation)
        if not entry.mutation:
            _refuse_given(entry, if_commit=if_commit, idempotency_key=idempotency_key)
            return self._graph.query(
                source, name, params, branch=branch, snapshot=snapshot, timeout_s=timeout_s
            )
        _refuse_given(entry, snapshot=snapshot)
        return self._graph.mutate(
            source,
            name,
            params,
            branch=MAIN_BRANCH if branch is None else branch,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            timeout_s=timeout_s,
        )


def _require_kind(entry: StoredQuery, *, expected: bool | None) -> None:
    if expected is None or expected is entry.mutation:
        return
    kind, verb = ("mutation", "mutate") if entry.mutation else ("read query", "query")
    raise QuerySelectionError(
        f"stored query `{entry.name}` is a {kind}; run it with `{verb}`",
        reason=f"use_{verb}",
        name=entry.name,
    )


def _refuse_given(entry: StoredQuery, **arguments: object) -> None:
    """Refuse arguments that a query of this kind does not have."""
    for argument, value in arguments.items():
        if value is not None:
            kind = "mutation" if entry.mutation else "read query"
            raise InvalidArgument(
                f"stored query `{entry.name}` is a {kind} and takes no {argument}",
                argument=argument,
            )
