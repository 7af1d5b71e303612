"""`Graph`: the public API over an open graph. It delegates; what a call means is decided below.

A read is often all that a process does, so what only other calls need is imported by them.

Safe to call from many threads on one object. A `Graph` is a context manager; `close()` releases
leases and caches and is safe twice.
"""

from __future__ import annotations

from contextlib import closing
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from omnigraph.api.arguments import checked_actor, require_query
from omnigraph.api.queries import GraphQueries
from omnigraph.api.query_lane import QueryLanes
from omnigraph.clock import SystemClock
from omnigraph.engine.engine import Engine, QueryRequest
from omnigraph.errors import InvalidArgument
from omnigraph.graph.access import Action
from omnigraph.graph.blobs.addresses import DENY_ALL, ExternalBlobs, allow_external_blobs
from omnigraph.graph.gate import UNGUARDED, Gate
from omnigraph.graph.history.allowed_states import open_allowed, open_readable_target, open_state
from omnigraph.graph.history.snapshot import Snapshot, open_snapshot
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator, OpenMode
from omnigraph.graph.query.query_files import read_query_files
from omnigraph.graph.query.query_vectors import QueryEmbedder
from omnigraph.graph.query.target import QueryTarget
from omnigraph.ids import MAIN_BRANCH, MAIN_BRANCH_ID, BranchName, UlidSource
from omnigraph.lang import NO_STORED_QUERIES, compile_stored_queries
from omnigraph.settings import Settings, load_process_settings
from omnigraph.storage.graph_storage import open_storage
from omnigraph.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from omnigraph.api.load_source import LoadSource
    from omnigraph.api.parts import (
        GraphBranches,
        GraphChanges,
        GraphCommits,
        GraphMaintenance,
        GraphSchema,
        GraphTags,
    )
    from omnigraph.embedding import Embedder
    from omnigraph.graph.access import AccessPolicy
    from omnigraph.graph.blobs.blob_reader import BlobReader
    from omnigraph.graph.changes.change_set import ChangeSet
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.report import JobReport
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.prepared_query import PreparedQuery
    from omnigraph.graph.query.plan import Plan
    from omnigraph.graph.results.mutation_result import MutationResult
    from omnigraph.graph.results.query_result import QueryResult
    from omnigraph.graph.writer import Writer
    from omnigraph.lang import StoredQueries
    from omnigraph.pipeline.pipeline import Pipeline, Spark
    from omnigraph.storage.graph_storage import GraphStorage


class Graph:
    """A typed property graph in a folder or a bucket."""

    def __init__(
        self,
        coordinator: GraphCoordinator,
        actor: str | None,
        *,
        owns: bool,
        engine: Engine | None = None,
        settings: Settings | None = None,
        stored: StoredQueries = NO_STORED_QUERIES,
        gate: Gate | None = None,
    ) -> None:
        self._graph = coordinator
        self._stored = stored
        self._settings = settings or Settings()
        self._engine = engine or _engine(coordinator, self._settings, None)
        self._lanes = QueryLanes(coordinator, self._engine, self._settings)
        self._gate = (gate or UNGUARDED).for_actor(actor)
        self._actor = actor
        self._owns = owns
        self.queries = GraphQueries(self, stored, self._gate)

    @cached_property
    def branches(self) -> GraphBranches:
        """Its branches: list, create, merge, delete."""
        from omnigraph.api.parts import GraphBranches

        return GraphBranches(self._graph, self._gate, self._engine.external_blobs)

    @cached_property
    def tags(self) -> GraphTags:
        """Its tags: list, create, delete."""
        from omnigraph.api.parts import GraphTags

        return GraphTags(self._graph, self._gate)

    @cached_property
    def commits(self) -> GraphCommits:
        """Its history: list, show, revert."""
        from omnigraph.api.parts import GraphCommits

        return GraphCommits(self._graph, self._gate)

    @cached_property
    def changes(self) -> GraphChanges:
        """The feed of its changes."""
        from omnigraph.api.parts import GraphChanges

        return GraphChanges(self._graph, self._gate)

    @cached_property
    def schema(self) -> GraphSchema:
        """Its schema: show, plan, apply."""
        from omnigraph.api.parts import GraphSchema

        return GraphSchema(self._graph, self._gate, dependents=(self._stored, self._gate))

    @cached_property
    def maintenance(self) -> GraphMaintenance:
        """What keeps it fast and small."""
        from omnigraph.api.parts import GraphMaintenance

        return GraphMaintenance(self._graph, self._actor, self._settings)

    @classmethod
    def init(
        cls,
        path: str | Path,
        *,
        schema: str | Path,
        actor: str | None = None,
        force: bool = False,
        embedder: Embedder | None = None,
        external_blobs: Sequence[str] = (),
        settings: Settings | None = None,
    ) -> Self:
        """Create a graph and open it read-write.

        Args:
            path: a local path, `file://` or `s3://`.
            schema: `.pg` text, or the `Path` of a file.
            actor: who creates it, for the history.
            force: clear what a crashed init left; never a graph.
            embedder: as for `open`.
            external_blobs: as for `open`.
            settings: instead of those from the environment.

        Raises:
            SchemaInvalid: the schema does not compile; nothing was written.
            GraphExists, RootNotEmpty, InitInProgress: something is there; it is unchanged.
        """
        from omnigraph.graph.lifecycle.init import create_graph
        from omnigraph.graph.schema_apply.schema_text import schema_text

        settings = settings or load_process_settings()
        allow_external_blobs(external_blobs, settings.storage)
        clock = SystemClock()
        create_graph(
            _storage(path, settings),
            schema_text(schema),
            clock=clock,
            ids=UlidSource(clock),
            settings=settings.storage,
            release=version("omnigraph"),
            actor_id=checked_actor(actor),
            force=force,
        )
        return cls.open(
            path, actor=actor, embedder=embedder, external_blobs=external_blobs, settings=settings
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        mode: Literal["read_write", "read_only"] = "read_write",
        actor: str | None = None,
        policy: AccessPolicy | None = None,
        embedder: Embedder | None = None,
        external_blobs: Sequence[str] = (),
        queries: Sequence[str | Path] = (),
        settings: Settings | None = None,
    ) -> Self:
        """Open a graph. Read-only writes no byte and needs only rights to read.

        Args:
            path: a local path, `file://` or `s3://`.
            mode: `read_write` or `read_only`.
            actor: who acts, for the history and the policy.
            policy: says who may do what, as `omnigraph.load_policy` gives it; without it, whoever
                has the storage may do everything. With it and without an actor nothing is done.
            embedder: turns texts into vectors, instead of the one that the settings name.
            external_blobs: `s3://` and `file://` bases that blobs may refer below; none by default.
                A folder must exist, and no base may lie in another.
            queries: `.gq` files, and folders with them, that hold the stored queries.
            settings: instead of those from the environment.

        Raises:
            GraphNotFound: there is no graph at the path.
            QueryInvalid: stored queries do not compile against the schema of `main`; with every
                error of every file.
            StorageVersionTooNew, StorageVersionTooOld, StorageVersionMissing: not for this release.
            StorageUnsupported: the store cannot hold a graph that is written to.
            PolicyInvalid: the policy does not fit the schema of the graph.
        """
        if mode not in set(OpenMode):
            raise InvalidArgument(
                f"mode is 'read_write' or 'read_only', not {mode!r}", argument="mode"
            )
        settings = settings or load_process_settings()
        external = allow_external_blobs(external_blobs, settings.storage)
        known_actor = checked_actor(actor)
        coordinator = _coordinator(path, settings, OpenMode(mode))
        if policy is not None:
            _bind(policy, coordinator)
        stored = _stored_queries(coordinator, queries)
        engine = _engine(coordinator, settings, embedder, external)
        if settings.storage.auto_maintenance and coordinator.mode is OpenMode.READ_WRITE:
            from omnigraph.graph.maintenance.reconciler import watch_lag

            watch_lag(coordinator)
        return cls(
            coordinator,
            known_actor,
            owns=True,
            engine=engine,
            settings=settings,
            stored=stored,
            gate=Gate(policy, known_actor),
        )

    @classmethod
    def clone(
        cls,
        src: str | Path,
        dst: str | Path,
        *,
        at: str | int | None = None,
        branches: Iterable[str] | None = None,
        actor: str | None = None,
        force: bool = False,
        progress: Progress | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Make a graph of its own from another one, checked, and open it read-write.

        The clone has the schema, the rows and the branches with the ids that they have, and a
        history of its own; nobody can open it before it is complete. The source is only read.

        Args:
            src: the graph: a local path, `file://` or `s3://`.
            dst: where the clone goes, new or empty.
            at: a state as for `snapshot`, which becomes `main`; the clone has no other branch.
            branches: the branches beside `main`; all live ones by default.
            actor: who makes it, for the history.
            force: clear what a crashed init or clone left at `dst`; never a graph.
            progress: told a `StageProgress` whenever more is known.
            settings: instead of those from the environment, for both places.

        Raises:
            GraphNotFound: there is no graph at `src`.
            GraphExists, RootNotEmpty, InitInProgress: something is at `dst`; it is unchanged.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: the source has no such state.
            InvalidArgument: one place lies in the other, or both `at` and `branches` are given.
        """
        from omnigraph.graph.clone.clone import CloneRequest, clone_graph

        settings = settings or load_process_settings()
        request = CloneRequest(
            at=at,
            branches=branches,
            actor_id=checked_actor(actor),
            force=force,
            release=version("omnigraph"),
        )
        with closing(_coordinator(src, settings, OpenMode.READ_ONLY)) as source:
            clone_graph(source, _storage(dst, settings), request, settings.storage, progress)
        return cls.open(dst, actor=actor, settings=settings)

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
        """Run a read query on one snapshot.

        Args:
            source: `.gq` text.
            name: which query of the source; may be left out when there is one.
            params: values of the declared parameters.
            branch: whose head to read; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                read instead.
            executor: `local` (this process), `spark`, or `auto`: Spark if `OMNIGRAPH_ENGINE` says
                so, or where there is a session and the query is too large for this process.
            timeout_s: instead of the setting; 0 means no limit.

        Raises:
            QueryInvalid, QuerySelectionError, ParameterError: what was asked is wrong.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
            DeadlineExceeded, ResourceLimit: a budget is used up.
        """
        request = self._request(source, name, params, branch, snapshot, timeout_s)
        return self._lanes.query(request, executor)

    def prepare(self, source: str, name: str | None = None) -> PreparedQuery[QueryResult]:
        """A read query to call with `params`, `branch=`, `snapshot=` and `timeout_s=`.

        Its types are checked by each call, against the schema of what the call reads.

        Args:
            source: `.gq` text.
            name: which query of the source; may be left out when there is one.

        Raises:
            QueryInvalid: the source does not parse.
            QuerySelectionError: no such query, or it is a mutation.
        """
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
        """How a query would run; with `analyze` it runs, and the plan has measured rows and times.

        Parameters may be left out unless the query is run.

        Raises:
            as `query`.
        """
        request = self._request(source, name, params, branch, snapshot, None)
        return self._lanes.explain(request, executor, analyze=analyze)

    def _request(
        self,
        source: str,
        name: str | None,
        params: Mapping[str, object] | None,
        branch: str | None,
        snapshot: ReadTarget | None,
        timeout_s: float | None,
    ) -> QueryRequest:
        require_query(source, name, params)
        state = self._state(branch, snapshot)
        if snapshot is None and branch is None:
            branch = MAIN_BRANCH
        return QueryRequest(
            source=source,
            name=name,
            params=params,
            snapshot=state,
            target=QueryTarget(branch=branch, snapshot=None if snapshot is None else str(snapshot)),
            timeout_s=timeout_s,
        )

    def _state(
        self, branch: str | None, snapshot: ReadTarget | None, action: Action = Action.READ
    ) -> Snapshot:
        return open_state(self._graph, self._gate, action, branch=branch, snapshot=snapshot)

    def warm(self, types: Sequence[str] | None = None) -> None:
        """Have in memory now what queries on the head of `main` would bring there by and by.

        Topologies of edge types, numberings and narrow columns of node types, within the budgets of
        the caches. Answers do not depend on it.

        Args:
            types: which types, as `Person`, `node:Link` or `edge:Link`; all by default.

        Raises:
            InvalidArgument: there is no such type.
        """
        if isinstance(types, str):
            raise InvalidArgument(f"types is a list of names, not {types!r}", argument="types")
        self._engine.warm(self._state(None, None), types)

    def snapshot(self, at: ReadTarget | None = None, *, branch: str = MAIN_BRANCH) -> Snapshot:
        """The graph at a branch's head, or as it was.

        Args:
            at: a commit id, a tag, a `resolved_snapshot`, or of the branch a number or a time: a
                `datetime` or an ISO text, in UTC without a zone. Of a time it is the newest commit
                that is not after it. The head without it.
            branch: the branch.

        Raises:
            BranchNotFound, CommitNotFound: there is no such branch or commit.
            SnapshotReclaimed: its data is gone.
        """
        return open_allowed(self._graph, self._gate, Action.READ, at, branch)

    def diff(
        self,
        from_: ReadTarget,
        to: ReadTarget,
        *,
        kinds: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        ops: Iterable[str] | None = None,
    ) -> ChangeSet:
        """What differs between two states: branches, which stand for their heads, commits or tags.

        Iterate over it to read the changes in portions. Nodes come before edges, then types by
        their identity, then entities by id. What was only rewritten is no change.

        Args:
            from_: the state before.
            to: the state after; the two may lie on different branches.
            kinds: `node`, `edge`; both by default.
            types: names of types; all by default.
            ops: `insert`, `update`, `delete`; all by default.

        Raises:
            CommitNotFound: a target is no branch, no commit and no tag.
            InvalidArgument: no state has such a type, or a kind or operation is none.
            ChangeSchemaBoundary: the schemas differ in what a comparison needs.
            SnapshotReclaimed: cleanup removed one of the states.
        """
        from omnigraph.graph.changes.change_set import compare
        from omnigraph.graph.changes.entity_change import parse_filter

        wanted = parse_filter(kinds, types, ops)
        old, new = (open_readable_target(self._graph, self._gate, target) for target in (from_, to))
        return compare(self._graph, old, new, wanted)

    def export(
        self,
        *,
        types: Sequence[str] | None = None,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> Iterator[bytes]:
        """The graph as NDJSON in the load format, in chunks of at most 64 KiB, from one snapshot.

        Nodes come before edges, then types by name, then entities by id. Chunks hold whole lines,
        unless one line alone is longer.

        Args:
            types: which types, as `Person`, `node:Link` or `edge:Link`; all by default.
            branch: whose head to read; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                read instead.

        Raises:
            InvalidArgument: unknown type; before the first chunk, as the others.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        """
        from omnigraph.graph.jobs.pins import pinned
        from omnigraph.graph.ndjson.export import export_lines

        state = self._state(branch, snapshot, Action.EXPORT)
        keep = partial(pinned, self._graph, "export")
        return export_lines(self._graph.tables, state, types, pinned=keep)

    def blob(
        self,
        kind: Literal["node", "edge"],
        type: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        snapshot: ReadTarget | None = None,
    ) -> BlobReader:
        """A reader of one blob value; one outside the graph is told by its `uri` alone.

        Args:
            kind: `node` or `edge`.
            type: the name of the type.
            id: the id of the entity.
            property: a Blob property of the type.
            branch: whose head to read; `main` by default.
            snapshot: a commit id, a tag, a `resolved_snapshot`, a number or a time of `main` to
                read instead.

        Raises:
            InvalidArgument: no such kind, type or Blob property.
            BlobNotFound: no such entity, or its blob is null.
            BranchNotFound, CommitNotFound, SnapshotReclaimed: there is no such state.
        """
        from omnigraph.graph.blobs.blob_reader import BlobSelector, open_blob

        selector = BlobSelector(kind=kind, type=type, id=id, property=property)
        return open_blob(self._state(branch, snapshot), self._graph.graph_id, selector)

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
        """Run a mutation as one commit; without a change there is none.

        Args:
            source: `.gq` text.
            name: which query of the source; may be left out when there is one.
            params: values of the declared parameters.
            branch: where to write.
            if_commit: write only while this commit is the head of the branch.
            idempotency_key: the same key again gives the first receipt and writes nothing.
            timeout_s: instead of the setting; 0 means no limit. A write that has begun is finished.

        Raises:
            QueryInvalid, QuerySelectionError, ParameterError: what was asked is wrong.
            ConstraintViolation, KeyConflict: a rule of the schema is broken; nothing was written.
            ReadSetChanged: others changed what an update or delete depends on.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        from omnigraph.engine.writes.mutations import MutationRequest
        from omnigraph.graph.commit.txn import checked_key

        self._gate.require(Action.CHANGE, branch)
        self._graph.require_writable()
        require_query(source, name, params)
        request = MutationRequest(
            source=source,
            name=name,
            params=params,
            branch=BranchName(branch),
            actor_id=self._actor,
            if_commit=if_commit,
            idempotency_key=checked_key(idempotency_key),
        )
        return self._engine.mutate(self._graph.protocol, self._graph.ids, request, timeout_s)

    def load(
        self,
        source: LoadSource,
        *,
        mode: Literal["append", "merge", "update", "overwrite"],
        branch: str = MAIN_BRANCH,
        from_: str | None = None,
        format: str | None = None,
        engine: Literal["auto", "local", "spark"] = "auto",
        on_error: Literal["fail", "quarantine"] = "fail",
        rejects: str | None = None,
        max_rejects: int | None = None,
        max_reject_ratio: float | None = None,
        cascade: bool = False,
        partial: bool = False,
        embed: bool = False,
        dry_run: bool = False,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        progress: Progress | None = None,
    ) -> JobReport:
        """Load nodes and edges as one commit: all of them or nothing, but for what is set aside.

        Args:
            source: the path of an NDJSON file, a folder, a pattern of files or an `s3://` address;
                NDJSON bytes or an open binary file; or a mapping of type names to Arrow data (edges
                with `src` and `dst`).
            mode: `append` (rows must be new), `merge` (replace rows of the same id), `update`
                (change what is given of rows that exist) or `overwrite` (replace all rows of each
                type of the input).
            branch: where to write.
            from_: fork the branch from this one if it does not exist.
            format: `ndjson`, the default; tabular files need the load of `pipeline()`.
            engine: `local` (in this process), `spark`, or `auto`: Spark for what is not one file of
                moderate size and wherever a session is active, unless the settings say otherwise.
            on_error: what bad rows do: `fail` refuses the load, `quarantine` sets them aside in
                `rejects` and commits the rest.
            rejects: the folder, local or `s3://`, that gets a folder with the bad rows of this
                load, also where it fails.
            max_rejects: more bad rows than this fail the load; the setting by default.
            max_reject_ratio: so does a larger part of what was read; the setting by default.
            cascade: `quarantine` sets nodes aside too that are left without a required edge.
            partial: a `merge` keeps the values that a row does not give, as `update` always does.
            embed: fill nullable `@embed` vectors too, not only the required ones.
            dry_run: check everything and report, write nothing.
            if_commit: write only while this commit is the head of the branch.
            idempotency_key: the same key again gives the first receipt and writes nothing.
            progress: told a `StageProgress` (`omnigraph.graph.jobs.stage_progress`) whenever more
                is known: the stage, its tasks on Spark, its rows and bytes.

        Raises:
            SourceError: the input is missing or cannot be read.
            LoadRejected, KeyConflict: records are bad; details have up to 1,000 with their lines.
            BranchNotFound: there is no such branch, and none to fork it from.
            ReadSetChanged: others changed what an overwrite depends on.
            PreconditionFailed: the head is not the given `if_commit`.
        """
        from omnigraph.api.load_source import (
            choose_lane,
            has_active_session,
            read_content,
            require_graph_lines,
            source_name,
        )
        from omnigraph.engine.writes.loads import LoadInput
        from omnigraph.graph.load.load_branch import require_load
        from omnigraph.graph.load.request import parse_load_request

        base = require_load(self._graph, self._gate, branch, from_)
        self._graph.require_writable()
        request = parse_load_request(
            self._settings,
            self._actor,
            mode=mode,
            branch=branch,
            from_=base,
            on_error=on_error,
            rejects=rejects,
            max_rejects=max_rejects,
            max_reject_ratio=max_reject_ratio,
            cascade=cascade,
            partial=partial,
            embed=embed,
            dry_run=dry_run,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
        )
        lane = choose_lane(
            source,
            format=format,
            engine=self._settings.spark.engine if engine == "auto" else engine,
            most_bytes=self._settings.spark.min_input_bytes,
            has_session=has_active_session(),
        )
        require_graph_lines(source, format)
        if lane.engine == "spark" and isinstance(source, str | Path):
            from omnigraph.pipeline.sources.request import SourceRequest

            with self.pipeline() as pipeline:
                rows = SourceRequest(source=source, format=format)
                return pipeline.load_rows(rows, request, progress=progress)
        given = LoadInput(
            content=read_content(source, most_bytes=self._settings.spark.min_input_bytes),
            source=source_name(source),
            concurrency=self._settings.client.load_concurrency,
            max_violations=self._settings.pipeline.max_violations,
        )
        return self._engine.load(self._graph, given, request, progress=progress)

    def pipeline(self, spark: Spark | None = None, *, shared_filesystem: bool = False) -> Pipeline:
        """Jobs on Spark; the first call that imports PySpark.

        Args:
            spark: the session to use; without it the active one, else one that is started from the
                settings and stopped when the pipeline is closed.
            shared_filesystem: every executor sees the path of the graph, although it is local.

        Raises:
            SparkNotInstalled: PySpark or Java 17 is missing.
            SparkUnavailable: Spark did not start, or its endpoint does not answer.
        """
        from omnigraph.pipeline.pipeline import Pipeline

        return Pipeline(
            self._graph,
            self._settings,
            actor_id=self._actor,
            external=self._engine.external_blobs,
            embedder=self._engine.given_embedder,
            spark=spark,
            shared_filesystem=shared_filesystem,
            gate=self._gate,
        )

    def write(self, branch: str = MAIN_BRANCH, *, if_commit: str | None = None) -> Writer:
        """Begin a transactional write; leaving its block without `commit()` writes nothing.

        Raises:
            ReadOnlyGraph: the graph is open read-only.
            BranchNotFound: there is no such branch.
        """
        from omnigraph.graph.commit.txn import WriteRequest
        from omnigraph.graph.manifest.intent import SidecarKind
        from omnigraph.graph.writer import Writer

        self._gate.require(Action.CHANGE, branch)
        self._graph.require_writable()
        request = WriteRequest(
            kind=SidecarKind.MUTATION,
            branch=BranchName(branch),
            actor_id=self._actor,
            if_commit=if_commit,
        )
        start = open_snapshot(self._graph, None, branch)
        return Writer(
            self._graph.protocol,
            self._graph.ids,
            request,
            start,
            external_blobs=self._engine.external_blobs,
        )

    def refresh(self) -> None:
        """See the newest heads; finishes writes that only lack their publish, never restores."""
        self._graph.refresh()

    def system(self, name: str) -> pa.Table:
        """`graph_commits`, `graph_commit_recoveries` or `manifest` as an Arrow table.

        Raises:
            InvalidArgument: there is no such table.
        """
        from omnigraph.graph.history.system_tables import system_table

        self._gate.require(Action.READ)
        return system_table(self._graph.lines, name)

    def as_actor(self, actor: str | None) -> Graph:
        """A handle on the same open graph for another actor; closing it closes nothing else."""
        return self._handle(actor, self._gate)

    def _handle(self, actor: str | None, gate: Gate) -> Graph:
        return Graph(
            self._graph,
            checked_actor(actor),
            owns=False,
            engine=self._engine,
            settings=self._settings,
            stored=self._stored,
            gate=gate,
        )

    def close(self) -> None:
        """Release leases and caches; safe twice."""
        if self._owns:
            self._engine.close()
            self._graph.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _coordinator(path: str | Path, settings: Settings, mode: OpenMode) -> GraphCoordinator:
    clock = SystemClock()
    return GraphCoordinator(
        _storage(path, settings), settings.storage, clock, UlidSource(clock), mode=mode
    )


def _stored_queries(coordinator: GraphCoordinator, places: Sequence[str | Path]) -> StoredQueries:
    """The stored queries, checked against the schema of `main`; the graph is closed if not."""
    files = read_query_files(places)
    if not files:
        return NO_STORED_QUERIES
    try:
        schema_hash = coordinator.lines.read(MAIN_BRANCH_ID).schema.schema_hash
        return compile_stored_queries(coordinator.schemas.load(schema_hash).catalog, files)
    except BaseException:
        coordinator.close()
        raise


def _bind(policy: AccessPolicy, coordinator: GraphCoordinator) -> None:
    """Hold the policy against the schema; a graph that it does not fit is not opened."""
    try:
        policy.bind(open_snapshot(coordinator, None).catalog)
    except BaseException:
        coordinator.close()
        raise


def _storage(path: str | Path, settings: Settings) -> GraphStorage:
    location = parse_location(path, settings.storage)
    return open_storage(location, settings.storage, UlidSource(SystemClock()))


def _engine(
    coordinator: GraphCoordinator,
    settings: Settings,
    embedder: Embedder | None,
    external: ExternalBlobs = DENY_ALL,
) -> Engine:
    vectors = QueryEmbedder(settings.embedding, coordinator.clock, embedder)
    return Engine(
        coordinator.tables, settings.queries, coordinator.clock, vectors, external_blobs=external
    )
