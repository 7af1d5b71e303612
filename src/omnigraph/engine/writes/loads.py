"""The in-process load: an input of moderate size, checked and written as one commit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from omnigraph.engine.writes.load_rejects import LoadRejects, kept_violations
from omnigraph.engine.writes.load_staging import LoadStaging
from omnigraph.graph.blobs.unseen_blobs import with_unseen_blobs
from omnigraph.graph.jobs.report import LoadMode, RejectReport
from omnigraph.graph.jobs.stage_progress import StageProgress
from omnigraph.graph.jobs.stage_times import StageTimes
from omnigraph.graph.load.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load.load_stats import committed_tables
from omnigraph.graph.load.reject_files import RejectFiles
from omnigraph.graph.load.reject_verdict import RejectVerdict
from omnigraph.graph.load.rows import RowReading
from omnigraph.graph.manifest.publisher import require_head
from omnigraph.graph.validation import REPORTED_VIOLATIONS, refuse_load
from omnigraph.ids import BranchName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.commit.txn import PreparedWrite, WriteTxn
    from omnigraph.graph.jobs.report import JobReport, TableReport
    from omnigraph.graph.jobs.stage_progress import Progress
    from omnigraph.graph.lifecycle.coordinator import GraphCoordinator
    from omnigraph.graph.load.options import LoadOptions
    from omnigraph.graph.load.rows import LoadRows
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.validation import Findings

LoadContent: TypeAlias = "bytes | Mapping[str, pa.Table]"
"""NDJSON text, or tables by the name of their type."""

_INTAKE: Final = "intake"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One load as it was asked for."""

    content: LoadContent
    options: LoadOptions
    concurrency: int = 1
    source: str | None = None
    """Where the text comes from, if from a file."""
    max_violations: int = REPORTED_VIOLATIONS
    """How many violations are reported; all are counted."""

    @property
    def size_bytes(self) -> int:
        """How large the input is."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return sum(each.nbytes for each in self.content.values())

    def digest(self) -> str:
        """What tells this request from another one with the same key."""
        found = hashlib.sha256(self.options.digested.encode())
        if isinstance(self.content, bytes):
            found.update(self.content)
            return found.hexdigest()
        for name in sorted(self.content):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.content[name].schema) as stream:
                stream.write_table(self.content[name].combine_chunks())
            found.update(f"{name}\n".encode())
            found.update(sink.getvalue())
        return found.hexdigest()


@dataclass(kw_only=True)
class LoadRun:
    """One run of one load: what stays the same over all its attempts."""

    graph: GraphCoordinator
    request: LoadRequest
    blobs: BlobBudget
    filler: VectorFiller
    progress: Progress | None = None
    _rows: LoadRows | None = None
    _read_for: str | None = None
    _operations: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._times = StageTimes(self.graph.clock)
        self._files = RejectFiles(self.request.options.rejects, self.graph.storage.location)
        self._left: list[TableReport] = []
        self._rejects = RejectReport()
        self._is_rehearsal = False

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        options = self.request.options
        with load_branch(
            self.graph, options.branch, options.from_, actor_id=options.actor_id
        ) as branch:
            write = options.write_request(options.branch, self.request.digest)
            row = self.graph.protocol.run(write, self._prepare)
            warnings = self._files.finish(row)
            self._times.enter(None)
        return options.report(
            "local",
            branch,
            self._left if row is None else committed_tables(row.stats),
            self._times.reports(),
            row,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
            rejects=self._rejects,
            warnings=warnings,
        )

    def rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing is written."""
        options = self.request.options
        branch = readable_branch(self.graph, options.branch, options.from_)
        txn = self.graph.protocol.capture(
            options.write_request(BranchName(branch), self.request.digest),
            self.graph.clock.now_us(),
        )
        require_head(options.if_commit, txn.line)
        self._is_rehearsal = True
        staging = self._checked(txn)
        tables = sorted(staging.foreseen(), key=lambda each: each.order)
        self._times.enter(None)
        target = LoadBranch(name=options.branch, base=options.from_)
        return options.report(
            "local",
            target,
            tables,
            self._times.reports(),
            dry_run=True,
            rejects=staging.rejects,
        )

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._operations.add(txn.operation_id)
        staging = self._checked(txn)
        self._enter("stage")
        prepared = staging.prepared(self.filler)
        self._rejects = staging.rejects
        self._left = committed_tables(prepared.stats) if staging.rejects.violations else []
        self._enter("commit")
        return prepared

    def _checked(self, txn: WriteTxn) -> LoadStaging:
        """Everything that is to be written, found valid.

        Raises:
            LoadRejected, KeyConflict: rules are broken, and the load cannot go on without the rows.
            ExternalBlobSource: a blob outside the graph could not be looked at.
        """
        wants_bad = self.request.options.rejects.are_wanted
        rows = self._read(txn)
        if wants_bad:
            rows = self._with_unseen_blobs(txn, rows)
        staging = LoadStaging(
            txn=txn,
            rows=rows,
            mode=self.request.options.mode,
            concurrency=self.request.concurrency,
        )
        self._enter("check")
        findings = staging.findings(limit=self.request.max_violations)
        if findings.total and wants_bad:
            return self._without_bad(staging, findings)
        refuse_load(findings)
        if not wants_bad:
            self.blobs.probe()
        return staging

    def _with_unseen_blobs(self, txn: WriteTxn, rows: LoadRows) -> LoadRows:
        limit = self._limit(txn)
        tables = {
            ref: with_unseen_blobs(each, self.blobs, limit=limit)
            for ref, each in rows.tables.items()
        }
        return replace(rows, tables=tables)

    def _without_bad(self, staging: LoadStaging, findings: Findings) -> LoadStaging:
        """The load without its bad rows, which are written to their file."""
        options = self.request.options
        bad = LoadRejects(
            txn=staging.txn,
            mode=staging.mode,
            content=self.request.content,
            source=self.request.source,
            rows=staging.rows,
            most=options.rejects.max_rejects,
        )
        found = bad.found()
        verdict = RejectVerdict(
            options=options.rejects,
            findings=findings,
            found=found,
            read=bad.read,
            emptied=bad.emptied(found) if staging.mode is LoadMode.OVERWRITE else (),
            max_violations=self.request.max_violations,
        )

        def write() -> str:
            return self._files.write(staging.txn.operation_id, bad.written(found))

        verdict.require_allowed(None if self._is_rehearsal else write)
        return replace(
            staging,
            rows=bad.left(found),
            rejected=found.by_table,
            rejects=RejectReport(
                violations=found.by_code, uri=None if self._is_rehearsal else write()
            ),
        )

    def _read(self, txn: WriteTxn) -> LoadRows:
        """The rows as the schema in force sees them; they are read again only when it changed."""
        schema_hash = txn.line.schema.schema_hash
        if self._rows is None or self._read_for != schema_hash:
            self._rows = None
            self._enter(_INTAKE)
            self.blobs = self.blobs.again()
            reading = RowReading(
                catalog=txn.catalog,
                ids=self.graph.ids,
                blobs=self.blobs,
                limit=self._limit(txn),
                watch=self._watch,
            )
            content = self.request.content
            self._rows = (
                reading.read_lines(content)
                if isinstance(content, bytes)
                else reading.read_tables(content)
            )
            self._read_for = schema_hash
            self._times.count(rows=self._rows.read, size_bytes=self.request.size_bytes)
            self._watch(self._rows.read, self.request.size_bytes)
        return self._rows

    def _limit(self, txn: WriteTxn) -> int:
        """How many violations must be kept to know all bad rows, if they are wanted."""
        rejects, reported = self.request.options.rejects, self.request.max_violations
        if not rejects.are_wanted:
            return reported
        return max(reported, kept_violations(txn.catalog, rejects.max_rejects))

    def _enter(self, stage: str) -> None:
        """A stage begins, and the one before it ends."""
        self._times.enter(stage)
        self._times.count(rows=0 if self._rows is None else self._rows.read)
        if self._rows is None:
            told = StageProgress(stage=stage, total_bytes=self.request.size_bytes)
        else:
            told = StageProgress(stage=stage, total_rows=self._rows.read)
        self._tell(told)

    def _watch(self, rows: int, size_bytes: int) -> None:
        total_bytes = self.request.size_bytes
        self._tell(
            StageProgress(stage=_INTAKE, rows=rows, bytes=size_bytes, total_bytes=total_bytes)
        )

    def _tell(self, told: StageProgress) -> None:
        if self.progress is not None:
            self.progress(told)
