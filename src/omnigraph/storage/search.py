"""Text and vector search over a table at a pin: ids with scores or distances, nothing else.

Which rows a text query finds does not depend on how much of the table its index covers, as long as
the index is there; without one Lance would analyze the text in another way, so a property without
an index is searched in a copy in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation, Transaction
from lance.query import FullTextQuery, MatchQuery, PhraseQuery

from omnigraph.errors import InternalError
from omnigraph.ids import Incarnation, TableId, TableKey, new_link_uuid
from omnigraph.storage import indexes, lance_writes, reading
from omnigraph.storage.handles import TableLayout
from omnigraph.storage.indexes import IndexKind, IndexSpec
from omnigraph.storage.layout import column_of, schema_of
from omnigraph.storage.predicates import In, Predicate, has_scanner_filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset

    from omnigraph.ids import IdSource
    from omnigraph.storage.calls import StoreCalls
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.reading import Ids, Reads

SCORED = schema_of(id=pa.string(), score=pa.float32(), row_id=pa.uint64())
NEAR = schema_of(id=pa.string(), distance=pa.float32(), row_id=pa.uint64())

_TEXT = TableLayout(
    table_id=TableId(0),
    incarnation=Incarnation(0),
    table_key=TableKey("text in memory"),
    location="",
    schema=schema_of(id=pa.string(), text=pa.string()),
    property_ids={"text": 0},
)


def search_text(
    calls: StoreCalls,
    handle: TableHandle,
    name: str,
    query: str,
    *,
    is_phrase: bool,
    limit: int | None,
) -> pa.Table:
    """Every row whose property has a token of the query, or all of them in order: id and score.

    With a limit, that many of the best; which of equal ones is not said.

    Raises:
        InternalError: the property has no text index.
    """
    column = column_of(handle.layout, name)
    with calls.making("search_text", handle.layout.table_key):
        if not indexes.has_index(handle.dataset, handle.layout, name, IndexKind.INVERTED):
            raise InternalError(f"{handle.layout.table_key}.{name} has no text index")
        return _scored(handle.dataset, column, query, is_phrase=is_phrase, limit=limit)


def _scored(
    dataset: LanceDataset, column: str, query: str, *, is_phrase: bool, limit: int | None = None
) -> pa.Table:
    asked: FullTextQuery = PhraseQuery(query, column) if is_phrase else MatchQuery(query, column)
    # Asked for by name, the score does not make Lance log a line on each search.
    rows = dataset.to_table(
        columns=["id", "_score"], full_text_query=asked, with_row_id=True, limit=limit
    )
    return pa.table([rows["id"], rows["_score"], rows[reading.ROW_ID]], schema=SCORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInMemory:
    """Texts that were copied and indexed in memory; they leave no file and end with this value."""

    calls: StoreCalls
    dataset: LanceDataset = field(repr=False)

    def search(self, query: str, *, is_phrase: bool = False) -> pa.Table:
        """Id and score of every text that matches, as `search_text` gives them."""
        with self.calls.making("search_text", _TEXT.table_key):
            return _scored(self.dataset, "text", query, is_phrase=is_phrase)


def ephemeral_text(
    calls: StoreCalls, source: IdSource, ids: Ids, texts: pa.Array[pa.StringScalar]
) -> TextInMemory:
    """The texts, indexed by the one analyzer."""
    rows = pa.table([ids, texts], schema=_TEXT.schema)
    spec = IndexSpec(property_name="text", kind=IndexKind.INVERTED)
    with calls.making("index_in_memory", _TEXT.table_key):
        dataset = lance_writes.create_in_memory(rows, new_link_uuid(source))
        segment = indexes.build_segment(dataset, _TEXT, spec, indexes.fragment_ids(dataset), {})
        operation = LanceOperation.CreateIndex([segment], [])
        made = Transaction(dataset.version, operation, new_link_uuid(source))
        return TextInMemory(calls=calls, dataset=lance_writes.commit(dataset, made))


def search_vector(
    reads: Reads,
    handle: TableHandle,
    name: str,
    vector: Sequence[float],
    k: int,
    *,
    predicate: Predicate | None,
    is_exact: bool,
) -> pa.Table:
    """The k rows nearest by cosine distance, nearest first: id and distance.

    Rows without a vector, or with a zero one, have no distance and are never found.
    """
    if predicate is not None and not has_scanner_filters(handle.dataset.schema):
        return _search_all(reads, handle, name, vector, k, predicate)
    if predicate is not None:
        predicate = _for_scanner(reads, handle, predicate)
    expression = None
    if predicate is not None:
        expression = reading.scanner_filter(handle, predicate)
        if expression is None:
            return NEAR.empty_table()
    with reads.calls.making("search_vector", handle.layout.table_key):
        return _nearest(handle, name, vector, k, expression, is_exact=is_exact)


def _nearest(
    handle: TableHandle,
    name: str,
    vector: Sequence[float],
    k: int,
    expression: pc.Expression | None,
    *,
    is_exact: bool,
) -> pa.Table:
    query = {
        "column": column_of(handle.layout, name),
        "q": pa.array(vector, pa.float32()),
        "k": k,
        "metric": "cosine",
        "use_index": not is_exact,
    }
    rows = handle.dataset.to_table(
        columns=["id", "_distance"],
        nearest=query,
        filter=expression,
        prefilter=True,
        with_row_id=True,
    )
    return pa.table([rows["id"], rows["_distance"], rows[reading.ROW_ID]], schema=NEAR)


def _search_all(
    reads: Reads,
    handle: TableHandle,
    name: str,
    vector: Sequence[float],
    k: int,
    predicate: Predicate,
) -> pa.Table:
    """The search on a table whose scanner takes no filter: all by distance, then the filter."""
    with reads.calls.making("search_vector", handle.layout.table_key):
        rows = max(1, handle.dataset.count_rows())
        nearest = _nearest(handle, name, vector, rows, None, is_exact=True)
    options = reading.ScanOptions(columns=["id"], predicate=predicate)
    kept = reading.scan(reads, handle, options).read_all()["id"].combine_chunks()
    return nearest.filter(pc.is_in(nearest["id"], value_set=pa.array(kept, pa.string()))).slice(
        0, k
    )


def _for_scanner(reads: Reads, handle: TableHandle, predicate: Predicate) -> Predicate:
    """The predicate, or the ids that satisfy it where the scanner cannot evaluate it."""
    if reading.scanner_filter(handle, predicate) is not None:
        return predicate
    options = reading.ScanOptions(columns=["id"], predicate=predicate)
    rows = reading.scan(reads, handle, options).read_all()
    return In("id", pa.array(rows["id"].combine_chunks(), pa.string()))
