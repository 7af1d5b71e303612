"""The driver's side of intake: runs the splits of an input and knows where its lines are.

Results are kept: a split is taken in again only when rows of it must be left out, or when spellings
of ids that were found elsewhere concern it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from omnigraph.pipeline.intake import INTAKE_RESULT, IntakeTask, read_intake, take_in
from omnigraph.pipeline.key_columns import LINE_BITS
from omnigraph.pipeline.tasks import run_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.rows import TableRef
    from omnigraph.graph.stage_times import StageTimes
    from omnigraph.graph.validation import Findings, Violation
    from omnigraph.pipeline.intake import IntakePlan, IntakeResult
    from omnigraph.pipeline.progress import StageRunner
    from omnigraph.pipeline.session import PipelineSession
    from omnigraph.pipeline.splits import Split
    from omnigraph.storage.pieces import Pieces

_LINE_MASK: Final = (1 << LINE_BITS) - 1


@dataclass(kw_only=True)
class InputIntake:
    """The splits of one input and what became of them."""

    session: PipelineSession
    runner: StageRunner
    times: StageTimes
    splits: Sequence[Split]
    results: list[IntakeResult] = field(default_factory=list)
    written: list[tuple[TableRef, Pieces]] = field(default_factory=list)
    """Every file that a task wrote, also those that a later run of the split replaced."""

    def run(self, plan: IntakePlan) -> None:
        """Take everything in."""
        tasks = [
            IntakeTask(plan=plan, ordinal=ordinal, split=split)
            for ordinal, split in enumerate(self.splits)
        ]
        self.results = self._run(tasks)
        respelled = self._respelled()
        if respelled:
            # Edges of any split may use the old spellings.
            self.results = self._run([replace(task, respelled=respelled) for task in tasks])

    def leave_out(self, plan: IntakePlan, places: Mapping[TableRef, Sequence[int]]) -> None:
        """Take the splits that hold these rows in again, without them."""
        by_split: dict[int, dict[TableRef, set[int]]] = {}
        for ref, each in places.items():
            for place in each:
                lines = by_split.setdefault(place >> LINE_BITS, {}).setdefault(ref, set())
                lines.add(place & _LINE_MASK)
        respelled = self._respelled()
        tasks = [
            IntakeTask(
                plan=plan,
                ordinal=ordinal,
                split=self.splits[ordinal],
                dropped={ref: frozenset(lines) for ref, lines in by_table.items()},
                respelled=respelled,
            )
            for ordinal, by_table in sorted(by_split.items())
        ]
        renewed = {each.ordinal: each for each in self._run(tasks)}
        self.results = [renewed.get(each.ordinal, each) for each in self.results]

    def findings(self) -> list[Findings]:
        """What the rules of single rows found, with the lines of the files."""
        return [
            replace(
                result.findings,
                violations=tuple(
                    self._at(each, result.ordinal, each.subject.input_line)
                    for each in result.findings.violations
                ),
            )
            for result in self.results
        ]

    def located(self, findings: Findings) -> Findings:
        """Findings whose lines are places of the input, with the lines of the files."""
        return replace(
            findings,
            violations=tuple(
                each
                if each.subject.input_line is None
                else self._at(
                    each,
                    each.subject.input_line >> LINE_BITS,
                    each.subject.input_line & _LINE_MASK,
                )
                for each in findings.violations
            ),
        )

    def _at(self, violation: Violation, ordinal: int, line: int | None) -> Violation:
        if line is None:
            return violation
        split = self.splits[ordinal]
        before = sum(
            each.lines
            for each in self.results[:ordinal]
            if self.splits[each.ordinal].source == split.source
        )
        has_many = self.splits[-1].source > 0
        subject = replace(
            violation.subject,
            source=split.file.uri if has_many else None,
            input_line=before + line,
            row=ordinal << LINE_BITS | line,
        )
        return replace(violation, subject=subject)

    def _run(self, tasks: Sequence[IntakeTask]) -> list[IntakeResult]:
        found = run_tasks(self.session, "intake", tasks, take_in, INTAKE_RESULT, runner=self.runner)
        results = [read_intake(each.batches[0]) for each in found]
        self.times.count(
            tasks=len(found),
            retries=sum(each.attempt - 1 for each in found),
            rows=sum(table.read for each in results for table in each.tables.values()),
            size_bytes=sum(each.size_bytes for each in results),
        )
        self.written += [
            (ref, table.pieces) for each in results for ref, table in each.tables.items()
        ]
        return results

    def _respelled(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for result in self.results:
            for name, spellings in result.respelled.items():
                if spellings:
                    found.setdefault(name, {}).update(spellings)
        return found
