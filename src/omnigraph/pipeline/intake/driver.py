"""The driver's side of intake: runs the inputs of a load and knows where their rows are.

Results are kept: rows are staged again only when some must be left out, or when spellings of ids
that were found elsewhere concern them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.graph.load.input_place import InputPlace
from omnigraph.graph.validation.violation import InputUnit
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.intake.inputs import FrameInput, LineInput, Where
from omnigraph.pipeline.intake.part_findings import read_findings
from omnigraph.pipeline.intake.restage import RestageTask, restage
from omnigraph.pipeline.staging.part_result import IntakeResult, TableIntake
from omnigraph.pipeline.staging.result_row import RESULT, read_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Code, Findings, Violation
    from omnigraph.pipeline.files.splits import Split
    from omnigraph.pipeline.intake.inputs import JobInput, Position
    from omnigraph.pipeline.intake.row_stager import IntakePlan
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.pipeline.staging.key_frames import StagedTable
    from omnigraph.storage.graph_storage import GraphStorage
    from omnigraph.storage.staged_fragments import Pieces


@dataclass(kw_only=True)
class InputIntake:
    """The inputs of one load and what became of them."""

    job: JobContext
    inputs: Sequence[JobInput]
    results: list[IntakeResult] = field(default_factory=list)
    """One for each part; the ordinal is its position here."""
    written: list[tuple[TableRef, Pieces]] = field(default_factory=list)
    """Every file that a task wrote, also those that were replaced."""
    begins: list[Where] = field(default_factory=list)
    """Where each input begins."""
    _whole: list[IntakeResult] | None = None
    """The results before bad rows were left out."""

    @property
    def size_bytes(self) -> int | None:
        """The inputs as they are stored; `None` when it is not known of all."""
        sizes = [each.size_bytes for each in self.inputs]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def rows(self) -> int:
        """How many rows the input has for all tables."""
        return sum(table.read for each in self.results for table in each.tables.values())

    def run(self, plan: IntakePlan) -> None:
        """Take everything in."""
        self.results, self.begins, self._whole = [], [], None
        source = size_bytes = 0
        for each in self.inputs:
            where = Where(source=source, first=len(self.results))
            self.begins.append(where)
            source += each.sources
            task_results = each.take(plan, where, self.job.lane)
            results = [
                read_result(result.batches[0], IntakeResult, "an intake gave a {}")
                for result in task_results
            ]
            self.job.count(task_results)
            self.job.stages.count(
                rows=sum(table.read for result in results for table in result.tables.values()),
                size_bytes=sum(result.size_bytes for result in results),
            )
            self.results += results
            self.written += [
                (ref, table.pieces) for result in results for ref, table in result.tables.items()
            ]
            size_bytes += each.size_bytes or 0
            self.job.stages.teller.reach(Amount(rows=self.rows, size_bytes=size_bytes or None))

    def adopt(self, results: Sequence[IntakeResult], begins: Sequence[Where]) -> None:
        """Take what an earlier run of the same inputs staged."""
        self.results, self.begins = list(results), list(begins)
        self.written += [
            (ref, table.pieces) for result in results for ref, table in result.tables.items()
        ]

    def rows_read(self, ref: TableRef) -> int:
        """How many rows the input has for a table."""
        return sum(each.tables[ref].read for each in self.results if ref in each.tables)

    def rows_staged(self, ref: TableRef) -> int:
        """How many of them were not left out."""
        return sum(each.tables[ref].staged for each in self.results if ref in each.tables)

    def has_found(self, code: Code) -> bool:
        """Whether a row breaks this rule by itself."""
        return any(code in each.findings.counts for each in self.results)

    def lost_values(self) -> Iterator[str]:
        """What expressions that forgive made null, for people."""
        lost: Counter[str] = Counter()
        for each in self.results:
            lost.update(each.lost)
        for what, count in sorted(lost.items()):
            values = "1 value" if count == 1 else f"{count:,} values"
            yield f"{values} became null: {what}"

    def given_ids(self) -> frozenset[TableRef]:
        """Tables of which some row brings its id."""
        return frozenset(
            ref
            for result in self.results
            for ref, table in result.tables.items()
            if table.has_given_ids
        )

    def follow_respelled(self, plan: IntakePlan, tables: Mapping[TableRef, StagedTable]) -> bool:
        """Give edges the canonical ids of nodes that any part spelled anew; whether any was."""
        respelled = self._respelled()
        concerned = [
            ref
            for ref, table in tables.items()
            if isinstance(table.item, EdgeType)
            and {table.item.from_type, table.item.to_type} & respelled.keys()
        ]
        tasks = [
            self._restaging(plan, tables[ref], ref, result, respelled=respelled)
            for result in self.results
            for ref in concerned
            if ref in result.tables
        ]
        self._restage(tasks)
        return bool(tasks)

    def leave_out(
        self,
        plan: IntakePlan,
        tables: Mapping[TableRef, StagedTable],
        places: Mapping[TableRef, Sequence[int]],
    ) -> None:
        """Stage the parts that hold these rows again, without them."""
        lines: defaultdict[tuple[int, TableRef], set[int]] = defaultdict(set)
        for ref, each in places.items():
            for place in map(InputPlace.unpacked, each):
                lines[place.ordinal, ref].add(place.line)
        self._restage(
            [
                self._restaging(
                    plan, tables[ref], ref, self.results[ordinal], dropped=frozenset(dropped)
                )
                for (ordinal, ref), dropped in sorted(lines.items())
            ]
        )

    def reject(
        self,
        plan: IntakePlan,
        tables: Mapping[TableRef, StagedTable],
        places: Mapping[TableRef, Sequence[int]],
    ) -> None:
        """Leave rows out until `take_back`: over another state they may be good."""
        self._whole = list(self.results)
        self.leave_out(plan, tables, places)

    def take_back(self) -> None:
        """Have the rows again that were rejected before."""
        if self._whole is not None:
            self.results, self._whole = self._whole, None

    def split_of(self, ordinal: int) -> Split | None:
        """The lines that a part is; `None` if it is no part of a file of lines."""
        at = self._input_at(ordinal)
        given = self.inputs[at]
        if not isinstance(given, LineInput):
            return None
        return given.splits[ordinal - self.begins[at].first]

    def findings(self, storage: GraphStorage) -> list[Findings]:
        """What the rules of single rows found, with the lines of the files."""
        kept = read_findings(storage, (result.findings for result in self.results))
        return [
            replace(
                findings,
                violations=tuple(
                    each
                    if each.subject.input_line is None
                    else self._at(each, InputPlace(result.ordinal, each.subject.input_line))
                    for each in findings.violations
                ),
            )
            for result, findings in zip(self.results, kept, strict=True)
        ]

    def located(self, findings: Findings) -> Findings:
        """Findings whose lines are places of the input, with the lines of the files."""
        return replace(
            findings,
            violations=tuple(
                each
                if each.subject.input_line is None
                else self._at(each, InputPlace.unpacked(each.subject.input_line))
                for each in findings.violations
            ),
        )

    def position(self, place: InputPlace) -> Position:
        """Where a line of a part stands."""
        ordinal, line = place
        at = self._input_at(ordinal)
        given, first = self.inputs[at], self.begins[at].first
        parts = self.results[first : self.begins[at + 1].first if self.begins[at + 1 :] else None]
        # What a part without runs holds of a file is not known.
        has_runs = all(each.runs or not each.lines for each in parts)
        if isinstance(given, FrameInput) and has_runs:
            position = given.position_in_file(ordinal - first, line, [each.runs for each in parts])
            if position is not None:
                return position
        return given.position(ordinal - first, line, [each.lines for each in parts])

    def _input_at(self, ordinal: int) -> int:
        """Which input a part belongs to; one without parts begins where the next one does."""
        return max(number for number, where in enumerate(self.begins) if where.first <= ordinal)

    def _at(self, violation: Violation, place: InputPlace) -> Violation:
        position = self.position(place)
        is_text = isinstance(self.inputs[self._input_at(place.ordinal)], LineInput)
        has_many = sum(each.sources for each in self.inputs) > 1
        subject = replace(
            violation.subject,
            source=position.source if has_many else None,
            input_line=position.line,
            unit=InputUnit.LINE if is_text else InputUnit.ROW,
            row=place.packed,
        )
        return replace(violation, subject=subject)

    def _restaging(
        self,
        plan: IntakePlan,
        table: StagedTable,
        ref: TableRef,
        result: IntakeResult,
        *,
        dropped: frozenset[int] = frozenset(),
        respelled: Mapping[str, Mapping[str, str]] | None = None,
    ) -> RestageTask:
        (part,) = [each for each in table.parts if each.ordinal == result.ordinal]
        return RestageTask(
            root=plan.root,
            operation_id=plan.operation_id,
            ref=ref,
            item=table.item,
            before=result.tables[ref],
            part=part,
            view=table.view,
            target=plan.tables[ref],
            dropped=dropped,
            respelled=respelled or {},
        )

    def _restage(self, tasks: Sequence[RestageTask]) -> None:
        results = self.job.run("intake", tasks, restage, RESULT)
        for task, each in zip(tasks, results, strict=True):
            table = read_result(
                each.batches[0], TableIntake, "staging again gave a {}; please report this"
            )
            self.written.append((task.ref, table.pieces))
            before = self.results[task.part.ordinal]
            self.results[task.part.ordinal] = replace(
                before, tables={**before.tables, task.ref: table}
            )

    def _respelled(self) -> dict[str, dict[str, str]]:
        respelled: dict[str, dict[str, str]] = {}
        for result in self.results:
            for name, spellings in result.respelled.items():
                if spellings:
                    respelled.setdefault(name, {}).update(spellings)
        return respelled
