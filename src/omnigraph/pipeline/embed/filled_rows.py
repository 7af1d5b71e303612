"""The rows of a table that get vectors: written by tasks, put together by the driver.

What was written is kept over the attempts of a commit. A fragment that nobody touched since has the
same rows, so only the tasks of the others run again. When others changed rows that are not of
concern while the commit waited for its turn, the rows that were written are kept as well, and only
the marks of deleted ones are made again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from omnigraph.errors import InternalError, ReadSetChanged
from omnigraph.graph.commit.protocol import Stale
from omnigraph.pipeline.embed.fill import Filled, FillTask, fill
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.key_frames import group_fragments
from omnigraph.pipeline.staging.result_row import RESULT, read_result
from omnigraph.pipeline.upsert.written_update import WrittenUpdate
from omnigraph.storage.staged_fragments import PieceKind, join_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.graph.jobs.stage_times import StageTimes
    from omnigraph.pipeline.embed.fill import FillTarget
    from omnigraph.pipeline.embed.targets import EmbedMode
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.handles import Pin, StagedWrite, TableHandle, WriteStamp
    from omnigraph.storage.sizes import FragmentInfo
    from omnigraph.storage.staged_fragments import Pieces
    from omnigraph.storage.table_storage import TableStorage

RESOLVE: Final = "resolve"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillPlan:
    """What stays the same over the attempts of a job, as long as the schema does."""

    root: str
    folder: str
    """What only this job uses, and removes in the end."""
    targets: tuple[FillTarget, ...]
    mode: EmbedMode
    batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Fragments as they were read, and what one task made of them."""

    fragments: tuple[FragmentInfo, ...]
    filled: Filled


class FilledRows:
    """What the tasks of one job wrote to one table."""

    def __init__(self, storage: GraphStorage, lane: TaskLane, times: StageTimes) -> None:
        self._storage = storage
        self._store: TableStorage = storage.tables
        self._lane = lane
        self._times = times
        self._plan: FillPlan | None = None
        self._captured: Pin | None = None
        self._base: TableHandle | None = None
        self._groups: list[_Group] = []
        self._tasks = 0
        self.written: list[str] = []
        """Every file below the root that tasks told of."""
        self.taken: frozenset[str] = frozenset()
        """The files of what was staged last."""

    @property
    def read(self) -> int:
        """Rows that want a vector."""
        return sum(each.filled.read for each in self._groups)

    @property
    def changed(self) -> int:
        """Rows that got one."""
        return sum(each.filled.changed for each in self._groups)

    def fill(self, plan: FillPlan, captured: Pin, base: TableHandle) -> None:
        """Have every fragment of a table filled that is not yet, as it is now.

        Args:
            plan: what is filled.
            captured: the pin in force; on the first write of a branch that of another line.
            base: the table on the line that is written to.
        """
        now = {each.fragment_id: each for each in self._store.fragments(base)}
        if not self._can_keep(plan, captured, base):
            self._groups = []
        self._groups = [
            group
            for group in self._groups
            if all(now.get(each.fragment_id) == each for each in group.fragments)
        ]
        self._plan, self._captured, self._base, self.taken = plan, captured, base, frozenset()
        done = {each.fragment_id for group in self._groups for each in group.fragments}
        self._run(plan, base, [each for number, each in now.items() if number not in done])

    def stage(self, stamp: WriteStamp) -> StagedWrite:
        """All that was written, as one update of the table that was filled last."""
        if self._base is None:
            raise InternalError("rows are staged before they were filled; please report this")
        pieces = join_pieces(each.filled.pieces for each in self._groups)
        return self._staged(self._base, pieces, stamp)

    def _can_keep(self, plan: FillPlan, captured: Pin, base: TableHandle) -> bool:
        """Whether files of earlier attempts are for this plan, and on a line that is still there.

        A line that was made for a branch, and was never committed to, is made anew when the branch
        shows another version; its files go with it.
        """
        if self._base is None or self._captured is None:
            return False
        before = self._base.pin
        is_same_line = (before.location, before.branch) == (base.pin.location, base.pin.branch)
        was_committed = self._captured.branch == before.branch
        return plan == self._plan and is_same_line and (was_committed or self._captured == captured)

    def _run(self, plan: FillPlan, base: TableHandle, fragments: Sequence[FragmentInfo]) -> None:
        by_number = {each.fragment_id: each for each in fragments}
        groups = group_fragments(fragments)
        tasks = [
            FillTask(
                root=plan.root,
                table=TaskTable(layout=base.layout, pin=base.pin),
                fragments=group,
                targets=plan.targets,
                mode=plan.mode,
                folder=plan.folder,
                number=number,
                batch_bytes=plan.batch_bytes,
            )
            for number, group in enumerate(groups, start=self._tasks)
        ]
        self._tasks += len(tasks)
        retries = 0
        for group, result in zip(groups, self._lane.run(RESOLVE, tasks, fill, RESULT), strict=True):
            filled = read_result(
                result.batches[0], Filled, "filling vectors gave a {}; please report this"
            )
            self._groups.append(
                _Group(fragments=tuple(by_number[each] for each in group), filled=filled)
            )
            self._note(base, filled.pieces)
            retries += result.attempt - 1
        self._times.count(tasks=len(tasks), retries=retries)

    def _note(self, base: TableHandle, pieces: Pieces) -> None:
        self.written += self._store.piece_files(base, pieces)

    def _staged(self, base: TableHandle, pieces: Pieces, stamp: WriteStamp) -> StagedWrite:
        staged = self._store.stage_pieces(base, PieceKind.UPDATE, pieces, stamp)
        self.taken = frozenset(staged.files)
        return replace(
            staged, rebase=partial(self._moved, stamp), restaged_rows=staged.rows_changed
        )

    def _moved(self, stamp: WriteStamp, newer: TableHandle) -> StagedWrite:
        """The same update on a newer version, in which none of its rows is another.

        Raises:
            Stale: a row that was filled is gone.
        """
        if self._base is None:
            raise InternalError("rows are moved before they were filled; please report this")
        moved = WrittenUpdate(
            pieces=join_pieces(each.filled.pieces for each in self._groups),
            fragments={
                each.fragment_id: each for group in self._groups for each in group.fragments
            },
            replaced={
                number: (offsets,)
                for group in self._groups
                for number, offsets in group.filled.replaced.items()
            },
        ).moved_to(self._storage, self._base, newer)
        if moved is None:
            raise Stale(_rewritten(newer))
        self._note(newer, moved)
        return self._staged(newer, moved, stamp)


def _rewritten(table: TableHandle) -> ReadSetChanged:
    return ReadSetChanged(
        f"{table.layout.table_key} was rewritten while vectors were filled; run embed again",
        member=table.layout.table_key,
        expected=None,
        actual=str(table.pin.version),
    )
