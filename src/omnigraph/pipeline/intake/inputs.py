"""What a load reads: files of lines, Parquet files, or frames; each takes itself in, in parts.

A part is a split of a file or a partition of a frame. Parts are numbered over the whole job, and
rows by part and line, so the driver can say where each row came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.pipeline.files.row_origin import file_numbers, find_row
from omnigraph.pipeline.files.source_errors import changes_told, reading_errors
from omnigraph.pipeline.intake.batches import (
    FrameIntake,
    RowGroupTask,
    TableTask,
    take_row_group,
    take_table,
)
from omnigraph.pipeline.intake.lines import LineTask, take_lines
from omnigraph.pipeline.spark.lanes import require_spark
from omnigraph.pipeline.staging.result_row import RESULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from omnigraph.pipeline.files.row_origin import RowRun
    from omnigraph.pipeline.files.splits import Split
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.pipeline.spark.tasks import TaskResult
    from omnigraph.pipeline.spec.column_map import RowMapping
    from omnigraph.storage.input_files import InputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The place of an input within its job."""

    source: int
    """How many sources come before it."""
    first: int
    """How many parts come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a row stands, as a user can find it."""

    source: str
    line: int


class JobInput(Protocol):
    """One input of a load."""

    @property
    def sources(self) -> int:
        """How many files or frames it is."""
        ...

    @property
    def marks(self) -> Sequence[str] | None:
        """What tells its content from any other; `None` when nothing does."""
        ...

    @property
    def size_bytes(self) -> int | None:
        """How large it is where it is stored; `None` when nobody knows."""
        ...

    def take(self, plan: IntakePlan, where: Where, lane: TaskLane) -> list[TaskResult]:
        """Stage its rows; one result for each part, in order."""
        ...

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:
        """Where a line of a part stands; `lines` says how many each part has."""
        ...


@dataclass(frozen=True, kw_only=True)
class LineInput:
    """Files of the graph format."""

    files: Sequence[InputFile]
    splits: Sequence[Split]

    @property
    def sources(self) -> int:
        """The number of files."""
        return len(self.files)

    @property
    def marks(self) -> Sequence[str]:
        """The files as they were when they were found."""
        return marks_of(self.files)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def take(self, plan: IntakePlan, where: Where, lane: TaskLane) -> list[TaskResult]:
        """Read the splits."""
        tasks = [
            LineTask(plan=plan, ordinal=where.first + at, source=where.source, split=split)
            for at, split in enumerate(self.splits)
        ]
        work = Amount(size_bytes=self.size_bytes)
        return lane.run("intake", tasks, take_lines, RESULT, work=work)

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:
        """The line of the file."""
        split = self.splits[part]
        before = sum(
            count
            for other, count in zip(self.splits[:part], lines, strict=False)
            if other.source == split.source
        )
        return Position(source=split.file.uri, line=before + line)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group of a Parquet file."""

    file: InputFile
    number: int


@dataclass(frozen=True, kw_only=True)
class ParquetInput:
    """Parquet files whose columns are taken as they are; tasks read row groups themselves."""

    files: Sequence[InputFile]
    groups: Sequence[RowGroup]
    mapping: RowMapping
    rows: int | None = None
    """Of all files, as they tell it."""

    @property
    def sources(self) -> int:
        """The number of files."""
        return len(self.files)

    @property
    def marks(self) -> Sequence[str]:
        """The files as they were when they were found."""
        return marks_of(self.files)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def take(self, plan: IntakePlan, where: Where, lane: TaskLane) -> list[TaskResult]:
        """Read the row groups."""
        numbers = {file.uri: at for at, file in enumerate(self.files)}
        tasks = [
            RowGroupTask(
                plan=plan,
                mapping=self.mapping,
                ordinal=where.first + at,
                source=where.source + numbers[group.file.uri],
                file=group.file,
                row_group=group.number,
            )
            for at, group in enumerate(self.groups)
        ]
        work = Amount(rows=self.rows, size_bytes=self.size_bytes)
        return lane.run("intake", tasks, take_row_group, RESULT, work=work)

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:
        """The row of the file, counted from 1."""
        group = self.groups[part]
        before = sum(
            count
            for other, count in zip(self.groups[:part], lines, strict=False)
            if other.file.uri == group.file.uri
        )
        return Position(source=group.file.uri, line=before + line)


@dataclass(frozen=True, kw_only=True)
class TableInput:
    """Rows in memory, of a file of CSV or made here; their columns are taken as they are."""

    name: str
    """The file, or what the rows are."""
    mapping: RowMapping
    rows: pa.Table
    size_bytes: int
    """Of the file, or of the rows."""
    marks: Sequence[str] | None = None

    @property
    def sources(self) -> int:
        """One."""
        return 1

    def take(self, plan: IntakePlan, where: Where, lane: TaskLane) -> list[TaskResult]:
        """Stage the rows, in this process."""
        task = TableTask(
            plan=plan,
            mapping=self.mapping,
            ordinal=where.first,
            source=where.source,
            rows=self.rows,
        )
        work = Amount(rows=self.rows.num_rows, size_bytes=self.size_bytes)
        return lane.run("intake", [task], take_table, RESULT, work=work)

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:  # noqa: ARG002
        """The row, counted from 1; the header of a file is none."""
        return Position(source=self.name, line=line)


@dataclass(frozen=True, kw_only=True)
class FrameInput:
    """A Spark frame whose columns are the values of a mapping."""

    name: str
    frame: DataFrame
    guarded: Callable[[], DataFrame]
    """The same, with flags in the place of values on which an expression fails."""
    mapping: RowMapping
    marks: Sequence[str] | None = None
    secrets: Sequence[str] = field(default=(), repr=False)
    """Texts that no error may show."""
    require_same: Callable[[], None] | None = None
    """Raises if what was read is not what was found."""
    files: Sequence[InputFile] = ()
    """What Spark reads, where it is known."""

    @property
    def sources(self) -> int:
        """The number of files; a frame of anything else is one."""
        return len(self.files) or 1

    @property
    def size_bytes(self) -> None:
        """Spark does not tell."""
        return None

    def take(self, plan: IntakePlan, where: Where, lane: TaskLane) -> list[TaskResult]:
        """Run the frame once."""
        body = FrameIntake(
            plan=plan,
            mapping=self.mapping,
            source=where.source,
            first=where.first,
            secrets=tuple(self.secrets),
        )
        # Without bad rows to set aside the first failure ends the job.
        frame = self.frame if plan.keeps_rejects is None else self.guarded()
        told = reading_errors(self.name, self.secrets, mapping=self.mapping, files=self.files)
        with changes_told(self.require_same), told:
            results = require_spark(lane).run_partitions("intake", frame, body, RESULT)
        if self.require_same is not None:
            self.require_same()
        return results

    def position_in_file(
        self, part: int, line: int, parts: Sequence[Sequence[RowRun]]
    ) -> Position | None:
        """The row of its file, of those that are taken, counted from 1; `None` if not known."""
        row = find_row(parts, part, line, file_numbers(self.files))
        return None if row is None else Position(source=row[0].uri, line=row[1])

    def position(self, part: int, line: int, lines: Sequence[int]) -> Position:
        """The row of the frame in the order of its partitions, counted from 1."""
        return Position(source=self.name, line=sum(lines[:part]) + line)


def marks_of(files: Sequence[InputFile]) -> list[str]:
    """What tells the content of files from any other."""
    return [f"{file.uri} {file.size_bytes} {file.mark}" for file in files]
