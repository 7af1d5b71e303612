"""What hangs on a `RemoteGraph`: its branches, its tags, its history, its schema, its queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.client import calls
from omnigraph.client.commit_pieces import PIECE, CommitPieces
from omnigraph.errors import BranchNotFound
from omnigraph.graph.changes.change_pages import DEFAULT_PAGE
from omnigraph.ids import MAIN_BRANCH
from omnigraph.lang import compile_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from omnigraph.client.connection import Connection
    from omnigraph.client.decoding import RemoteBranch
    from omnigraph.graph.changes.change_pages import CommitChanges
    from omnigraph.graph.history.commit import Commit, CommitPage
    from omnigraph.graph.history.tag import Tag
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.merge.merge_plan import MergePlan
    from omnigraph.graph.merge.merge_result import MergeResult
    from omnigraph.graph.merge.resolutions import Resolutions
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.lang import Catalog, SchemaPlan, StoredQuery


def named_branch(branches: Iterable[RemoteBranch], name: str) -> RemoteBranch:
    """The branch of a name.

    Raises:
        BranchNotFound: there is none.
    """
    for branch in branches:
        if branch.name == name:
            return branch
    raise BranchNotFound(f"there is no branch {name!r}", branch=name)


class RemoteBranches:
    """`graph.branches`, as of an open graph; a branch has its name only."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    def create(self, name: str, *, from_: str = MAIN_BRANCH) -> RemoteBranch:
        """Create a branch at the head of another."""
        return self._http.send(calls.create_branch(name, from_=from_))

    def list(self) -> list[RemoteBranch]:
        """Live branches, `main` first, then by name."""
        return self._http.send(calls.list_branches())

    def get(self, name: str) -> RemoteBranch:
        """One live branch.

        Raises:
            BranchNotFound: there is none of that name.
        """
        return named_branch(self.list(), name)

    def delete(self, name: str, *, if_commit: str | None = None) -> None:
        """Delete a branch."""
        return self._http.send(calls.delete_branch(name, if_commit=if_commit))

    def merge(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
        delete_branch: bool = False,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge the head of one branch into another, as one commit."""
        return self._http.send(
            calls.merge(
                source,
                into=into,
                strategy=strategy,
                resolutions=resolutions,
                delete_branch=delete_branch,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
            )
        )

    def merge_plan(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
    ) -> MergePlan:
        """What a merge would do now; nothing is written."""
        return self._http.send(
            calls.merge_plan(source, into=into, strategy=strategy, resolutions=resolutions)
        )


class RemoteTags:
    """`graph.tags`: commits under a name."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    def create(self, name: str, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> Tag:
        """Name a commit; from then on the tag is a read target, and keeps what it names."""
        return self._http.send(calls.create_tag(name, at, branch=branch))

    def list(self) -> list[Tag]:
        """Live tags, by name."""
        return self._http.send(calls.list_tags())

    def get(self, name: str) -> Tag:
        """One live tag.

        Raises:
            TagNotFound: there is none of that name.
        """
        return self._http.send(calls.get_tag(name))

    def delete(self, name: str) -> None:
        """Delete a tag; its commit stays in the history."""
        return self._http.send(calls.delete_tag(name))


class RemoteCommits:
    """`graph.commits`: the history."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    def list(
        self,
        *,
        branch: str = MAIN_BRANCH,
        actor: str | None = None,
        kind: str | None = None,
        operation: str | None = None,
        all: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> CommitPage:
        """A page of what the branch's head reaches, newest first; a large one in several pieces."""
        pieces = CommitPieces(limit, cursor)
        while pieces.asking is not None:
            asked = calls.list_commits(
                branch=branch,
                actor=actor,
                kind=kind,
                operation=operation,
                all=all,
                **pieces.asking,
            )
            pieces.take(self._http.send(asked))
        return pieces.page

    def __iter__(self) -> Iterator[Commit]:
        """Everything that the head of `main` reaches, newest first, piece by piece."""
        cursor: str | None = None
        while True:
            page = self.list(all=True, limit=PIECE, cursor=cursor)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                return

    def get(self, id: ReadTarget) -> Commit:
        """One commit of any live branch."""
        return self._http.send(calls.get_commit(id))

    def changes(
        self,
        id: ReadTarget,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int = DEFAULT_PAGE,
        page_token: str | None = None,
    ) -> CommitChanges:
        """A page of what a commit changed, with every entity before and after."""
        return self._http.send(
            calls.commit_changes(
                id, kinds=kinds, types=types, ops=ops, limit=limit, page_token=page_token
            )
        )

    def revert(
        self, id: ReadTarget, *, branch: str = MAIN_BRANCH, if_commit: str | None = None
    ) -> Commit | None:
        """Undo what one commit changed, as a new commit; `None` if it changed nothing."""
        return self._http.send(calls.revert(id, branch=branch, if_commit=if_commit))


class RemoteSchema:
    """`graph.schema`: the accepted schema of `main`."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    @property
    def source(self) -> str:
        """The `.pg` text as it was accepted."""
        return self._http.send(calls.schema_source())

    @property
    def catalog(self) -> Catalog:
        """What the source means; ids of types are known to storage alone."""
        return compile_schema(self.source)

    @property
    def hash(self) -> str:
        """The accepted schema's hash.

        Raises:
            NotServed: the server does not tell it.
        """
        told = self._http.send(calls.schema_hash())
        if told is None:
            raise calls.not_served("schema.hash of this server", "compare the sources")
        return told

    def show(self, *, at: ReadTarget | None = None) -> str:
        """The `.pg` text in force now, or at a commit id, a tag, or a number or time of `main`."""
        return self._http.send(calls.schema_source(at=at))

    def plan(self, source: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """The steps from the schema of `main` to another; nothing is written."""
        return self._http.send(calls.plan_schema(source, allow_data_loss=allow_data_loss))

    def apply(
        self, source_or_plan: str | Path | SchemaPlan, *, allow_data_loss: bool = False
    ) -> SchemaApplied:
        """Bring `main` to a schema as one commit; nothing is done if the graph has it already."""
        return self._http.send(calls.apply_schema(source_or_plan, allow_data_loss=allow_data_loss))


class RemoteQueries:
    """`graph.queries`: the stored queries of the server."""

    def __init__(self, connection: Connection) -> None:
        self._http = connection

    def list(self) -> list[StoredQuery]:
        """What can be invoked, by name, with the kinds of the parameters."""
        return self._http.send(calls.list_queries())

    def get(self, name: str) -> StoredQuery:
        """One of them.

        Raises:
            StoredQueryNotFound: the server has none of that name for this actor.
        """
        return self._http.send(calls.get_query(name))

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
    ) -> QueryResult | MutationResult:
        """Run a stored query: a read on one snapshot, a mutation as one commit."""
        return self._http.send(
            calls.invoke(
                name,
                params,
                branch=branch,
                snapshot=snapshot,
                if_commit=if_commit,
                idempotency_key=idempotency_key,
                expect_mutation=expect_mutation,
                timeout_s=timeout_s,
            )
        )
