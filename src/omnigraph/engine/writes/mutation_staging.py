"""`MutationStaging`: what the statements of one mutation do, in memory, over one captured state.

A statement sees the captured rows overlaid with what is pending. Nothing is staged before all have
run and the rules of the schema hold for the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writes.pending_rows import PendingRows
from omnigraph.engine.writes.row_values import RowValues
from omnigraph.engine.writes.selection import Selection, select
from omnigraph.errors import InvalidArgument, ResourceLimit
from omnigraph.graph.blobs.blob_values import BlobBudget, read_blobs
from omnigraph.graph.commit.lookups import TxnLookups
from omnigraph.graph.commit.read_set import RowsById, RowsByText
from omnigraph.graph.commit.txn import PreparedWrite
from omnigraph.graph.manifest.table_refs import key_of, ref_of
from omnigraph.graph.query.pushdown import constant_value
from omnigraph.graph.validation import (
    FittedRows,
    TableDelta,
    fit_rows,
    refuse_mutation,
    validate,
)
from omnigraph.lang import ir
from omnigraph.lang.arrow_schema import arrow_type
from omnigraph.lang.catalog import NodeType
from omnigraph.lang.types import STRING, Scalar
from omnigraph.limits import MAX_MUTATION_ARROW_BYTES, MAX_MUTATION_ROWS
from omnigraph.storage.predicates import And, In, IsNotTrue, Or
from omnigraph.storage.transactions import RowCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from omnigraph.graph.arrays import Ids
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.load.vector_filling import VectorFiller
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.query.budget import Budget
    from omnigraph.lang import EdgeType
    from omnigraph.lang.types import PropType
    from omnigraph.storage.handles import StagedWrite
    from omnigraph.storage.predicates import Predicate


@dataclass(slots=True)
class _Removed:
    """What is deleted of one table: the ids, and the predicates that found them."""

    item: NodeType | EdgeType
    ids: list[Ids] = field(default_factory=list)
    predicates: list[Predicate] = field(default_factory=list)

    @property
    def all_ids(self) -> Ids:
        return pa.concat_arrays([pa.array([], pa.string()), *self.ids])


@dataclass(kw_only=True)
class MutationStaging:
    """Runs the statements of one mutation on one attempt to write it."""

    txn: WriteTxn
    params: Mapping[str, object]
    new_id: Callable[[int], str]
    """The id of the row that the n-th statement inserts: the same at every attempt."""
    filler: VectorFiller
    budget: Budget
    blobs: BlobBudget = field(default_factory=BlobBudget)
    affected_nodes: int = 0
    affected_edges: int = 0
    warnings: list[str] = field(default_factory=list)
    is_strict: bool = False
    _pending: dict[TableRef, PendingRows] = field(default_factory=dict)
    _removed: dict[TableRef, _Removed] = field(default_factory=dict)

    def run(self, number: int, op: ir.MutationOp) -> None:
        """Run the n-th statement."""
        self.budget.check()
        match op:
            case ir.Insert():
                self._insert(number, op)
            case ir.Update():
                self._update(op)
            case ir.Delete():
                self._delete(op)

    def prepared(self) -> PreparedWrite:
        """Everything validated and staged.

        Raises:
            ConstraintViolation, KeyConflict: a rule is broken; nothing was staged.
            ExternalBlobSource: something that a blob refers to could not be found; the same.
        """
        self.budget.check()
        deltas = {ref: _delta(pending) for ref, pending in self._pending.items()}
        for ref, removed in self._removed.items():
            no_rows = FittedRows(item=removed.item, table=removed.item.arrow_schema.empty_table())
            deltas[ref] = TableDelta(rows=no_rows, removed=removed.all_ids)
        refuse_mutation(validate(self.txn.catalog, deltas.values(), TxnLookups(self.txn)))
        self.blobs.probe()
        self.budget.check()
        # What nothing was written to or hit in is left alone: a branch does not even fork it.
        staged = [
            *(
                self._stage_rows(ref, pending)
                for ref, pending in sorted(self._pending.items(), key=_by_ref)
                if pending.parts
            ),
            *(
                self._stage_removal(ref, removed.all_ids)
                for ref, removed in sorted(self._removed.items(), key=_by_ref)
                if removed.ids
            ),
        ]
        affected = {"nodes": self.affected_nodes, "edges": self.affected_edges}
        return PreparedWrite(
            staged=tuple(staged), is_strict=self.is_strict, stats={"affected": affected}
        )

    def _item(self, kind: ir.EntityKind, name: str) -> NodeType | EdgeType:
        catalog = self.txn.catalog
        types: Mapping[str, NodeType | EdgeType] = (
            catalog.node_types if kind is ir.EntityKind.NODE else catalog.edge_types
        )
        return types[name]

    def _rows_of(self, item: NodeType | EdgeType) -> PendingRows:
        return self._pending.setdefault(ref_of(item), PendingRows(item))

    def _insert(self, number: int, op: ir.Insert) -> None:
        item = self._item(op.kind, op.type)
        if op.if_absent and self._is_there(item, op.assignments):
            return
        columns = self._assigned(item, op.assignments, _ONE_ROW)
        self._fill_vectors(item, columns)
        is_keyed = isinstance(item, NodeType) and item.key is not None
        if not is_keyed:
            columns["id"] = pa.array([self.new_id(number)], pa.string())
        fitted = fit_rows(item, pa.table(columns))
        pending = self._rows_of(item)
        if not is_keyed:
            pending.strict_ids.append(self.new_id(number))
        pending.add(fitted, kept_blobs={})
        self._require_size(pending)
        if op.kind is ir.EntityKind.NODE:
            self.affected_nodes += 1
        else:
            self.affected_edges += 1

    def _is_there(self, item: NodeType | EdgeType, assignments: tuple[ir.Assign, ...]) -> bool:
        """Whether a node with the key that is assigned is pending or committed."""
        key = (item.key or ()) if isinstance(item, NodeType) else ()
        members = tuple(assign for assign in assignments if assign.property in key)
        ids = fit_rows(item, pa.table(self._assigned(item, members, _ONE_ROW))).table["id"]
        if ids.null_count:
            return False  # the key is broken, as the rules will say
        wanted = pa.array(ids.combine_chunks(), pa.string())
        pending = self._pending.get(ref_of(item))
        if pending is not None and pc.any(pc.is_in(wanted, value_set=pending.ids)).as_py():
            return True
        return len(TxnLookups(self.txn).existing_ids(item, wanted)) > 0

    def _assigned(
        self, item: NodeType | EdgeType, assignments: tuple[ir.Assign, ...], rows: pa.Table
    ) -> dict[str, pa.Array[Any]]:
        """The assigned columns, for rows as they were before. Any: columns of every type."""
        columns: dict[str, pa.Array[Any]] = {}
        for assignment in assignments:
            name = assignment.property
            match assignment.value:
                case ir.Param() | ir.Lit() as constant:
                    columns[name] = self._repeated(item, name, constant, rows.num_rows)
                case expr:
                    columns[name] = RowValues(self.params).computed(expr, rows, self.budget)
        return columns

    def _repeated(
        self, item: NodeType | EdgeType, name: str, constant: ir.Param | ir.Lit, rows: int
    ) -> pa.Array[Any]:
        """A constant for so many rows. Any: a column of any type."""
        value = constant_value(constant, self.params)
        kind = _kind(item, name)
        if kind.scalar is Scalar.BLOB:
            return self._blobs(item, name, value, rows)
        value_type = arrow_type(constant.type if value is not None else kind)
        if isinstance(value, tuple):
            value = list(value)
        return pa.array([value] * rows, value_type)

    def _blobs(
        self, item: NodeType | EdgeType, name: str, value: object, rows: int
    ) -> pa.Array[Any]:
        """One blob for so many rows. Any: bytes, or an address in the form of the table."""
        blobs = read_blobs(item, name, [value] * rows, self.blobs)
        if blobs.reasons:
            raise InvalidArgument(
                f"{item.name}.{name}: {blobs.reasons[0]}", type=item.name, property=name
            )
        return blobs.values

    def _fill_vectors(self, item: NodeType | EdgeType, columns: dict[str, pa.Array[Any]]) -> None:
        """Required vectors that were left out, from the texts they stand for."""
        if not isinstance(item, NodeType):
            return
        for name, embed in item.embeds.items():
            declared = item.properties[name]
            if name in columns or declared.type.nullable:
                continue
            source = item.properties[embed.source]
            default = None if source.default is None else source.default.value
            text = columns[embed.source][0].as_py() if embed.source in columns else default
            if isinstance(text, str):
                (vector,) = self.filler.vectors(item, name, [text])
                columns[name] = pa.array([vector.tolist()], arrow_type(declared.type))

    def _update(self, op: ir.Update) -> None:
        self.is_strict = True
        item = self._item(op.kind, op.type)
        pending = self._rows_of(item)
        blobs = frozenset(item.blob_properties)
        assigned = {assignment.property for assignment in op.assignments}
        matching = self._matching(item, select(item, op.where, self.params), pending)
        if op.kind is ir.EntityKind.NODE:
            self.affected_nodes += matching.num_rows
        else:
            self.affected_edges += matching.num_rows
        if not matching.num_rows:
            return
        columns = self._assigned(item, op.assignments, matching)
        rows: dict[str, Any] = {  # Any: columns of every type
            name: matching[name] for name in matching.column_names if name not in assigned
        }
        ids = [str(entity_id) for entity_id in matching["id"].to_pylist()]
        pending.note_read(matching)
        before = {str(entity_id) for entity_id in pending.ids.to_pylist()}
        kept = {
            entity_id: (
                pending.kept_blobs.get(entity_id, frozenset()) if entity_id in before else blobs
            )
            - assigned
            for entity_id in ids
        }
        for name in sorted(blobs - assigned):
            rows[name] = _pending_blobs(pending, name, ids)
        fitted = fit_rows(item, pa.table({**rows, **columns}))
        pending.add(fitted, kept_blobs=kept)
        self._require_size(pending)
        self._warn_of_vectors(item, assigned)

    def _warn_of_vectors(self, item: NodeType | EdgeType, assigned: set[str]) -> None:
        embeds = item.embeds if isinstance(item, NodeType) else {}
        for name, embed in embeds.items():
            if embed.source in assigned and name not in assigned:
                self.warnings.append(
                    f"{item.name}.{embed.source} changed and {item.name}.{name}, which stands for"
                    " it, did not; set it too"
                )

    def _matching(
        self, item: NodeType | EdgeType, selection: Selection, pending: PendingRows
    ) -> pa.Table:
        """The rows that are selected, with what is pending laid over them."""
        ref = ref_of(item)
        self.txn.read_set.ask(ref, selection.question(self.txn.store))
        readable = [name for name in item.arrow_schema.names if name not in item.blob_properties]
        reader = self.txn.store.scan_with_pending(
            self.txn.readable(ref),
            pending.table.select(readable),
            columns=readable,
            predicate=selection.predicate,
        )
        batches: list[pa.RecordBatch] = []
        rows = 0
        for batch in reader:
            self.budget.check()
            kept = selection.kept(batch)
            rows += kept.num_rows
            _require_rows(item, rows)
            batches.append(kept)
        return pa.Table.from_batches(batches, reader.schema)

    def _delete(self, op: ir.Delete) -> None:
        self.is_strict = True
        item = self._item(op.kind, op.type)
        ref = ref_of(item)
        removed = self._removed.setdefault(ref, _Removed(item))
        selection = select(item, op.where, self.params)
        self.txn.read_set.ask(ref, selection.question(self.txn.store))
        target: Predicate = selection.predicate
        if removed.predicates:
            # Not `Not`: where an earlier predicate was unknown, the row was not hit.
            earlier = IsNotTrue(Or(tuple(removed.predicates)))
            target = And((target, earlier))
        if not selection.rest:
            removed.predicates.append(selection.predicate)
        hit = self._new_ids(ref, removed, replace(selection, predicate=target))
        if not len(hit):
            return
        removed.ids.append(hit)
        if op.kind is ir.EntityKind.EDGE:
            self.affected_edges += len(hit)
            return
        self.affected_nodes += len(hit)
        for edge in self.txn.catalog.edge_types.values():
            self._cascade(edge, item, hit)

    def _cascade(self, edge: EdgeType, node: NodeType | EdgeType, ids: Ids) -> None:
        """Every edge at one of the nodes goes with it."""
        ref = ref_of(edge)
        ends = [
            name
            for name, end in (("src", edge.from_type), ("dst", edge.to_type))
            if end == node.name
        ]
        if not ends:
            return
        removed = self._removed.get(ref, _Removed(edge))
        for name in ends:
            self.txn.read_set.ask(ref, RowsByText(name, ids))
        at_ends = Or(tuple(In(name, ids) for name in ends))
        hit = self._new_ids(ref, removed, Selection(predicate=at_ends))
        if len(hit):
            removed.ids.append(hit)
            self._removed[ref] = removed
            self.affected_edges += len(hit)

    def _new_ids(self, ref: TableRef, removed: _Removed, selection: Selection) -> Ids:
        """Ids of committed rows that are selected and that nothing has hit yet."""
        columns = ["id", *(name for name in selection.columns if name != "id")]
        reader = self.txn.store.scan(
            self.txn.readable(ref), columns=columns, predicate=selection.predicate
        )
        parts: list[Ids] = [pa.array([], pa.string())]
        for batch in reader:
            self.budget.check()
            parts.append(pa.array(selection.kept(batch).column("id"), pa.string()))
        ids = pa.concat_arrays(parts)
        return ids.filter(pc.invert(pc.is_in(ids, value_set=removed.all_ids)))

    def _require_size(self, pending: PendingRows) -> None:
        # What is pending is joined only when it may be too much: an insert adds one row of many.
        if pending.most_rows > MAX_MUTATION_ROWS:
            _require_rows(pending.item, len(pending.ids))
        if pending.most_bytes <= MAX_MUTATION_ARROW_BYTES:
            return
        key = key_of(pending.item)
        size_bytes = pending.table.nbytes
        if size_bytes > MAX_MUTATION_ARROW_BYTES:
            raise ResourceLimit(
                f"a mutation writes {size_bytes:,} bytes to {key} and may write"
                f" {MAX_MUTATION_ARROW_BYTES:,}; load them instead",
                resource=f"keyed write bytes for {key}",
                limit=MAX_MUTATION_ARROW_BYTES,
                actual=size_bytes,
            )

    def _stage_rows(self, ref: TableRef, pending: PendingRows) -> StagedWrite:
        """The pending rows of one table, as few writes as its blobs allow."""
        store, stamp = self.txn.store, self.txn.stamp
        base = self.txn.writable(ref)
        groups = list(pending.groups())

        def stage(handle: Any, names: frozenset[str], rows: pa.Table) -> StagedWrite:  # noqa: ANN401
            if names:
                return store.stage_update(handle, rows, stamp)
            if len(pending.strict_ids) == rows.num_rows:
                return store.stage_append(handle, rows, stamp)
            return store.stage_merge_insert(handle, rows, stamp)

        first = stage(base, *groups[0])
        if len(groups) == 1:
            return first
        ids = pending.ids
        self.txn.read_set.ask(ref, RowsById(ids))
        changed = len(store.existing_ids(self.txn.readable(ref), ids))
        later = [lambda after, group=group: stage(after, *group) for group in groups[1:]]
        counts = RowCounts(added=len(ids) - changed, changed=changed)
        return store.chain(first, *later, counts=counts)

    def _stage_removal(self, ref: TableRef, ids: Ids) -> StagedWrite:
        return self.txn.store.stage_delete(self.txn.writable(ref), ids, self.txn.stamp)


_ONE_ROW = pa.table({"": pa.nulls(1)})
"""A row that is not there yet, of which nothing can be read."""


def _by_ref(entry: tuple[TableRef, object]) -> TableRef:
    return entry[0]


def _delta(pending: PendingRows) -> TableDelta:
    return TableDelta(
        rows=pending.fitted,
        strict_ids=pa.array(pending.strict_ids, pa.string()),
        read=pending.read,
    )


def _kind(item: NodeType | EdgeType, name: str) -> PropType:
    declared = item.properties.get(name)
    return STRING if declared is None else declared.type


def _require_rows(item: NodeType | EdgeType, rows: int) -> None:
    if rows > MAX_MUTATION_ROWS:
        key = key_of(item)
        raise ResourceLimit(
            f"a mutation writes more than {MAX_MUTATION_ROWS:,} rows of {key}; narrow its `where`,"
            " or load the rows",
            resource=f"keyed write entities for {key}",
            limit=MAX_MUTATION_ROWS,
            actual=rows,
        )


def _pending_blobs(pending: PendingRows, name: str, ids: list[str]) -> pa.Array[Any]:
    """Blobs of rows that are pending; a stand-in where the table keeps its own.

    Any: a blob comes as bytes or in the form of the table.
    """
    table = pending.table
    kept = {entity_id for entity_id, names in pending.kept_blobs.items() if name in names}
    at = {
        entity_id: row
        for row, entity_id in enumerate(table["id"].to_pylist())
        if entity_id not in kept
    }
    held = table[name].combine_chunks()
    empty: object = {"data": b""} if pa.types.is_struct(held.type) else b""
    stand_in = pa.array([empty], held.type)
    places = pa.array([at.get(entity_id, len(held)) for entity_id in ids], pa.int64())
    blobs: pa.Array[Any] = pa.concat_arrays([held, stand_in]).take(places)
    return blobs
