"""`clone`: a graph of its own, made of the states of another one.

It has the schema with its ids, the rows with theirs, and the branches where they forked; history is
not copied, a clone begins its own. Until the last step nobody can take it for a graph; what fails
removes what it wrote, what is killed leaves a place that a forced clone clears.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InternalError, InvalidArgument, OmnigraphError
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.clone.cloned_lines import plan_clone
from omnigraph.graph.clone.copied_rows import Copying, types_of
from omnigraph.graph.commit.txn import PreparedWrite, WriteRequest
from omnigraph.graph.history.branches import Branches
from omnigraph.graph.history.snapshot import open_snapshot
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
from omnigraph.graph.lifecycle.init import Origin, create_graph
from omnigraph.graph.lifecycle.init_claim import release_claim
from omnigraph.graph.lifecycle.unfinished import finish, remove_unfinished
from omnigraph.graph.maintenance.ensure_indices import ensure_indices
from omnigraph.graph.maintenance.verify import verify
from omnigraph.graph.manifest.intent import SidecarKind
from omnigraph.ids import BranchName
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.clone.cloned_lines import ClonedLine
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.graph.history.targets import ReadTarget
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.settings import StorageSettings
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.location import GraphLocation

log = logging.getLogger(__name__)

_OF_THE_COPY = frozenset({"manifest", "version", "row_count", "drift", "files", "index"})
"""The checks of a verification that a copy has to pass whatever its rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneRequest:
    """What is asked."""

    at: ReadTarget | None = None
    """A state that becomes `main`, alone."""
    branches: Iterable[str] | None = None
    """The branches beside `main`; all live ones by default."""
    actor_id: str | None = None
    force: bool = False
    release: str = ""


def clone_graph(
    source: GraphCoordinator,
    target: GraphStorage,
    request: CloneRequest,
    settings: StorageSettings,
    progress: Progress | None = None,
) -> None:
    """Clone an open graph to a place where there is none.

    Raises:
        InvalidArgument: the places overlap, or what is asked makes no sense.
        BranchNotFound, CommitNotFound, SnapshotReclaimed: the source has no such state.
        GraphExists, RootNotEmpty, InitInProgress: something is at the target; it is unchanged.
    """
    require_apart(source.storage.location, target.location)
    main = plan_clone(source, request.at, request.branches)
    schema_hash = main.head.schema_hash
    create_graph(
        target,
        source.schemas.source(schema_hash),
        clock=source.clock,
        ids=source.ids,
        settings=settings,
        release=request.release,
        actor_id=request.actor_id,
        force=request.force,
        origin=Origin(
            accepted=source.schemas.load(schema_hash), stats=_stats(source, main, main.head)
        ),
    )
    graph = GraphCoordinator(target, settings, source.clock, source.ids, fills_clone=True)
    try:
        filling = _Filling(source, graph, request, progress or _silent, rows=_rows(main))
        filling.fill(main)
        maybe_fail("clone.post_fill")
        filling.check(main)
        graph.close()
        finish(target, graph.stamp.claim_id)
    except BaseException:
        graph.close()
        _take_back(target, graph.stamp.claim_id)
        raise


def require_apart(source: GraphLocation, target: GraphLocation) -> None:
    """Refuse a clone into itself: nothing else may lie below the root of a graph.

    Raises:
        InvalidArgument: one place is, or lies in, the other.
    """
    one, other = f"{source}/", f"{target}/"
    if one.startswith(other) or other.startswith(one):
        raise InvalidArgument(
            f"a clone of {source} cannot be made at {target}: one lies in the other; give a place"
            " outside",
            argument="dst",
        )


@dataclass(kw_only=True)
class _Told:
    """How far the copying is."""

    progress: Progress
    total_rows: int
    rows: int = 0

    def add(self, rows: int) -> None:
        self.rows += rows
        total = max(self.rows, self.total_rows)
        self.progress(StageProgress(stage="copy", rows=self.rows, total_rows=total))


@dataclass
class _Filling:
    """Writes the states of the source into the clone, branch by branch."""

    source: GraphCoordinator
    graph: GraphCoordinator
    request: CloneRequest
    progress: Progress
    rows: int = field(kw_only=True)

    def __post_init__(self) -> None:
        self._told = _Told(progress=self.progress, total_rows=self.rows)
        self._told.add(0)

    def fill(self, line: ClonedLine) -> None:
        """Bring a branch through its states, and fork its children on the way."""
        branches = Branches(self.graph)
        current = line.start
        for state in line.states:
            self._commit(line, current, state)
            current = state
            ensure_indices(self.graph, branch=line.name, actor_id=self.request.actor_id)
            for child in line.forking_at(state):
                branches.create(child.name, line.name, actor_id=self.request.actor_id)
        for child in line.children:
            self.fill(child)

    def _commit(self, line: ClonedLine, before: Snapshot | None, after: Snapshot) -> None:
        copying = Copying(
            source=self.source.tables, before=before, after=after, tell=self._told.add
        )
        request = WriteRequest(
            kind=SidecarKind.LOAD,
            branch=BranchName(line.name),
            actor_id=self.request.actor_id,
        )

        def prepare(txn: WriteTxn) -> PreparedWrite:
            staged = (copying.staged(txn, item) for item in copying.types())
            return PreparedWrite(
                staged=tuple(write for write in staged if write is not None),
                stats=_stats(self.source, line, after),
            )

        self.graph.protocol.run(request, prepare)

    def check(self, main: ClonedLine) -> None:
        """Hold every branch of the clone against the source, and verify it as a graph of its own.

        Rows that break a rule are in the source, too, and no fault of the copy.

        Raises:
            InternalError: a table has another number of rows, or the clone is not sound.
        """
        self.progress(StageProgress(stage="check"))
        for line in main.family():
            copy = open_snapshot(self.graph, None, line.name)
            for item in types_of(copy):
                found, wanted = self.graph.tables.count(copy.handle(item)), line.head.pin(item)
                if found != wanted.row_count:
                    raise InternalError(
                        f"the clone of {wanted.table_key} on {line.name!r} has {found} rows, the"
                        f" source {wanted.row_count}; nothing is left of it",
                        branch=line.name,
                        table=wanted.table_key,
                    )
        faults = [each for each in verify(self.graph).problems if each.check in _OF_THE_COPY]
        if faults:
            raise InternalError(
                f"the clone is not sound: {faults[0].message}; nothing is left of it",
                problems=[each.to_dict() for each in faults],
            )


def _stats(source: GraphCoordinator, line: ClonedLine, state: Snapshot) -> dict[str, Any]:
    """What a commit of the clone keeps of where its content is from."""
    return {
        "clone": {
            "graph_id": source.graph_id,
            "branch": line.name,
            "graph_commit_id": state.graph_commit_id,
        }
    }


def _rows(main: ClonedLine) -> int:
    """The rows of `main`; what branches have otherwise is not known before it is compared."""
    return sum(table.entity_count for table in main.head.tables)


def _take_back(target: GraphStorage, claim_id: str) -> None:
    """Remove a clone that failed; if that fails too, a forced clone does it."""
    try:
        remove_unfinished(target, lambda: None)
        release_claim(target.objects, claim_id)
    except (OmnigraphError, StorageSignal) as error:
        log.warning("a failed clone left its files", extra={"cause": str(error)})


def _silent(progress: StageProgress) -> None:
    """Nobody wants to know."""
