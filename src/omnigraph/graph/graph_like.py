"""`GraphLike`: what an open graph and one behind a server share.

Code that works with either names this and nothing else. What only storage can do (maintenance,
pipelines, writers, scans) is not here. Results that differ are told by what both have of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from omnigraph.graph.bodies import SnapshotFacts
from omnigraph.graph.changes.change_pages import DEFAULT_PAGE
from omnigraph.ids import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO, Self

    from omnigraph.graph.changes.change_pages import (
        Baseline,
        ChangePage,
        CommitChanges,
        FollowedBlock,
    )
    from omnigraph.graph.changes.entity_change import EntityChange
    from omnigraph.graph.history.commit import Commit, CommitPage
    from omnigraph.graph.history.tag import Tag
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.merge.merge_plan import MergePlan
    from omnigraph.graph.merge.merge_result import MergeResult
    from omnigraph.graph.merge.resolutions import Resolutions
    from omnigraph.graph.prepared_query import PreparedQuery
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.graph.schema_apply.applied import SchemaApplied
    from omnigraph.lang import Catalog, SchemaPlan, StoredQuery


class SnapshotLike(SnapshotFacts, Protocol):
    """A state of a graph, as far as it is told without reading a row."""

    @property
    def graph_commit_id(self) -> str:
        """The commit."""


class BranchLike(Protocol):
    """A live branch; what a server does not tell is `None`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def parent(self) -> str | None:
        """The branch it was forked from."""

    @property
    def created_at(self) -> int | None:
        """When it was made."""

    @property
    def actor_id(self) -> str | None:
        """Who made it."""


class BlobLike(Protocol):
    """One blob value."""

    @property
    def length(self) -> int | None:
        """How many bytes it has; `None` if it lies outside."""

    @property
    def etag(self) -> str | None:
        """A strong entity tag; `None` if it lies outside."""

    @property
    def uri(self) -> str | None:
        """The address, if the graph only refers to the value."""

    @property
    def graph_commit_id(self) -> str:
        """The commit that it is read at."""

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Some of its bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """All of them, in pieces."""


class ChangeSetLike(Protocol):
    """What differs between two states, read as one goes through it."""

    @property
    def from_commit_id(self) -> str:
        """The state before."""

    @property
    def to_commit_id(self) -> str:
        """The state after."""

    @property
    def stats(self) -> dict[str, dict[str, int]]:
        """How many entities differ, by type and operation."""

    def __iter__(self) -> Iterator[EntityChange]:
        """The changes, in order."""


class BaselineLike(Protocol):
    """Every entity of a branch's head as lines."""

    @property
    def baseline(self) -> Baseline:
        """The commit and the cursor."""

    def __iter__(self) -> Iterator[bytes]:
        """The chunks."""


class BranchesLike(Protocol):
    """`graph.branches`."""

    def create(self, name: str, *, from_: str = MAIN_BRANCH) -> BranchLike:
        """Create a branch at the head of another."""

    def list(self) -> Sequence[BranchLike]:
        """Live branches, `main` first, then by name."""

    def get(self, name: str) -> BranchLike:
        """One live branch."""

    def delete(self, name: str, *, if_commit: str | None = None) -> None:
        """Delete a branch."""

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

    def merge_plan(
        self,
        source: str,
        *,
        into: str = MAIN_BRANCH,
        strategy: str = "fail",
        resolutions: Resolutions = None,
    ) -> MergePlan:
        """What a merge would do now."""


class TagsLike(Protocol):
    """`graph.tags`."""

    def create(self, name: str, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> Tag:
        """Name a commit."""

    def list(self) -> list[Tag]:
        """Live tags, by name."""

    def get(self, name: str) -> Tag:
        """One live tag."""

    def delete(self, name: str) -> None:
        """Delete a tag."""


class CommitsLike(Protocol):
    """`graph.commits`."""

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
        """A page of what the branch's head reaches, newest first."""

    def __iter__(self) -> Iterator[Commit]:
        """Everything that the head of `main` reaches."""

    def get(self, id: ReadTarget) -> Commit:
        """One commit of any live branch."""

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
        """A page of what a commit changed."""

    def revert(
        self, id: ReadTarget, *, branch: str = MAIN_BRANCH, if_commit: str | None = None
    ) -> Commit | None:
        """Undo what one commit changed, as a new commit."""


class ChangesLike(Protocol):
    """`graph.changes`."""

    def poll(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        page_token: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
        limit: int = DEFAULT_PAGE,
    ) -> ChangePage:
        """A page of what happened on a branch."""

    def follow(
        self,
        *,
        branch: str = MAIN_BRANCH,
        cursor: str | None = None,
        start: str | None = None,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> Iterator[FollowedBlock]:
        """What happened on a branch up to now, one whole commit after the other."""

    def baseline(
        self,
        *,
        branch: str = MAIN_BRANCH,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> BaselineLike:
        """Every entity of a branch's head, and the cursor to go on from."""


class SchemaLike(Protocol):
    """`graph.schema`."""

    @property
    def source(self) -> str:
        """The `.pg` text as it was accepted."""

    @property
    def catalog(self) -> Catalog:
        """What the source means."""

    @property
    def hash(self) -> str:
        """The accepted schema's hash."""

    def show(self, *, at: ReadTarget | None = None) -> str:
        """The `.pg` text in force now, or at a state."""

    def plan(self, source: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """The steps from the schema of `main` to another."""

    def apply(
        self, source_or_plan: str | Path | SchemaPlan, *, allow_data_loss: bool = False
    ) -> SchemaApplied:
        """Bring `main` to a schema as one commit."""


class QueriesLike(Protocol):
    """`graph.queries`."""

    def list(self) -> list[StoredQuery]:
        """What can be invoked, by name."""

    def get(self, name: str) -> StoredQuery:
        """One of them."""

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
        """Run a stored query."""


class GraphLike(Protocol):
    """A typed property graph, wherever it is."""

    @property
    def branches(self) -> BranchesLike:
        """Its branches."""

    @property
    def tags(self) -> TagsLike:
        """Its tags."""

    @property
    def commits(self) -> CommitsLike:
        """Its history."""

    @property
    def changes(self) -> ChangesLike:
        """Its change feed."""

    @property
    def schema(self) -> SchemaLike:
        """Its schema."""

    @property
    def queries(self) -> QueriesLike:
        """Its stored queries."""

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
        """Run a read query on one snapshot."""

    def prepare(self, source: str, name: str | None = None) -> PreparedQuery[QueryResult]:
        """A read query to call with parameters."""

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
        """How a query would run."""

    def snapshot(self, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> SnapshotLike:
        """A state: the head of a branch, or what is named."""

    def diff(
        self,
        from_: ReadTarget,
        to: ReadTarget,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> ChangeSetLike:
        """What differs between two states."""

    def export(
        self,
        *,
        types: Sequence[str] | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> Iterator[bytes]:
        """The graph as NDJSON in the load format."""

    def blob(
        self,
        kind: Literal["node", "edge"],
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> BlobLike:
        """A reader of one blob value."""

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
        """Run a mutation as one commit."""

    def load(
        self,
        source: str | Path | bytes | BinaryIO,
        *,
        mode: Literal["append", "merge", "update", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        idempotency_key: str | None = None,
    ) -> JobReport:
        """Load nodes and edges as one commit."""

    def refresh(self) -> None:
        """See the newest heads."""

    def close(self) -> None:
        """Release what it holds; safe twice."""

    def __enter__(self) -> Self:
        """The graph itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
