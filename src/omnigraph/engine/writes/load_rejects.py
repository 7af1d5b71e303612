"""The bad rows of an in-process load: found, told where they stand, and left out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph.graph.arrays import one_array
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.load.held_rules import HeldRelations, places_of
from omnigraph.graph.load.input_place import InputPlace, packed_places
from omnigraph.graph.load.quarantine import rejected_row, set_aside
from omnigraph.graph.load.reject_files import Reject, RejectCause
from omnigraph.graph.load.rows import LoadRows
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.ndjson.rejected_lines import given_line
from omnigraph.graph.type_names import find_type
from omnigraph.graph.validation import Findings, check_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.jobs.report import LoadMode
    from omnigraph.graph.load.quarantine import RejectedRow, Rejections
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import FittedRows, Violation
    from omnigraph.lang.catalog import Catalog, EdgeType, NodeType


def kept_violations(catalog: Catalog, most: int) -> int:
    """How many violations hold all of `most` bad rows and more, however many rules each breaks."""
    types: list[NodeType | EdgeType] = [*catalog.node_types.values(), *catalog.edge_types.values()]
    return (most + 1) * max((_most_faults(each) for each in types), default=1)


def _most_faults(item: NodeType | EdgeType) -> int:
    """How many rules of single rows one row can break at once."""
    ranges = len(getattr(item, "ranges", ()))
    checks = len(getattr(item, "checks", ()))
    # Each cell, its enum, both sides of a range, each check; a blank id and one of another key.
    return 2 * len(item.arrow_schema.names) + 2 * ranges + checks + 2


@dataclass(frozen=True, kw_only=True)
class LoadRejects:
    """The rows of a load that has bad ones; each is known by its place.

    The place of a line is its number, that of a row of a table the number of the table and the row.
    """

    txn: WriteTxn
    mode: LoadMode
    content: bytes | Mapping[str, pa.Table]
    source: str | None
    """Where lines come from, if from a file."""
    rows: LoadRows
    most: int
    cascade: bool = False

    def found(self) -> Rejections:
        """All that are to be rejected."""
        catalog = self.txn.catalog
        rules = HeldRelations(
            catalog, self.mode, self._placed, TxnLookups(self.txn), most=self.most
        )
        return set_aside(rules, self._bad(catalog), most=self.most, cascade=self.cascade)

    @property
    def read(self) -> int:
        """Records, and lines that are none."""
        return self.rows.read + self.rows.findings.total

    def left(self, found: Rejections) -> LoadRows:
        """The rows without the rejected ones."""
        places = found.places()
        tables: dict[TableRef, FittedRows] = {}
        for ref, rows in self.rows.tables.items():
            stays = pa.array(~np.isin(self._places[ref], places.get(ref, [])))
            tables[ref] = replace(
                rows,
                table=rows.table.filter(stays),
                lines=None if rows.lines is None else one_array(rows.lines).filter(stays),
                findings=Findings(),
            )
        return LoadRows(tables=tables)

    def written(self, found: Rejections) -> Iterator[Reject]:
        """The rejected rows for their file, in the order of the input."""
        for row in found.rows.values():
            source, line = self._position(row.place)
            # Of too many rows the cause of one may be left out.
            cause = None if row.caused_by is None else found.rows.get(row.caused_by)
            yield Reject(
                source=source,
                line=line,
                code=row.fault.code,
                message=row.fault.message,
                properties=row.fault.properties,
                raw=self._raw(row),
                caused_by=None if cause is None else self._cause(cause),
            )

    def _cause(self, row: RejectedRow) -> RejectCause:
        source, line = self._position(row.place)
        return RejectCause(source=source, line=line, code=row.fault.code)

    def _bad(self, catalog: Catalog) -> Iterator[RejectedRow]:
        limit = kept_violations(catalog, self.most)
        for each in self.rows.findings.violations:
            yield rejected_row(each.subject.input_line or 0, None, [each])
        for ref, rows in self.rows.tables.items():
            by_row: defaultdict[int, list[Violation]] = defaultdict(list)
            for violation in check_rows(rows, limit=limit).violations:
                if violation.subject.row is not None:
                    by_row[violation.subject.row].append(violation)
            for row, violations in by_row.items():
                yield rejected_row(int(self._places[ref][row]), ref, violations)

    @cached_property
    def _placed(self) -> dict[TableRef, FittedRows]:
        return {
            ref: replace(rows, lines=pa.array(self._places[ref]))
            for ref, rows in self.rows.tables.items()
        }

    @cached_property
    def _places(self) -> dict[TableRef, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        if isinstance(self.content, bytes):
            return {ref: places_of(rows) for ref, rows in self.rows.tables.items()}
        numbers = {ref_of(item): number for number, item in enumerate(self._types)}
        return {
            ref: packed_places(numbers[ref], np.arange(1, rows.table.num_rows + 1))
            for ref, rows in self.rows.tables.items()
        }

    @cached_property
    def _types(self) -> Sequence[NodeType | EdgeType]:
        """The types of tables, in the order in which they are given."""
        return [find_type(self.txn.catalog, name) for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [] if isinstance(self.content, bytes) else list(self.content)

    def _position(self, place: int) -> tuple[str | None, int]:
        if isinstance(self.content, bytes):
            return self.source, place
        number, row = InputPlace.unpacked(place)
        return self._names[number], row

    @cached_property
    def _lines(self) -> list[bytes]:
        return self.content.split(b"\n") if isinstance(self.content, bytes) else []

    def _raw(self, row: RejectedRow) -> bytes:
        if isinstance(self.content, bytes):
            return self._lines[row.place - 1]
        number, line = InputPlace.unpacked(row.place)
        (values,) = self.content[self._names[number]].slice(line - 1, 1).to_pylist()
        return given_line(self._types[number], values)
