"""The in-process lane of a load: an input of moderate size, held in memory."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa

from omnigraph.engine.writes.load_rejects import LoadRejects, kept_violations
from omnigraph.engine.writes.load_staging import LoadStaging
from omnigraph.errors import InternalError
from omnigraph.graph.blobs.unseen_blobs import with_unseen_blobs
from omnigraph.graph.commit.read_set import RowsById
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.graph.load.flow import LaneNames
from omnigraph.graph.load.partial_rows import CommittedValues
from omnigraph.graph.load.rows import RowReading
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation import REPORTED_VIOLATIONS
from omnigraph.graph.validation.findings import with_row_numbers
from omnigraph.settings import MergeStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.graph.arrays import Ids
    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.stages import JobStages
    from omnigraph.graph.load.equal_rows import ExistingRows
    from omnigraph.graph.load.quarantine import Rejections
    from omnigraph.graph.load.reject_files import Reject
    from omnigraph.graph.load.request import LoadRequest
    from omnigraph.graph.load.rows import LoadRows
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.manifest.rows import CommitRow, TableRef
    from omnigraph.graph.validation import Findings
    from omnigraph.ids import IdSource
    from omnigraph.lang.catalog import EdgeType
    from omnigraph.storage.handles import StagedWrite

LoadContent: TypeAlias = "bytes | Mapping[str, pa.Table]"
"""NDJSON text, or tables by the name of their type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadInput:
    """What an in-process load reads."""

    content: LoadContent
    source: str | None = None
    """Where the text comes from, if from a file."""
    concurrency: int = 1
    """How many tables are written side by side."""
    max_violations: int = REPORTED_VIOLATIONS
    """How many violations are reported; all are counted."""

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        if isinstance(self.content, bytes):
            return len(self.content)
        return sum(table.nbytes for table in self.content.values())

    def digest(self, request: LoadRequest) -> str:
        """What tells it, and what is made of it, from another."""
        digest = hashlib.sha256(request.digested.encode())
        if isinstance(self.content, bytes):
            digest.update(self.content)
            return digest.hexdigest()
        for name in sorted(self.content):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.content[name].schema) as stream:
                stream.write_table(self.content[name].combine_chunks())
            digest.update(f"{name}\n".encode())
            digest.update(sink.getvalue())
        return digest.hexdigest()


@dataclass(kw_only=True)
class LocalLoad:
    """The steps of one load; rows that were read are kept over its attempts."""

    input: LoadInput
    request: LoadRequest
    stages: JobStages
    ids: IdSource
    blobs: BlobBudget
    filler: VectorFiller
    _rows: LoadRows | None = None
    _read_for: str | None = None
    _staging: LoadStaging | None = None
    _rows_read: Mapping[TableRef, int] = field(default_factory=dict)
    _asked: Sequence[tuple[TableRef, Ids]] = ()
    """Committed rows that rows were completed from."""

    names: ClassVar = LaneNames(engine="local", stage="stage", counts_rows=True)
    stats: ClassVar[Mapping[str, object]] = {}
    job: ClassVar[str | None] = None
    attempts: ClassVar[int | None] = None
    merge_strategy: ClassVar = MergeStrategy.DRIVER

    @property
    def refs(self) -> Sequence[TableRef]:
        """The tables that the input has rows for."""
        return list(self.staging.deltas)

    @property
    def staging(self) -> LoadStaging:
        """The rows over the state of this attempt."""
        if self._staging is None:
            raise InternalError("a load is staged before it is read; please report this")
        return self._staging

    def opened(self) -> AbstractContextManager[None]:
        """Nothing is held, and nothing left behind."""
        return nullcontext()

    def begin(self) -> None:
        """The input is here already, and a load that was cut off has left nothing."""
        self.stages.work = Amount(size_bytes=self.input.size_bytes)

    def digest(self) -> str:
        """What tells this input, and what is made of it, from another."""
        return self.input.digest(self.request)

    def take(self, txn: WriteTxn) -> None:
        """Have the rows as the schema in force sees them; read again only when it changed."""
        rows = self._read(txn)
        if self.request.rejects.are_wanted:
            rows = self._with_unseen_blobs(txn, rows)
        self._rows_read = {ref: fitted.table.num_rows for ref, fitted in rows.tables.items()}
        self._staging = LoadStaging(
            txn=txn, rows=rows, mode=self.request.mode, concurrency=self.input.concurrency
        )

    def findings(self, txn: WriteTxn, *, limit: int) -> Findings:  # noqa: ARG002 - it is kept
        """Everything that is wrong with them; rows of tables are counted from 1."""
        findings = self.staging.findings(limit=limit)
        return findings if isinstance(self.input.content, bytes) else with_row_numbers(findings)

    def bad_rows(self, txn: WriteTxn) -> _LocalBadRows:
        """The rows as a verdict needs them."""
        rejects = LoadRejects(
            txn=txn,
            mode=self.request.mode,
            content=self.input.content,
            source=self.input.source,
            rows=self.staging.rows,
            most=self.request.rejects.max_rejects,
            cascade=self.request.rejects.cascade,
        )
        return _LocalBadRows(self, rejects)

    def keep(self, rows: LoadRows) -> None:
        """Go on with these rows alone."""
        self._staging = replace(self.staging, rows=rows)

    def accept(self, txn: WriteTxn) -> None:  # noqa: ARG002 - as every lane is asked
        """Look at the blobs outside the graph, if that was not done to find bad rows.

        Raises:
            ExternalBlobSource: one cannot be looked at.
        """
        if not self.request.rejects.are_wanted:
            self.blobs.probe()

    def bare_nodes(self, txn: WriteTxn) -> Iterable[tuple[EdgeType, int]]:  # noqa: ARG002 - it is kept
        """How many nodes of those left would lack an edge that they need."""
        return self.staging.bare_nodes()

    def rows_read(self, ref: TableRef) -> int:
        """How many rows the input has for a table."""
        return self._rows_read[ref]

    def rows_left(self, ref: TableRef) -> int:
        """How many of them are neither rejected nor superseded."""
        return len(self.staging.deltas[ref].image.ids)

    def existing_rows(self, txn: WriteTxn, ref: TableRef) -> ExistingRows:  # noqa: ARG002 - it is kept
        """How many of those left would replace a committed row, and how many equal one."""
        return self.staging.existing_rows(ref)

    def stage(self, txn: WriteTxn, refs: Sequence[TableRef]) -> Mapping[TableRef, StagedWrite]:  # noqa: ARG002 - it is kept
        """The rows of these tables as files that a commit can take."""
        return self.staging.stage(refs, self.filler)

    def hand_over(self) -> None:
        """Whatever was staged belongs to the protocol."""

    def abandon(self) -> None:
        """Nothing is left to remove."""

    def settle(self, row: CommitRow | None, *, is_own: bool) -> None:
        """Nothing is left to do."""

    def input_warnings(self) -> Sequence[str]:
        """Nothing is to be said of an input in memory."""
        return ()

    def table_warnings(self) -> Sequence[str]:
        """Nothing is to be said of tables."""
        return ()

    def _with_unseen_blobs(self, txn: WriteTxn, rows: LoadRows) -> LoadRows:
        limit = self._limit(txn)
        tables = {
            ref: with_unseen_blobs(fitted, self.blobs, limit=limit)
            for ref, fitted in rows.tables.items()
        }
        return replace(rows, tables=tables)

    def _read(self, txn: WriteTxn) -> LoadRows:
        state = txn.line.schema.schema_hash
        if self.request.keeps_values:
            # Rows are completed from the state that they are written to.
            state += f" {txn.line.head.commit_id}"
        if self._rows is None or self._read_for != state:
            size_bytes, content = self.input.size_bytes, self.input.content
            self._rows = None
            self.stages.work = Amount(size_bytes=size_bytes)
            self.stages.enter("intake")
            self.blobs = self.blobs.again()
            asked: list[tuple[TableRef, Ids]] = []
            reading = RowReading(
                catalog=txn.catalog,
                ids=self.ids,
                blobs=self.blobs,
                limit=self._limit(txn),
                stored=self._stored(txn, asked),
                watch=self._watch,
            )
            self._rows = (
                reading.read_lines(content)
                if isinstance(content, bytes)
                else reading.read_tables(content)
            )
            self._read_for = state
            self._asked = asked
            self.stages.count(rows=self._rows.read, size_bytes=size_bytes)
            self._watch(self._rows.read, size_bytes)
            self.stages.work = Amount(rows=self._rows.read)
        for ref, ids in self._asked:
            txn.read_set.ask(ref, RowsById(ids))
        return self._rows

    def _stored(self, txn: WriteTxn, asked: list[tuple[TableRef, Ids]]) -> CommittedValues | None:
        if not self.request.keeps_values:
            return None
        return CommittedValues(
            store=txn.store,
            table=lambda item: txn.readable(ref_of(item)),
            must_exist=self.request.mode is LoadMode.UPDATE,
            asked=lambda item, ids: asked.append((ref_of(item), ids)),
        )

    def _limit(self, txn: WriteTxn) -> int:
        """How many violations must be kept to know all bad rows, if they are wanted."""
        rejects, reported = self.request.rejects, self.input.max_violations
        if not rejects.are_wanted:
            return reported
        return max(reported, kept_violations(txn.catalog, rejects.max_rejects))

    def _watch(self, rows: int, size_bytes: int) -> None:
        self.stages.teller.reach(Amount(rows=rows, size_bytes=size_bytes))


@dataclass(frozen=True)
class _LocalBadRows:
    """The rows of a load that has bad ones."""

    load: LocalLoad
    rejects: LoadRejects

    @property
    def read(self) -> int:
        """Records, and lines that are none."""
        return self.rejects.read

    def found(self) -> Rejections:
        """All that are to be rejected."""
        return self.rejects.found()

    def written(self, found: Rejections) -> Iterator[Reject]:
        """The rejected rows for their file, in the order of the input."""
        return self.rejects.written(found)

    def leave_out(self, found: Rejections) -> None:
        """Go on without them; superseded rows are left out by staging."""
        self.load.keep(self.rejects.left(found))
