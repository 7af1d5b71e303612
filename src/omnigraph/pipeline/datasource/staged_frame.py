"""What the tasks of a data source staged: whose it is, and the load that commits it.

Spark may abort a write whose commit failed, or still runs in a process that nobody hears of any
more. Whoever first creates the claim of the write has the files of its tasks: a commit from the
moment it takes them in, and then the load removes what is not committed; or an abort, and then no
commit can take them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import Cancelled, ReadSetChanged, StorageUnavailable
from omnigraph.pipeline.intake.inputs import Position
from omnigraph.pipeline.spark.tasks import TaskResult
from omnigraph.pipeline.staging.result_row import result_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.intake.inputs import JobInput, Where
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.pipeline.staging.part_result import IntakeResult

_PROBES_AT_ONCE: Final = 8


@dataclass(frozen=True, kw_only=True)
class StagedFiles:
    """The files of one write."""

    graph: GraphCoordinator
    plan: IntakePlan
    results: Sequence[IntakeResult]

    def claim(self) -> bool:
        """Have the files; `False` if somebody else has them."""
        from omnigraph.storage.objects import encode
        from omnigraph.storage.signals import AlreadyExists

        owner = encode({"claim": self.graph.ids.next_ulid()})
        try:
            self.graph.storage.objects.create(self._claim_path, owner)
        except AlreadyExists:
            return False
        return True

    def end_claim(self) -> None:
        """Forget who has the files: it is decided what became of them."""
        self.graph.storage.objects.delete(self._claim_path)

    def forget_paid(self) -> None:
        """Delete the vectors that are committed; what other writes paid for is theirs."""
        for result in self.results:
            for path in result.spent_files:
                self.graph.storage.objects.delete(path)

    def require_present(self) -> None:
        """Make sure that this process sees the data files of every task.

        Raises:
            StorageUnavailable: it does not.
        """
        objects = self.graph.storage.objects
        paths = [path for path in self.paths() if path.endswith(".lance")]
        with ThreadPoolExecutor(_PROBES_AT_ONCE) as pool:
            infos = list(pool.map(objects.head, paths))
        missing = [path for path, info in zip(paths, infos, strict=True) if info is None]
        if missing:
            raise StorageUnavailable(
                f"{len(missing):,} of {len(paths):,} files that tasks wrote are not at"
                f" {self.plan.root}, as {missing[0]}; nothing was committed; a graph on a local"
                " path needs a folder that every executor sees",
                path=missing[0],
            )

    def delete(self) -> None:
        """Delete everything that the tasks told of; a deleted branch has taken it along."""
        from omnigraph.pipeline.staging.job_files import remove_folder, staging_folder
        from omnigraph.storage.signals import ObjectMissing

        objects = self.graph.storage.objects
        try:
            paths = list(self.paths())
        except ObjectMissing:
            paths = []
        for path in paths:
            objects.delete_tree(path)
        remove_folder(self.graph.storage, staging_folder(self.plan.operation_id))

    def paths(self) -> Iterator[str]:
        """The files of the tables, below the root."""
        from omnigraph.pipeline.spark.task_storage import open_task_table

        handles = {
            ref: open_task_table(self.graph.storage, table)
            for ref, table in self.plan.tables.items()
        }
        for result in self.results:
            for ref, intake in result.tables.items():
                yield from self.graph.tables.piece_files(handles[ref], intake.pieces)

    @property
    def _claim_path(self) -> str:
        # Beside the folder of the job, because a load removes that one when it ends.
        return f"__staging/{self.plan.operation_id}.claim.json"


@dataclass(frozen=True, kw_only=True)
class StagedFrame:
    """A frame that tasks staged already, as the source of a load and its one input."""

    files: StagedFiles

    @property
    def definition(self) -> str:
        """The rows were mapped when they were staged."""
        return "staged"

    @property
    def sources(self) -> int:
        """A frame is one."""
        return 1

    @property
    def size_bytes(self) -> None:
        """Spark does not tell."""
        return

    @property
    def marks(self) -> None:
        """Nothing tells its rows from those of another frame."""
        return

    def inputs(
        self,
        catalog: Catalog,
        lane: TaskLane,  # noqa: ARG002 - as every source is asked
    ) -> Sequence[JobInput]:
        """Itself.

        Raises:
            ReadSetChanged: the rows were staged for another schema.
        """
        expected, actual = self.files.plan.catalog.schema_hash, catalog.schema_hash
        if actual != expected:
            raise _changed("schema", "the schema", expected, actual)
        return [self]

    def take(
        self,
        plan: IntakePlan,
        where: Where,  # noqa: ARG002 - it is the only input
        lane: TaskLane,  # noqa: ARG002
    ) -> list[TaskResult]:
        """What the tasks gave; from here on the files belong to the load.

        Raises:
            ReadSetChanged: the table is another one than that of the files.
            Cancelled: Spark aborted the write.
        """
        for ref, table in self.files.plan.tables.items():
            now = plan.tables[ref].pin
            if (now.location, now.branch) != (table.pin.location, table.pin.branch):
                raise _changed("branch", "the branch", table.pin.branch, now.branch)
        if not self.files.claim():
            raise Cancelled("Spark aborted this write; nothing was committed")
        try:
            self.files.require_present()
        except StorageUnavailable:
            # The load has not got them yet: they are left to the abort.
            self.files.end_claim()
            raise
        return [
            TaskResult(partition=at, attempt=1, batches=(result_row(result),))
            for at, result in enumerate(self.files.results)
        ]

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:
        """The row of the frame in the order of its partitions, counted from 1."""
        return Position(source="frame", line=sum(lines[:part]) + line)


def _changed(member: str, what: str, expected: str | None, actual: str | None) -> ReadSetChanged:
    return ReadSetChanged(
        f"{what} was replaced by another while Spark wrote the frame; nothing was committed; write"
        " it again",
        member=member,
        expected=expected,
        actual=actual,
    )
