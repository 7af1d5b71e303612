"""`verify`: whether a graph is what it says it is; reads, and writes no byte.

The manifest of every branch, the versions that heads show, their row counts, every rule of the
schema over whole tables, and a sample of what indexes find. A deep look also reads every column of
every row and the end of every file of blobs, opens the versions of older commits and looks for
their files, and for files that nothing names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.errors import (
    BranchNotFound,
    OmnigraphError,
    RecoveryBlocked,
    StorageVersionTooNew,
)
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.maintenance.drift import find_drift
from omnigraph.graph.maintenance.history_checks import HistoryChecks
from omnigraph.graph.maintenance.index_checks import lying_indexes
from omnigraph.graph.maintenance.leftovers import TABLE_FOLDERS
from omnigraph.graph.maintenance.manifest_checks import contradictions
from omnigraph.graph.maintenance.stored_image import StoredImage
from omnigraph.graph.maintenance.table_work import silent
from omnigraph.graph.maintenance.verify_report import Problem, VerifyReport
from omnigraph.graph.manifest.table_refs import pin_of, ref_of
from omnigraph.graph.validation.bare_nodes import (
    bare_nodes_text,
    count_bare,
    required_edges,
    stored_ids,
)
from omnigraph.lang.catalog import EdgeType
from omnigraph.storage.signals import StorageSignal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.manifest.manifest_line import ManifestLine
    from omnigraph.graph.manifest.rows import PinRow, TableRef
    from omnigraph.graph.manifest.table_refs import CatalogTables
    from omnigraph.ids import BranchId
    from omnigraph.lang.catalog import NodeType
    from omnigraph.storage.handles import Pin, TableHandle

_FAILURES = (OmnigraphError, StorageSignal)


def verify(
    graph: GraphCoordinator,
    *,
    branch: str | None = None,
    deep: bool = False,
    progress: Progress | None = None,
) -> VerifyReport:
    """Look at one branch, or at all of them.

    Raises:
        BranchNotFound: there is no such branch.
    """
    chosen = graph.lines.live_branch_ids()
    if branch is not None:
        wanted = graph.branch_id(branch)
        chosen = {wanted: chosen[wanted]}
    work = _Verifying(graph, progress or silent, deep=deep)
    for branch_id, name in chosen.items():
        work.look_at(branch_id, name)
    if deep and branch is None:
        work.look_for_strays()
    return VerifyReport(
        deep=deep,
        branches=tuple(chosen.values()),
        tables=len(work.seen),
        rows=work.rows,
        problems=tuple(work.problems),
        notes=tuple(work.notes),
    )


class _Verifying:
    """One verification: what it has looked at, and found."""

    def __init__(self, graph: GraphCoordinator, progress: Progress, *, deep: bool) -> None:
        self._graph = graph
        self._progress = progress
        self._deep = deep
        self.seen: set[Pin] = set()
        self._history = HistoryChecks(graph, self.seen)
        self._schemas: set[str] = set()
        self._judged: set[tuple[Pin, ...]] = set()
        self._locations: set[str] = set()
        self.rows = 0
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def look_at(self, branch_id: BranchId, name: str) -> None:
        """One branch; nothing is wrong with one that is deleted meanwhile."""
        problems, notes = len(self.problems), len(self.notes)
        self._look_at_branch(branch_id, name)
        if len(self.problems) > problems and branch_id not in self._graph.lines.live_branch_ids():
            del self.problems[problems:]
            del self.notes[notes:]

    def look_for_strays(self) -> None:
        """Tell of folders of tables that no branch registers; call when all were looked at."""
        objects = self._graph.storage.objects
        folders = {f"{kind}/{name}" for kind in TABLE_FOLDERS for name in objects.folders(kind)}
        for location in sorted(folders - self._locations):
            self.notes.append(f"the folder {location} belongs to no table")

    def _look_at_branch(self, branch_id: BranchId, name: str) -> None:
        try:
            line = self._graph.lines.read(branch_id)
            told = contradictions(self._graph, line, self._schemas)
            self._found(name, None, "manifest", told)
            pins = line.pins
            tables = self._graph.schemas.tables(line.schema.schema_hash)
            self._locations |= {row.location for row in line.registrations()}
        except BranchNotFound:
            self._problem(
                name, None, "manifest", "the line of the branch is gone; restore __manifest"
            )
            return
        except _FAILURES as error:
            self._problem(name, None, "manifest", str(error))
            return
        try:
            self._look_for_drift(line, name)
        except _FAILURES as error:
            self._problem(name, None, "drift", str(error))
        handles = {
            ref: handle
            for ref, pin in pins.items()
            if ref in tables.types and (handle := self._opened(name, pin, tables)) is not None
        }
        image = StoredImage(catalog=tables.catalog, store=self._graph.tables, handles=handles)
        for number, ref in enumerate(sorted(handles)):
            self._progress(StageProgress(stage="tables", done=number, total=len(handles)))
            self._look_at_table(name, image, tables, ref)
        self._look_for_bare_nodes(name, image)
        if self._deep:
            self._look_at_history(line, name)

    def _look_for_bare_nodes(self, name: str, image: StoredImage) -> None:
        """Tell of nodes that wait for an edge which they need: no write is to blame for them."""
        store = self._graph.tables
        for item in required_edges(image.catalog):
            edges = image.handles.get(ref_of(item))
            nodes = image.handles.get(ref_of(image.catalog.node_types[item.from_type]))
            if edges is None or nodes is None:
                continue  # What cannot be opened was told.
            try:
                count = count_bare(store, edges, stored_ids(store, nodes))
            except _FAILURES as error:
                self._problem(name, edges.layout.table_key, "files", str(error))
                continue
            if count:
                self.notes.append(f"{name}: {bare_nodes_text(item, count)}")

    def _look_for_drift(self, line: ManifestLine, name: str) -> None:
        for path in self._graph.sidecars.of(line.branch_id):
            try:
                sidecar = self._graph.sidecars.read(path, line.branch_id)
            except (RecoveryBlocked, StorageVersionTooNew) as error:
                self._problem(name, None, "drift", error.message)
                continue
            if sidecar is None:
                continue  # Its writer has ended.
            self.notes.append(
                f"{name}: the write {path.operation_id} is under way, or was interrupted and is"
                " settled by the next write"
            )
            blocked = self._graph.recovery.why_blocked(sidecar)
            if blocked is not None:
                self._problem(name, blocked.details.get("table"), "drift", blocked.message)
        for drift in find_drift(self._graph, line):
            self._problem(
                name,
                drift.pinned.table_key,
                "drift",
                f"version {drift.pinned.version} is pinned and {drift.head} is the newest"
                f" ({drift.drift_class}): run `omnigraph repair`",
            )

    def _opened(self, name: str, pin: PinRow, tables: CatalogTables) -> TableHandle | None:
        """The table at its pin, if it can be opened and has the rows that the pin tells."""
        try:
            handle = self._graph.tables.open(tables.layouts[pin.ref], pin_of(pin))
            count = self._graph.tables.count(handle)
        except _FAILURES as error:
            self._problem(name, pin.table_key, "version", f"version {pin.version}: {error}")
            return None
        if count != pin.row_count:
            self._problem(
                name,
                pin.table_key,
                "row_count",
                f"version {pin.version} has {count:,} rows, and its commit tells {pin.row_count:,}",
            )
        return handle

    def _look_at_table(
        self, name: str, image: StoredImage, tables: CatalogTables, ref: TableRef
    ) -> None:
        handle, item = image.handles[ref], tables.types[ref]
        ends = [item.from_type, item.to_type] if isinstance(item, EdgeType) else []
        nodes = {node.name: each for each, node in tables.types.items() if not _is_edge(node)}
        if any(nodes[end] not in image.handles for end in ends):
            return  # What cannot be opened was told.
        judged = (handle.pin, *(image.handles[nodes[end]].pin for end in ends))
        is_new = handle.pin not in self.seen
        self.seen.add(handle.pin)
        key = str(handle.layout.table_key)
        try:
            if judged not in self._judged:
                self._judged.add(judged)
                for broken in image.broken_rules(item):
                    self._problem(name, key, broken.rule, broken.message, broken.count)
            if is_new:
                self._look_at_rows(name, image, item)
        except _FAILURES as error:
            self._problem(name, key, "files", str(error))

    def _look_at_rows(self, name: str, image: StoredImage, item: NodeType | EdgeType) -> None:
        handle = image.handles[ref_of(item)]
        key, count = str(handle.layout.table_key), self._graph.tables.count(handle)
        self.rows += count
        for index, missed in lying_indexes(self._graph.tables, handle, deep=self._deep):
            message = f"the index {index} does not find rows that it covers; build it anew"
            self._problem(name, key, "index", message, missed)
        if not self._deep:
            return
        for prop in handle.layout.blobs:
            self._look_at_blobs(name, handle, prop)
        read = _Counted(self._graph.tables.scan(handle))
        for broken in image.unfit_values(item, read):
            self._problem(name, key, broken.rule, broken.message, broken.count)
        if read.rows != count:
            self._problem(name, key, "files", f"{read.rows:,} rows can be read")

    def _look_at_blobs(self, name: str, handle: TableHandle, prop: str) -> None:
        lost = list(self._graph.tables.lost_blobs(handle, prop))
        if lost:
            message = f"the bytes of {prop} of {lost[0]!r} are gone; restore them"
            self._problem(name, handle.layout.table_key, "files", message, len(lost))

    def _look_at_history(self, line: ManifestLine, name: str) -> None:
        for found in self._history.look_at(line):
            if isinstance(found, str):
                self.notes.append(f"{name}: {found}")
            else:
                self._problem(name, found.table_key, found.check, found.message)

    def _found(self, name: str, key: str | None, check: str, messages: Iterator[str]) -> None:
        for message in messages:
            self._problem(name, key, check, message)

    def _problem(self, name: str, key: object, check: str, message: str, count: int = 1) -> None:
        self.problems.append(
            Problem(
                branch=name,
                table_key=None if key is None else str(key),
                check=check,
                message=message,
                count=count,
            )
        )


class _Counted:
    """Batches, and how many rows they had."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _is_edge(item: object) -> bool:
    return isinstance(item, EdgeType)
