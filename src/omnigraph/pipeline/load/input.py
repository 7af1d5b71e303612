"""The input of a load: found once, staged once for each schema, or taken from a load cut off."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from omnigraph.errors import InternalError, ReadSetChanged
from omnigraph.failpoints import maybe_fail
from omnigraph.pipeline.intake.driver import InputIntake
from omnigraph.pipeline.intake.row_stager import IntakePlan
from omnigraph.pipeline.load.resume import KeptIntake, keep_intake, kept_intake, state_of
from omnigraph.pipeline.spark.stage_teller import Amount
from omnigraph.pipeline.spark.task_storage import TaskTable
from omnigraph.pipeline.staging.vector_cache import PAID_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang.catalog import Catalog
    from omnigraph.pipeline.intake.inputs import JobInput
    from omnigraph.pipeline.load.load_run import LoadRun
    from omnigraph.pipeline.sources.sources import LoadSource
    from omnigraph.storage.handles import TableHandle


class LoadInput:
    """What a load reads, and the rows that were made of it."""

    def __init__(
        self,
        run: LoadRun,
        sources: Sequence[LoadSource],
        *,
        external: ExternalBlobs,
        resumes: bool,
    ) -> None:
        self._run = run
        self._sources = sources
        self._external = external
        self._resumes = resumes
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
        found = hashlib.sha256(self._run.options.digested.encode())
        for source in self._sources:
            found.update(f"{source.definition}\n".encode())
        for each in self._inputs:
            for mark in each.marks or ("?",):
                found.update(f"{mark}\n".encode())
        return found.hexdigest()

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
            for path in self._run.graph.tables.piece_files(self._bases[ref], pieces)
        ]

    def find(self, catalog: Catalog) -> None:
        """List the inputs of all sources; rows that were staged for another schema are void."""
        self._planned_for = catalog.schema_hash
        self._is_taken = False
        self._inputs = [
            each for source in self._sources for each in source.inputs(catalog, self._run.session)
        ]
        self._intake = InputIntake(
            session=self._run.session,
            runner=self._run.runner,
            times=self._run.times,
            inputs=self._inputs,
            written=[] if self._intake is None else self._intake.written,
        )

    def taken(
        self, txn: WriteTxn, bases: Mapping[TableRef, TableHandle]
    ) -> tuple[InputIntake, IntakePlan]:
        """The input as rows; it is taken in again only when the schema changed."""
        self._bases = bases
        if self._planned_for != txn.catalog.schema_hash:
            self._start_over(txn.catalog)
        if self._intake is None:
            raise InternalError("a load took its input in before it was listed; please report this")
        plan = self._plan(txn, bases)
        if not self._is_taken:
            self._run.work = Amount(size_bytes=self._intake.size_bytes)
            self._run.enter("intake")
            self._take(self._intake, plan, bases)
            self._run.work = Amount(rows=self._intake.rows)
            self._is_taken = True
            maybe_fail("spark_load.post_intake")
        return self._intake, plan

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
        options, settings = self._run.options, self._run.settings.pipeline
        return IntakePlan(
            root=self._run.root,
            operation_id=self._run.operation_id,
            authored_ms=txn.authored_at // 1_000,
            catalog=txn.catalog,
            tables={
                ref: TaskTable(layout=base.layout, pin=base.pin) for ref, base in bases.items()
            },
            external=self._external,
            embeds_nullable=options.embed,
            is_rehearsal=self._run.is_rehearsal,
            block_bytes=settings.batch_bytes,
            sample=settings.max_violations,
            rows_per_file=settings.rows_per_file,
            paid_folder=self.paid_folder,
            keeps_rejects=options.rejects.max_rejects if options.rejects.are_wanted else None,
        )

    def _take(
        self, intake: InputIntake, plan: IntakePlan, bases: Mapping[TableRef, TableHandle]
    ) -> None:
        """Stage the input, or take what a load that was cut off has staged of it."""
        run = self._run
        storage, operation_id = run.graph.storage, run.operation_id
        is_known = all(each.marks is not None for each in self._inputs)
        can_resume = is_known and not run.is_rehearsal
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
        if can_resume and run.settings.pipeline.resume:
            kept = KeptIntake(results=intake.results, begins=intake.begins)
            keep_intake(storage, operation_id, state, kept)
