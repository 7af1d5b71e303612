"""Committed rows for the checks of very many staged rows: columns are read whole, never by key.

Beyond some thousands of keys one pass over a column is cheaper than looking each of them up. What
the outcome depends on goes to the read set as questions about the staged rows, with the rows and
for no others, so no check can leave it out, and no key is kept for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.graph.arrays import one_array
from omnigraph.graph.commit.read_set import AllRows, RowsByText
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.relation_rules import ENDPOINTS
from omnigraph.lang.catalog import EdgeType
from omnigraph.pipeline.checks.staged_questions import (
    LeftSources,
    StagedById,
    StagedExistence,
    StagedRows,
    StagedSources,
    StagedTuples,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from omnigraph.graph.arrays import Column
    from omnigraph.graph.commit.read_set import Question
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Endpoint
    from omnigraph.lang.catalog import NodeType
    from omnigraph.pipeline.staging.detached_views import StagedView

_ENDS: Final = ("id", "src", "dst")


class WholeLookups:
    """Committed rows as one attempt to load sees them; of a type without rows nothing is read.

    The staged ids of the tables in `strict` must not be committed; in those of `given_ids` some id
    was not made for its row.
    """

    lookup_keys: int | None = None

    def __init__(
        self,
        txn: WriteTxn,
        views: Mapping[TableRef, StagedView],
        *,
        strict: Set[TableRef],
        given_ids: Set[TableRef],
    ) -> None:
        self._txn = txn
        self._staged = {ref: StagedRows(txn.store, view) for ref, view in views.items()}
        self._strict = strict
        self._given_ids = given_ids
        self._ids: dict[TableRef, Column] = {}
        self._asked: set[tuple[TableRef, Question]] = set()

    def existing_ids(
        self,
        item: NodeType | EdgeType,
        ids: Column,  # noqa: ARG002 - all are given, whatever is asked
    ) -> Column:
        """The ids of the table."""
        ref = ref_of(item)
        if ref in self._strict:
            self._ask(ref, StagedExistence(self._staged[ref]))
        for edge, endpoint in self._ends_at(item):
            self._ask(ref, StagedExistence(self._staged[edge], endpoint))
        if ref not in self._ids:
            self._ids[ref] = one_array(self._read(item, ["id"])["id"])
        return self._ids[ref]

    def holders(self, item: NodeType | EdgeType, claims: pa.Table) -> pa.Table:
        """`id` and members of rows that hold the first member of a tuple of the claims."""
        ref = ref_of(item)
        names = [name for name in claims.column_names if name != "id"]
        self._ask(ref, StagedTuples(self._staged[ref], tuple(names)))
        rows = self._read(item, ["id", *names])
        return _having(rows, names[0], one_array(claims[names[0]]))

    def edges_by_id(self, item: EdgeType, ids: Column) -> pa.Table:
        """Ends of the edges with these ids; ids that were made for their rows are of no edge."""
        ref = ref_of(item)
        if ref not in self._given_ids:
            return self._nothing(item, _ENDS)
        staged = self._staged[ref]
        self._ask(ref, StagedById(staged), LeftSources(staged, self._txn.readable(ref)))
        return _having(self._read(item, _ENDS), "id", ids)

    def edges_at(self, item: EdgeType, endpoint: Endpoint, nodes: Column) -> pa.Table:
        """Ends of the edges at these nodes."""
        ref = ref_of(item)
        if endpoint == "src" and ref in self._staged:
            self._ask(ref, StagedSources(self._staged[ref]))
        else:
            self._txn.read_set.ask(ref, RowsByText(endpoint, nodes))
        return _having(self._read(item, _ENDS), endpoint, nodes)

    def scan_edges(self, item: EdgeType) -> Iterable[pa.RecordBatch]:
        """Ends of all edges of the type."""
        ref = ref_of(item)
        self._ask(ref, AllRows())
        return self._txn.store.scan(self._txn.readable(ref), columns=list(_ENDS))

    def _ends_at(self, item: NodeType | EdgeType) -> Iterator[tuple[TableRef, Endpoint]]:
        """The staged edges that start or end at nodes of a type."""
        if isinstance(item, EdgeType):
            return
        for edge in self._txn.catalog.edge_types.values():
            ends = zip(ENDPOINTS, (edge.from_type, edge.to_type), strict=True)
            if ref_of(edge) in self._staged:
                yield from ((ref_of(edge), end) for end, name in ends if name == item.name)

    def _ask(self, ref: TableRef, *questions: Question) -> None:
        for each in questions:
            if (ref, each) not in self._asked:
                self._asked.add((ref, each))
                self._txn.read_set.ask(ref, each)

    def _read(self, item: NodeType | EdgeType, names: Sequence[str]) -> pa.Table:
        ref = ref_of(item)
        if not self._txn.line.pins[ref].row_count:
            return self._nothing(item, names)
        return self._txn.store.scan(self._txn.readable(ref), columns=list(names)).read_all()

    @staticmethod
    def _nothing(item: NodeType | EdgeType, names: Sequence[str]) -> pa.Table:
        return item.arrow_schema.empty_table().select(list(names))


def _having(rows: pa.Table, name: str, values: Column) -> pa.Table:
    return rows.filter(pc.is_in(rows[name], value_set=values))
