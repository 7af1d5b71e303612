"""Export: a snapshot as lines of the load format, nodes before edges, by type name, then by id.

What can be refused is refused before the first byte. Rows are read in portions of about a megabyte;
of a type whose rows do not lie in the order of their ids, the ids are held and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidArgument
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.graph.manifest.table_refs import key_of
from omnigraph.graph.ndjson.record_writer import RecordWriter
from omnigraph.lang.catalog import NodeType
from omnigraph.storage.reading import ROW_ID
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.lang import EdgeType
    from omnigraph.storage.handles import TableHandle
    from omnigraph.storage.table_storage import TableStorage

    Pinned = Callable[[Sequence[TableHandle]], AbstractContextManager[None]]

CHUNK_BYTES: Final = 64 * 1024
"""The most that one chunk of an export has."""

_PORTION_BYTES: Final = 1024 * 1024
_FIRST_TAKE: Final = 256
_LARGEST_TAKE: Final = 8_192


def _unpinned(_: Sequence[TableHandle]) -> AbstractContextManager[None]:
    return nullcontext()


def export_lines(
    store: TableStorage,
    snapshot: Snapshot,
    types: Sequence[str] | None = None,
    *,
    pinned: Pinned = _unpinned,
) -> Iterator[bytes]:
    """The records of the chosen types, all of them by default, in chunks of at most 64 KiB.

    A chunk holds whole lines, unless one line alone is longer. A type is given as `Person`, or as
    `node:Link` or `edge:Link`; a plain name that is both means both. `pinned` keeps the versions of
    tables from the first chunk to the last.

    Raises:
        InvalidArgument: there is no such type; before the first chunk.
        SnapshotReclaimed: cleanup removed the version, perhaps while it was read.
    """
    writers = [
        RecordWriter(item=item, handle=snapshot.handle(item))
        for item in select_types(snapshot, types)
    ]
    return _in_chunks(_lines(store, snapshot, writers, pinned))


def select_types(snapshot: Snapshot, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """The types that the names mean, all of them without any; nodes first, then by name.

    Raises:
        InvalidArgument: there is no such type.
    """
    nodes, edges = snapshot.catalog.node_types, snapshot.catalog.edge_types
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        raise InvalidArgument(f"types is a list of names, as [{names!r}]", argument="types")
    if not names:
        return [*_by_name(nodes.values()), *_by_name(edges.values())]
    chosen: dict[str, NodeType | EdgeType] = {}
    for name in names:
        is_both = isinstance(name, str) and name in nodes and name in edges
        items: tuple[NodeType | EdgeType, ...] = (
            (nodes[name], edges[name]) if is_both else (snapshot.type(name),)
        )
        chosen |= {key_of(item): item for item in items}
    return [
        *_by_name(item for item in chosen.values() if isinstance(item, NodeType)),
        *_by_name(item for item in chosen.values() if not isinstance(item, NodeType)),
    ]


def _by_name(items: Iterable[NodeType | EdgeType]) -> list[NodeType | EdgeType]:
    return sorted(items, key=lambda item: item.name)


def _lines(
    store: TableStorage, snapshot: Snapshot, writers: Sequence[RecordWriter], pinned: Pinned
) -> Iterator[bytes]:
    with pinned([writer.handle for writer in writers]):
        for writer in writers:
            try:
                for rows in _rows_by_id(store, writer.handle, writer.columns):
                    yield from writer.lines(rows)
            except ObjectMissing as error:
                raise reclaimed(snapshot, writer.item.name) from error


def _rows_by_id(
    store: TableStorage, handle: TableHandle, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The rows with their row ids, in the order of their ids, in portions."""
    keys = store.scan(handle, columns=["id"], with_row_ids=True).read_all()
    if _is_ascending(keys["id"]):
        del keys
        reader = store.scan(handle, columns=columns, with_row_ids=True, batch_bytes=_PORTION_BYTES)
        for batch in reader:
            yield pa.Table.from_batches([batch])
        return
    row_ids = keys[ROW_ID].take(pc.sort_indices(keys["id"])).combine_chunks()
    del keys
    start, count = 0, _FIRST_TAKE
    while start < len(row_ids):
        wanted = row_ids.slice(start, count)
        rows = store.take_rows(handle, wanted, columns).append_column(ROW_ID, wanted)
        yield rows
        start += len(wanted)
        row_bytes = max(rows.nbytes // len(wanted), 1)
        count = max(min(_PORTION_BYTES // row_bytes, _LARGEST_TAKE), 1)


def _is_ascending(ids: pa.ChunkedArray[pa.StringScalar]) -> bool:
    return len(ids) < 2 or bool(pc.all(pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py())


def _in_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for part in parts:
        held += part
        start = 0
        while len(held) - start > CHUNK_BYTES:
            most = start + CHUNK_BYTES
            end = held.rfind(b"\n", start, most) + 1 or most
            yield bytes(held[start:end])
            start = end
        del held[:start]
    if held:
        yield bytes(held)
