"""Whole tables held against every rule of the schema, in bounded memory, by the one validator.

An image is one version of each table, not necessarily one that a commit shows: `verify` looks at
what a head pins, `repair` at what it is asked to adopt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import is_given, mask_of, one_array
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.graph.validation.findings import Rows, gather, masked_findings
from omnigraph.graph.validation.fitting import FittedRows, fit_rows
from omnigraph.graph.validation.identity import id_mismatch
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    EndRule,
    UniqueRule,
    unique_rules,
)
from omnigraph.graph.validation.row_rules import check_rows
from omnigraph.graph.validation.spelling import render_ids
from omnigraph.graph.validation.stored_rows import StoredTable, check_stored
from omnigraph.graph.validation.violation import Code, Subject
from omnigraph.lang.catalog import EdgeType, NodeType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Endpoint
    from omnigraph.graph.validation.findings import Findings
    from omnigraph.graph.validation.violation import Violation
    from omnigraph.lang import Catalog
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_store import TableStorage

EXAMPLES: Final = 5
_IDS_ASKED: Final = 8_192


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A rule that rows of a table break."""

    table_key: str
    rule: str
    count: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """One version of each table of a catalog."""

    catalog: Catalog
    store: TableStorage
    handles: Mapping[TableRef, TableHandle]

    def broken_rules(self, item: NodeType | EdgeType) -> Iterator[Broken]:
        """What the rows of one type break."""
        key = key_of(item)
        yield from self._lost_columns(item)
        yield from self._nulls(item)
        yield from _told(key, "key", self._strange_ids(item))
        yield from _told(key, "values", self._row_findings(item))
        rows = StoredTable(
            item=item,
            row_count=self.store.count(self._handle(item)),
            scan=lambda columns: self.store.scan(self._handle(item), columns=columns),
        )
        rules: list[UniqueRule | CardinalityRule] = [
            UniqueRule(item=item, names=("id",), place=0),
            *(rule for rule in unique_rules(item) if rule.names != ("id",)),
        ]
        if isinstance(item, EdgeType) and item.card != (0, None):
            rules.append(CardinalityRule(item=item, node=self.catalog.node_types[item.from_type]))
        for rule in rules:
            named = "cardinality" if isinstance(rule, CardinalityRule) else "unique"
            found = check_stored(self.catalog, rows, rule, _Nobody(), limit=EXAMPLES)
            yield from _told(key, named, found)
        if isinstance(item, EdgeType):
            yield from self.broken_ends(item)

    def unfit_values(
        self, item: NodeType | EdgeType, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[Broken]:
        """What no write would have taken, as a number that is none; blobs are not looked at."""
        blobs = self._handle(item).layout.blobs
        kept = {name: prop for name, prop in item.properties.items() if name not in blobs}
        whole = replace(item, properties=kept)
        parts = (fit_rows(whole, batch, limit=EXAMPLES).findings for batch in batches)
        found = gather(parts, limit=EXAMPLES)
        unfit = [each for each in found.violations if each.code is Code.TYPE_ERROR]
        if unfit:
            yield Broken(
                table_key=key_of(item),
                rule="values",
                count=found.counts[Code.TYPE_ERROR],
                message=unfit[0].message,
            )

    def broken_ends(self, item: EdgeType, at: NodeType | None = None) -> Iterator[Broken]:
        """Edges without a node at one of their ends; only at ends of one type, if it is given."""
        ends: tuple[tuple[Endpoint, str], ...] = (("src", item.from_type), ("dst", item.to_type))
        for endpoint, name in ends:
            node = self.catalog.node_types[name]
            if at is None or at.name == node.name:
                rule = EndRule(item=item, endpoint=endpoint, node=node)
                yield from self._orphans(rule)

    def _orphans(self, rule: EndRule) -> Iterator[Broken]:
        count, first = 0, None
        nodes = self._handle(rule.node)
        for batch in self.store.scan(self._handle(rule.item), columns=["id", rule.endpoint]):
            ends = batch.column(rule.endpoint)
            missing = self._missing(nodes, ends)
            gone = pc.is_in(ends, value_set=missing)
            lost = batch.filter(gone)
            count += lost.num_rows
            if first is None and lost.num_rows:
                subject = Subject(entity_id=str(lost.column("id")[0]))
                node_id = str(lost.column(rule.endpoint)[0])
                first = rule.violation(subject, node_id=node_id).message
        if count:
            yield Broken(
                table_key=key_of(rule.item), rule="endpoints", count=count, message=str(first)
            )

    def _missing(
        self, nodes: TableHandle, ends: pa.Array[pa.StringScalar]
    ) -> pa.Array[pa.StringScalar]:
        wanted = ends.unique()
        found = [
            self.store.existing_ids(nodes, wanted.slice(start, _IDS_ASKED))
            for start in range(0, len(wanted), _IDS_ASKED)
        ]
        known = one_array(pa.chunked_array(found, pa.string()))
        return wanted.filter(pc.invert(pc.is_in(wanted, value_set=known)))

    def _lost_columns(self, item: NodeType | EdgeType) -> Iterator[Broken]:
        """Properties that the table has no column for: a read takes them for null."""
        for name in self.store.lost_columns(self._handle(item)):
            message = f"{item.name}.{name} has no column in the table any more"
            count = self.store.count(self._handle(item))
            yield Broken(table_key=key_of(item), rule="columns", count=count, message=message)

    def _strange_ids(self, item: NodeType | EdgeType) -> Findings:
        """Nodes whose id is not that of their key, so that nobody who gives the key finds them."""
        if not isinstance(item, NodeType) or item.key is None:
            return gather((), limit=EXAMPLES)
        columns = list(dict.fromkeys(["id", *item.key]))
        batches = self.store.scan(self._handle(item), columns=columns)
        return gather((_id_findings(item, batch) for batch in batches), limit=EXAMPLES)

    def _nulls(self, item: NodeType | EdgeType) -> Iterator[Broken]:
        required = [
            name
            for name, prop in item.properties.items()
            if not prop.type.nullable and name not in self._handle(item).layout.blobs
        ]
        counts = dict.fromkeys(required, 0)
        if not required:
            return
        for batch in self.store.scan(self._handle(item), columns=required):
            for name in required:
                counts[name] += batch.column(name).null_count
        for name, count in counts.items():
            if count:
                message = f"{item.name}.{name} is required and has no value"
                yield Broken(table_key=key_of(item), rule="required", count=count, message=message)

    def _row_findings(self, item: NodeType | EdgeType) -> Findings:
        names = [
            name for name, prop in item.properties.items() if prop.type.enum_values is not None
        ]
        if isinstance(item, NodeType):
            names += [bounds.property for bounds in item.ranges]
            names += [check.property for check in item.checks]
        if not names:
            return gather((), limit=EXAMPLES)
        columns = list(dict.fromkeys(["id", *names]))
        batches = self.store.scan(self._handle(item), columns=columns)
        parts = (
            check_rows(FittedRows(item=item, table=pa.Table.from_batches([batch])), limit=EXAMPLES)
            for batch in batches
        )
        return gather(parts, limit=EXAMPLES)

    def _handle(self, item: NodeType | EdgeType) -> TableHandle:
        return self.handles[ref_of(item)]


def _id_findings(item: NodeType, batch: pa.RecordBatch) -> Findings:
    key = item.key or ()
    kinds = [item.properties[name].type for name in key]
    given = batch.column("id")
    made = render_ids([batch.column(name) for name in key], kinds)
    failed = is_given(given) & is_given(made) & ~mask_of(pc.equal(given, made))

    def strange(at: int, subject: Subject) -> Violation:
        return id_mismatch(item, subject, given=str(given[at]), canonical=str(made[at]))

    who = Rows(ids=given, lines=None)
    return masked_findings(Code.ID_MISMATCH, failed, who, strange, limit=EXAMPLES)


def _told(key: str, rule: str, found: Findings) -> Iterable[Broken]:
    if found.total:
        message = found.violations[0].message
        yield Broken(table_key=key, rule=rule, count=found.total, message=message)


class _Nobody:
    """Committed rows where a whole table is judged by itself: there are no others to ask."""

    lookup_keys: int | None = None

    def existing_ids(
        self,
        item: NodeType | EdgeType,  # noqa: ARG002 - of the protocol
        ids: pa.Array[pa.StringScalar],
    ) -> pa.Array[pa.StringScalar]:
        """None."""
        return ids.slice(0, 0)

    def holders(self, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
        """None."""
        return item.arrow_schema.empty_table().select(claims.column_names)

    def edges_by_id(
        self,
        item: EdgeType,
        ids: pa.Array[pa.StringScalar],  # noqa: ARG002 - of the protocol
    ) -> pa.Table:
        """None."""
        return item.arrow_schema.empty_table()

    def edges_at(
        self,
        item: EdgeType,
        endpoint: Endpoint,  # noqa: ARG002 - of the protocol
        nodes: pa.Array[pa.StringScalar],  # noqa: ARG002 - of the protocol
    ) -> pa.Table:
        """None."""
        return item.arrow_schema.empty_table()

    def scan_edges(
        self,
        item: EdgeType,  # noqa: ARG002 - of the protocol
    ) -> Sequence[pa.RecordBatch]:
        """None."""
        return ()
