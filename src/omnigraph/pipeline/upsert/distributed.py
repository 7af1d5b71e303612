"""An upsert on executors: ids and places are joined in Spark, rows go from file to file.

The staged rows of a table are cut into parts, each some fragments of the view. One action joins the
ids of all parts with the places of the committed rows and writes, part by part, the new forms of
rows that exist under their row ids, and the other rows as new ones. A staged fragment that brings
only new rows is taken as it is. A second action marks the old forms as deleted, each fragment of
the table once. Nothing is committed here: the pieces are put together by the driver.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InternalError
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.job_files import staging_folder
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.pipeline.staging.result_row import RESULT, RESULT_DDL, read_result, read_results
from omnigraph.pipeline.upsert.tasks import (
    COMMITTED_IDS,
    OFFSET,
    PLACES,
    STAGED_IDS,
    Deletion,
    IdScan,
    MergePart,
    MergePlan,
    PartBody,
    PartResult,
    delete_replaced,
    scan_committed,
    scan_staged,
    write_part,
)
from omnigraph.pipeline.upsert.written_update import WrittenUpdate
from omnigraph.storage.staged_fragments import Pieces, join_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.graph.jobs.stage_times import StageTimes
    from omnigraph.pipeline.spark.lanes import SparkLane
    from omnigraph.pipeline.staging.detached_views import StagedView
    from omnigraph.pipeline.upsert.tasks import Offsets
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.sizes import FragmentInfo

OFFSETS_BYTES: Final = 256 << 20
"""Offsets of replaced rows of one table that pass through the driver; more of them lie in files."""

_PART_ROWS: Final = 1 << 19
_PART_BYTES: Final = 64 << 20
_PART_FRAGMENTS: Final = 8
_DELETION_TASKS: Final = 256
_OTHERWISE: Final = "a task of an upsert gave a {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedUpsert:
    """The upserts of one job on its executors."""

    lane: SparkLane
    times: StageTimes
    storage: GraphStorage
    operation_id: str
    offsets_bytes: int = OFFSETS_BYTES

    def write(self, view: StagedView, wrote: Callable[[Pieces], None]) -> WrittenUpdate:
        """An update of the base by the rows of a view, whose ids are unique.

        Args:
            view: the rows.
            wrote: told of files as soon as a stage has made them, for whoever must remove them.

        Raises:
            InternalError: the ids of the rows, or of the table, are not unique.
            PipelineTaskError, SparkUnavailable, Cancelled: as `run_tasks` does.
        """
        store = self.storage.tables
        committed = store.fragments(view.base)
        if view.handle is None or not committed:
            return WrittenUpdate(pieces=view.pieces)
        chosen = set(view.fragments)
        parts = merge_parts(
            [each for each in store.fragments(view.handle) if each.fragment_id in chosen],
            has_blobs=bool(view.base.layout.blobs),
        )
        rows = sum(each.rows for part in parts for each in part.fragments)
        is_large = rows * OFFSET.itemsize > self.offsets_bytes
        plan = MergePlan(
            root=str(self.storage.location),
            base=TaskTable(layout=view.base.layout, pin=view.base.pin),
            view=TaskTable(layout=view.handle.layout, pin=view.handle.pin),
            offsets_folder=staging_folder(self.operation_id) if is_large else None,
        )
        results = self._write_parts(plan, parts, committed)
        written = join_pieces(each.pieces for each in results)
        wrote(written)
        replaced = _by_fragment(results)
        deleted = self._delete_replaced(plan, replaced)
        wrote(deleted)
        _require_each_replaced_once(plan, written, deleted)
        by_number = dict(zip(view.fragments, view.pieces.added, strict=True))
        kept = Pieces(added=tuple(by_number[each] for part in results for each in part.kept))
        return WrittenUpdate(
            pieces=join_pieces([kept, written, deleted]),
            fragments={each.fragment_id: each for each in committed},
            replaced=replaced,
            unchanged=sum(each.unchanged for each in results),
        )

    def _write_parts(
        self, plan: MergePlan, parts: Sequence[MergePart], committed: Sequence[FragmentInfo]
    ) -> list[PartResult]:
        """Join and write in one action: another one on the same frame would write again."""
        body = PartBody(plan=plan, parts=tuple(parts), write=write_part)

        def action() -> pa.Table:
            staged = self._staged_ids(plan, parts)
            placed = staged.join(self._committed_ids(plan, committed), "id", "left")
            # By number, so that Spark does not join small parts, which would be written in turn.
            by_part = placed.select(*PLACES).repartitionById(len(parts), "part")
            return by_part.mapInArrow(body, RESULT_DDL).toArrow()

        rows = self.lane.runner.run("resolve", action, tasks=len(parts))
        results = sorted(
            read_results(rows, PartResult, _OTHERWISE),
            key=lambda each: each.number,
        )
        if [each.number for each in results] != [each.number for each in parts]:
            raise InternalError(
                f"{plan.base.layout.table_key}: {len(parts)} parts of an upsert gave"
                f" {len(results)} results; please report this"
            )
        self.times.count(tasks=len(parts), retries=sum(each.attempt - 1 for each in results))
        return results

    def _staged_ids(self, plan: MergePlan, parts: Sequence[MergePart]) -> DataFrame:
        tasks = [
            IdScan(
                root=plan.root,
                table=plan.view,
                fragments=tuple(each.fragment_id for each in part.fragments),
                part=part.number,
            )
            for part in parts
        ]
        return self.lane.frame(tasks, scan_staged, STAGED_IDS)

    def _committed_ids(self, plan: MergePlan, fragments: Sequence[FragmentInfo]) -> DataFrame:
        tasks = [
            IdScan(root=plan.root, table=plan.base, fragments=group)
            for group in group_fragments(fragments)
        ]
        return self.lane.frame(tasks, scan_committed, COMMITTED_IDS)

    def _delete_replaced(
        self, plan: MergePlan, replaced: Mapping[int, Sequence[Offsets]]
    ) -> Pieces:
        numbers = sorted(replaced)
        count = min(len(numbers), _DELETION_TASKS)
        tasks = [
            Deletion(
                root=plan.root,
                table=plan.base,
                replaced={each: tuple(replaced[each]) for each in numbers[start::count]},
            )
            for start in range(count)
        ]
        results = self.lane.run("delete replaced", tasks, delete_replaced, RESULT)
        self.times.count(tasks=len(tasks), retries=sum(each.attempt - 1 for each in results))
        return join_pieces(read_result(each.batches[0], Pieces, _OTHERWISE) for each in results)


def _by_fragment(results: Iterable[PartResult]) -> dict[int, list[Offsets]]:
    """Which rows of each fragment of the table have a new form."""
    replaced: defaultdict[int, list[Offsets]] = defaultdict(list)
    for result in results:
        for fragment, offsets in result.replaced.items():
            replaced[fragment].append(offsets)
    return dict(replaced)


def merge_parts(fragments: Iterable[FragmentInfo], *, has_blobs: bool) -> list[MergePart]:
    """Staged fragments in parts that a task can hold; with blobs, whose size is not told, alone."""
    groups: list[list[FragmentInfo]] = []
    for each in fragments:
        held = groups[-1] if groups else []
        is_full = (
            not held
            or has_blobs
            or len(held) >= _PART_FRAGMENTS
            or sum(one.rows for one in held) + each.rows > _PART_ROWS
            or sum(one.size_bytes for one in held) + each.size_bytes > _PART_BYTES
        )
        if is_full:
            groups.append([each])
        else:
            held.append(each)
    return [MergePart(number=number, fragments=tuple(each)) for number, each in enumerate(groups)]


def _require_each_replaced_once(plan: MergePlan, written: Pieces, deleted: Pieces) -> None:
    changed = sum(each.num_rows for each in written.changed)
    if changed != deleted.rows_deleted:
        raise InternalError(
            f"{plan.base.layout.table_key}: an upsert wrote {changed} rows anew and deleted"
            f" {deleted.rows_deleted}; nothing was committed: please report this"
        )
