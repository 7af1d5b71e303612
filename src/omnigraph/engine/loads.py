"""The in-process load: an input of moderate size, checked and written as one commit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from omnigraph.engine.load_staging import LoadStaging
from omnigraph.graph.commit_graph import commit_of
from omnigraph.graph.intent import SidecarKind
from omnigraph.graph.job_report import JobReport, LoadMode, StageReport
from omnigraph.graph.load_branch import LoadBranch, load_branch, readable_branch
from omnigraph.graph.load_rows import RowReading
from omnigraph.graph.load_stats import committed_tables
from omnigraph.graph.publisher import require_head
from omnigraph.graph.write_txn import WriteRequest
from omnigraph.ids import BranchName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.graph.blob_values import BlobBudget
    from omnigraph.graph.coordinator import GraphCoordinator
    from omnigraph.graph.job_report import TableReport
    from omnigraph.graph.load_rows import LoadRows
    from omnigraph.graph.rows import CommitRow
    from omnigraph.graph.vector_filling import VectorFiller
    from omnigraph.graph.write_txn import PreparedWrite, WriteTxn

LoadContent: TypeAlias = "bytes | Mapping[str, pa.Table]"
"""NDJSON text, or tables by the name of their type."""

Progress: TypeAlias = "Callable[[str], None]"
"""Told the name of the stage that begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """One load as it was asked for."""

    content: LoadContent
    mode: LoadMode
    branch: BranchName
    from_: str | None = None
    actor_id: str | None = None
    embed: bool = False
    if_commit: str | None = None
    idempotency_key: str | None = None
    concurrency: int = 1

    @property
    def digest(self) -> str:
        """What tells this request from another one with the same key."""
        found = hashlib.sha256(f"load {self.mode} {self.embed}\n".encode())
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
    progress: Progress
    _rows: LoadRows | None = None
    _read_for: str | None = None
    _operations: set[str] = field(default_factory=set)
    _stages: dict[str, int] = field(default_factory=dict)
    _began_us: int = 0
    _stage: str | None = None

    def report(self) -> JobReport:
        """Run it and tell what it did."""
        request = self.request
        with load_branch(
            self.graph, request.branch, request.from_, actor_id=request.actor_id
        ) as branch:
            row = self.graph.protocol.run(self._write_request(request.branch), self._prepare)
            self._enter(None)
        tables = [] if row is None else committed_tables(row.stats)
        return self._report(tables, branch, row)

    def rehearse(self) -> JobReport:
        """Check everything and tell what a run would do; nothing is written."""
        request = self.request
        branch = readable_branch(self.graph, request.branch, request.from_)
        txn = self.graph.protocol.capture(
            self._write_request(BranchName(branch)), self.graph.clock.now_us()
        )
        require_head(request.if_commit, txn.line)
        staging = self._checked(txn)
        self.blobs.probe()
        tables = staging.foreseen()
        self._enter(None)
        target = LoadBranch(name=request.branch, base=request.from_)
        return self._report(tables, target, dry_run=True)

    def _write_request(self, branch: BranchName) -> WriteRequest:
        request = self.request
        has_key = request.idempotency_key is not None
        return WriteRequest(
            kind=SidecarKind.LOAD,
            branch=branch,
            actor_id=request.actor_id,
            if_commit=request.if_commit,
            idempotency_key=request.idempotency_key,
            request_digest=request.digest if has_key else None,
        )

    def _prepare(self, txn: WriteTxn) -> PreparedWrite:
        self._operations.add(txn.operation_id)
        staging = self._checked(txn)
        self.blobs.probe()
        self._enter("stage")
        prepared = staging.prepared(self.filler)
        self._enter("commit")
        return prepared

    def _checked(self, txn: WriteTxn) -> LoadStaging:
        staging = LoadStaging(
            txn=txn,
            rows=self._read(txn),
            mode=self.request.mode,
            concurrency=self.request.concurrency,
        )
        self._enter("check")
        staging.check()
        return staging

    def _read(self, txn: WriteTxn) -> LoadRows:
        """The rows as the schema in force sees them; they are read again only when it changed."""
        schema_hash = txn.line.schema.schema_hash
        if self._rows is None or self._read_for != schema_hash:
            self._enter("intake")
            self.blobs = self.blobs.again()
            reading = RowReading(catalog=txn.catalog, ids=self.graph.ids, blobs=self.blobs)
            content = self.request.content
            self._rows = (
                reading.read_lines(content)
                if isinstance(content, bytes)
                else reading.read_tables(content)
            )
            self._read_for = schema_hash
        return self._rows

    def _enter(self, stage: str | None) -> None:
        """A stage begins, and the one before it ends."""
        now_us = self.graph.clock.monotonic_us()
        if self._stage is not None:
            spent = self._stages.get(self._stage, 0)
            self._stages[self._stage] = spent + now_us - self._began_us
        self._stage, self._began_us = stage, now_us
        if stage is not None:
            self.progress(stage)

    def _report(
        self,
        tables: Sequence[TableReport],
        branch: LoadBranch,
        row: CommitRow | None = None,
        *,
        dry_run: bool = False,
    ) -> JobReport:
        request, content = self.request, self.request.content
        rows = 0 if self._rows is None else self._rows.read
        size_bytes = (
            len(content)
            if isinstance(content, bytes)
            else sum(each.nbytes for each in content.values())
        )
        return JobReport(
            operation_id=None if row is None else row.operation_id,
            commit=None if row is None else commit_of(row),
            branch=request.branch,
            base_branch=branch.base,
            branch_created=branch.was_created,
            mode=request.mode.value,
            engine="local",
            merge_strategy="driver" if request.mode is LoadMode.MERGE else None,
            # The first receipt of the same key came back.
            already_loaded=row is not None and row.operation_id not in self._operations,
            dry_run=dry_run,
            actor_id=request.actor_id,
            # The commit itself keeps no order.
            tables=tuple(sorted(tables, key=lambda each: each.order)),
            stages=tuple(
                StageReport(
                    name=name,
                    seconds=spent_us / 1_000_000,
                    rows=rows,
                    bytes=size_bytes if name == "intake" else 0,
                )
                for name, spent_us in self._stages.items()
            ),
        )
