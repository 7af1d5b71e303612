"""The rows of a load: NDJSON text or Arrow streams, read against one catalog."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blobs.blob_values import joined, read_blobs, refer_stored
from omnigraph.graph.jobs.report import LoadMode
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.ndjson.reader import LineColumnReader
from omnigraph.graph.type_names import find_type
from omnigraph.graph.validation import (
    REPORTED_VIOLATIONS,
    Findings,
    FittedRows,
    TableDelta,
    fit_json_rows,
    fit_rows,
    follow_respelled,
    gather,
)
from omnigraph.graph.validation.columns import FittedColumn
from omnigraph.graph.validation.json_columns import JsonColumn
from omnigraph.lang.catalog import EdgeType, NodeType
from omnigraph.limits import MAX_LOAD_ARROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from omnigraph.graph.arrays import Column
    from omnigraph.graph.blobs.blob_values import BlobBudget
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import FitBlobs
    from omnigraph.graph.validation.completion import StoredRows
    from omnigraph.ids import IdSource
    from omnigraph.lang import Catalog


@dataclass(frozen=True, kw_only=True)
class LoadRows:
    """What a load brings: rows by table, and the lines that are no records."""

    tables: Mapping[TableRef, FittedRows]
    findings: Findings = field(default_factory=Findings)

    @property
    def read(self) -> int:
        """Rows of all tables."""
        return sum(each.table.num_rows for each in self.tables.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReading:
    """How input becomes rows: against which catalog, with which ids and blobs."""

    catalog: Catalog
    ids: IdSource
    blobs: BlobBudget
    limit: int = REPORTED_VIOLATIONS
    """How many violations are kept of each kind; the counts are exact beyond it."""
    stored: StoredRows | None = None
    """Where rows take what they do not mention."""
    watch: Callable[[int, int], None] | None = None
    """Told the rows and the bytes of text so far."""

    def read_lines(self, text: bytes) -> LoadRows:
        """NDJSON: one node or edge in each line.

        Raises:
            ResourceLimit: a line or the rows of a type are too large.
            ExternalBlobDenied: a blob is an address that the graph does not allow.
        """
        reader = LineColumnReader(self.catalog, limit=self.limit)
        parts: dict[TableRef, list[FittedRows]] = defaultdict(list)
        sizes: dict[TableRef, int] = defaultdict(int)
        rows = 0
        for records in reader.read(text):
            fitted = fit_json_rows(
                records.item,
                records.rows,
                ids=self.ids,
                lines=pa.array(records.lines),
                fit_blobs=json_blobs(self.blobs),
                filled_later=filled_vectors(records.item),
                stored=self.stored,
                limit=self.limit,
            )
            ref = ref_of(records.item)
            sizes[ref] += fitted.table.nbytes
            _require_bytes(records.item, sizes[ref])
            parts[ref].append(fitted)
            rows += fitted.table.num_rows
            if self.watch is not None:
                self.watch(rows, reader.bytes_done)
        tables = {ref: _joined(each, self.limit) for ref, each in parts.items()}
        return LoadRows(tables=self._followed(tables), findings=reader.findings)

    def read_tables(self, given: Mapping[str, pa.Table]) -> LoadRows:
        """Arrow tables by the name of their type; edges with `src` and `dst`.

        Raises:
            InvalidArgument: an unknown type, or a column that the type does not have.
            ResourceLimit: the rows of a type are too large.
            ExternalBlobDenied: a blob is an address that the graph does not allow.
        """
        tables: dict[TableRef, FittedRows] = {}
        for name, table in given.items():
            item = find_type(self.catalog, name)
            ref = ref_of(item)
            if ref in tables:
                raise InvalidArgument(f"{item.name} is given twice; give it once", type=name)
            _require_bytes(item, table.nbytes)
            fitted = fit_rows(
                item,
                table,
                ids=self.ids,
                filled_later=filled_vectors(item),
                stored=self.stored,
                limit=self.limit,
            )
            refer_stored(item, fitted.table, self.blobs)
            tables[ref] = fitted
        return LoadRows(tables=self._followed(tables))

    def _followed(self, tables: Mapping[TableRef, FittedRows]) -> dict[TableRef, FittedRows]:
        """Edges whose ends spell a key of this input in another way take the canonical ids."""
        respelled = {
            each.item.name: each.respelled
            for each in tables.values()
            if isinstance(each.item, NodeType) and each.respelled
        }
        followed = dict(tables)
        for ref, rows in tables.items():
            if respelled and isinstance(rows.item, EdgeType):
                followed[ref] = follow_respelled(
                    rows,
                    respelled.get(rows.item.from_type, {}),
                    respelled.get(rows.item.to_type, {}),
                )
        return followed


def json_blobs(budget: BlobBudget) -> FitBlobs:
    """Reads blob values of JSON, counted against the budget of the write."""

    def fit(item: NodeType | EdgeType, name: str, values: Sequence[object]) -> JsonColumn:
        blobs = read_blobs(item, name, values, budget)
        return JsonColumn(
            fitted=FittedColumn(values=blobs.values, unfit=blobs.unfit), reasons=blobs.reasons
        )

    return fit


def filled_vectors(item: NodeType | EdgeType) -> dict[str, str]:
    """Vectors that stand for a text and may be left out of a row, with the texts' names."""
    embeds = item.embeds if isinstance(item, NodeType) else {}
    return {name: embed.source for name, embed in embeds.items()}


def _joined(parts: Sequence[FittedRows], limit: int) -> FittedRows:
    if len(parts) == 1:
        return parts[0]
    item = parts[0].item
    respelled: dict[str, str] = {}
    lines: list[Column] = []
    findings: list[Findings] = []
    rows = 0
    for part in parts:
        respelled.update(part.respelled)
        lines.append(part.lines if part.lines is not None else pa.array([], pa.int64()))
        findings.append(_shifted(part.findings, rows))
        rows += part.table.num_rows
    return FittedRows(
        item=item,
        table=joined(item.arrow_schema, [part.table for part in parts]).combine_chunks(),
        lines=pa.concat_arrays(lines),
        findings=gather(findings, limit=limit),
        respelled=respelled,
    )


def _shifted(findings: Findings, rows: int) -> Findings:
    """The findings of rows that stand so many rows further down."""
    moved = tuple(
        each
        if each.subject.row is None
        else replace(each, subject=replace(each.subject, row=each.subject.row + rows))
        for each in findings.violations
    )
    return replace(findings, violations=moved)


def _require_bytes(item: NodeType | EdgeType, size_bytes: int) -> None:
    if size_bytes > MAX_LOAD_ARROW_BYTES:
        raise ResourceLimit(
            f"a load in this process may bring {MAX_LOAD_ARROW_BYTES:,} bytes of {item.name} and"
            f" this one brings {size_bytes:,} or more; load it in parts, or through Spark",
            resource="strict_input_arrow_bytes",
            limit=MAX_LOAD_ARROW_BYTES,
            actual=size_bytes,
        )


def load_delta(rows: FittedRows, mode: LoadMode) -> TableDelta:
    """The delta for the validator."""
    ids = one_array(rows.table["id"])
    return TableDelta(
        rows=rows,
        strict_ids=ids.drop_null() if mode is LoadMode.APPEND else ids.slice(0, 0),
        replaces_all=mode is LoadMode.OVERWRITE,
        repeats_edge_ids=mode.upserts,
    )
