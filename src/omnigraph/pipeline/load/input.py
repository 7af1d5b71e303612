"""The input of a load: found once, staged once for each schema, or taken from a load cut off."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError, ReadSetChanged
from omnigraph.failpoints import maybe_fail
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.pipeline.intake.driver import InputIntake
from omnigraph.pipeline.intake.row_stager import IntakePlan
from omnigraph.pipeline.load.resume import KeptIntake, keep_intake, kept_intake, state_of
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.spec.mistakes import Mistakes
from omnigraph.pipeline.staging.vector_cache import PAID_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.intake.inputs import JobInput
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.pipeline.spark.job import JobContext
    from omnigraph.storage.handles import TableHandle


class LoadInput:
    """What a load reads, and the rows that were made of it."""

    def __init__(
        self,
        job: JobContext,
        sources: Sequence[LoadSource],
        request: LoadRequest,
        *,
        external: ExternalBlobs,
    ) -> None:
        self._job = job
        self._sources = sources
        self._request = request
        self._external = external
        self._resumes = request.resume is not None
        self._inputs: list[JobInput] = []
        self._intake: InputIntake | None = None
        self._bases: Mapping[TableRef, TableHandle] = {}
        self._planned_for: str | None = None
        self._is_taken = False
        self._has_started_over = False
        self.warnings: list[str] = []

    @property
    def digest(self) -> str:
        """What tells this input, and what is made of it, from another."""
        digest = hashlib.sha256(self._request.digested.encode())
        for source in self._sources:
            digest.update(f"{source.definition}\n".encode())
        for each in self._inputs:
            for mark in each.marks or ("?",):
                digest.update(f"{mark}\n".encode())
        return digest.hexdigest()

    @property
    def paid_folder(self) -> str:
        """Of the input, not of this run: a load that is given again pays for nothing twice."""
        return f"{PAID_FOLDER}/load-{self.digest[:32]}"

    @property
    def files(self) -> list[str]:
        """Every file below the root that tasks told of, also those that were replaced."""
        written = [] if self._intake is None else self._intake.written
        return [
            path
            for ref, pieces in written
            if ref in self._bases
            for path in self._job.graph.tables.piece_files(self._bases[ref], pieces)
        ]

    def find(self, catalog: Catalog) -> None:
        """List the inputs of all sources; rows that were staged for another schema are void."""
        self._planned_for = catalog.schema_hash
        self._is_taken = False
        inputs: list[JobInput] = []
        mistakes = Mistakes()
        for source in self._sources:
            with mistakes.of_part():
                inputs += source.inputs(catalog, self._job.lane)
        mistakes.require_none()
        self._inputs = inputs
        self._intake = InputIntake(
            job=self._job,
            inputs=self._inputs,
            written=[] if self._intake is None else self._intake.written,
        )

    def taken(
        self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]
    ) -> tuple[InputIntake, IntakePlan]:
        """The input as rows; it is taken in again only when the schema changed."""
        taken_from, self._bases = self._bases, bases
        if self._planned_for != txn.catalog.schema_hash:
            self._start_over(txn.catalog)
        elif self._is_taken and self._is_overtaken(taken_from):
            # Rows were completed from rows that are others by now.
            self.find(txn.catalog)
        if self._intake is None:
            raise InternalError("a load took its input in before it was listed; please report this")
        plan = self._plan(txn, bases)
        if not self._is_taken:
            self._job.stages.work = Amount(size_bytes=self._intake.size_bytes)
            self._job.stages.enter("intake")
            self._take(self._intake, plan, bases)
            self._job.stages.work = Amount(rows=self._intake.rows)
            self._is_taken = True
            maybe_fail("spark_load.post_intake")
        return self._intake, plan

    def _is_overtaken(self, before: Mapping[TableRef, TableHandle]) -> bool:
        """Whether rows took values from a table of which there is a newer version."""
        if not self._request.keeps_values or self._intake is None:
            return False
        refs = {ref for result in self._intake.results for ref in result.tables}
        return any(before[ref].pin != self._bases[ref].pin for ref in refs if ref in before)

    def _start_over(self, catalog: Catalog) -> None:
        """List the inputs for another schema.

        Raises:
            ReadSetChanged: that was done before: somebody changes the schema again and again.
        """
        if self._has_started_over:
            raise ReadSetChanged(
                "the schema changed twice while this load ran; load again when it stays as it is",
                member="schema",
                expected=self._planned_for,
                actual=catalog.schema_hash,
            )
        self._has_started_over = True
        self.find(catalog)

    def _plan(self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]) -> IntakePlan:
        request, settings = self._request, self._job.settings.pipeline
        return IntakePlan(
            root=self._job.root,
            operation_id=self._job.operation_id,
            authored_ms=txn.authored_at // 1_000,
            catalog=txn.catalog,
            tables={
                ref: TaskTable(layout=base.layout, pin=base.pin) for ref, base in bases.items()
            },
            external=self._external,
            embeds_nullable=request.embed,
            is_rehearsal=request.dry_run,
            block_bytes=settings.batch_bytes,
            sample=settings.max_violations,
            rows_per_file=settings.rows_per_file,
            paid_folder=self.paid_folder,
            keeps_values=request.keeps_values,
            must_exist=request.mode is LoadMode.UPDATE,
            keeps_rejects=request.rejects.max_rejects if request.rejects.are_wanted else None,
        )

    def _take(
        self, intake: InputIntake, plan: IntakePlan, bases: Mapping[TableRef, TableHandle]
    ) -> None:
        """Stage the input, or take what a load that was cut off has staged of it."""
        storage, operation_id = self._job.storage, self._job.operation_id
        is_known = all(each.marks is not None for each in self._inputs)
        can_resume = is_known and not self._request.dry_run
        state = state_of(self.digest, plan.catalog.schema_hash, bases)
        if self._resumes and can_resume:
            kept = kept_intake(storage, operation_id, state)
            if kept is not None:
                intake.adopt(kept.results, kept.begins)
                return
        if self._resumes:
            self.warnings.append(
                f"nothing of {operation_id} could be used again: the input, the schema or"
                " the tables are others, or it was cut off before its input was read; the load"
                " started over"
            )
            self._resumes = False
        intake.run(plan)
        if can_resume and self._job.settings.pipeline.resume:
            kept = KeptIntake(results=intake.results, begins=intake.begins)
            keep_intake(storage, operation_id, state, kept)
