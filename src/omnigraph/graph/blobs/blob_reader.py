"""`BlobReader`: one blob value of one snapshot, read in ranges.

A value that lies outside the graph is known by its address alone and is never opened.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import BlobNotFound, InvalidArgument
from omnigraph.graph.blobs.blob_range import checked_end
from omnigraph.graph.history.snapshot import reclaimed
from omnigraph.lang.types import Scalar
from omnigraph.limits import MAX_BLOB_READ_BYTES
from omnigraph.storage.blob_rows import blob_cell
from omnigraph.storage.signals import ObjectMissing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.graph.history.snapshot import Snapshot
    from omnigraph.ids import GraphId
    from omnigraph.lang import EdgeType, NodeType
    from omnigraph.storage.blob_rows import BlobCell
    from omnigraph.storage.blobs import Blob
    from omnigraph.storage.handles import TableHandle


class BlobReader:
    """Reads one blob value; safe to share between threads.

    Iterating yields the whole value in pieces of at most 4 MiB.
    """

    def __init__(self, value: Blob | str, etag: str, snapshot: Snapshot, type_name: str) -> None:
        self._value = value
        self._etag = etag
        self._snapshot = snapshot
        self._type_name = type_name
        self._reading = threading.Lock()

    @property
    def length(self) -> int | None:
        """How many bytes it has; `None` if it lies outside, where nobody looked."""
        return None if isinstance(self._value, str) else self._value.length

    @property
    def etag(self) -> str | None:
        """A strong entity tag as HTTP writes it, quotes included; `None` if it lies outside.

        One tag never stands for two values. It changes with every write of the entity, and once
        for a branch when it first writes the type.
        """
        return None if isinstance(self._value, str) else self._etag

    @property
    def uri(self) -> str | None:
        """The address, if the graph only refers to the value."""
        return self._value if isinstance(self._value, str) else None

    @property
    def graph_commit_id(self) -> str:
        """The commit that the value is read at."""
        return self._snapshot.graph_commit_id

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to `end`, or up to the end of the value if it comes first.

        A call returns at most 4 MiB; a longer value is read in ranges, or by iterating.

        Raises:
            BlobRangeError: `start` is negative or past the last byte, or `end` is before `start`.
            ResourceLimit: the range has more than 4 MiB.
            InvalidArgument: the value lies outside the graph.
            SnapshotReclaimed: cleanup removed the version.
        """
        blob = self._require_inside()
        stop = checked_end(blob.length, start, end)
        return self._read(blob, start, stop)

    def __iter__(self) -> Iterator[bytes]:
        """The value in pieces of at most 4 MiB; none if it is empty.

        Raises:
            InvalidArgument: the value lies outside the graph.
            SnapshotReclaimed: cleanup removed the version.
        """
        return self._pieces(self._require_inside())

    def _pieces(self, blob: Blob) -> Iterator[bytes]:
        for start in range(0, blob.length, MAX_BLOB_READ_BYTES):
            yield self._read(blob, start, min(start + MAX_BLOB_READ_BYTES, blob.length))

    def _read(self, blob: Blob, start: int, end: int) -> bytes:
        try:
            with self._reading:
                return blob.read(start, end)
        except ObjectMissing as error:
            raise reclaimed(self._snapshot, self._type_name) from error

    def _require_inside(self) -> Blob:
        if isinstance(self._value, str):
            raise InvalidArgument(
                f"the value lies outside the graph, which never opens it; read {self._value}"
                " yourself",
                uri=self._value,
            )
        return self._value


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSelector:
    """Which blob is meant."""

    kind: str
    """`node` or `edge`."""
    type: str
    id: str
    property: str


def open_blob(snapshot: Snapshot, graph_id: GraphId, selector: BlobSelector) -> BlobReader:
    """The blob that a selector means, in one snapshot of the graph with this id.

    Raises:
        InvalidArgument: no such kind, type or Blob property.
        BlobNotFound: no such entity, or its blob is null.
        SnapshotReclaimed: cleanup removed the version.
    """
    item = _typed(snapshot, selector.kind, selector.type)
    entity_id, name = selector.id, selector.property
    _require_blob(item, name)
    if not isinstance(entity_id, str) or not _is_unicode(entity_id):
        raise InvalidArgument(f"an id is a text, not {entity_id!r}", argument="id")
    handle = snapshot.handle(item)
    try:
        cell = blob_cell(handle, entity_id, name)
    except ObjectMissing as error:
        raise reclaimed(snapshot, item.name) from error
    if cell is None or cell.value is None:
        what = "there is no such entity" if cell is None else "it is null"
        raise BlobNotFound(
            f"the {selector.kind} {item.name} {entity_id!r} has no blob `{name}`: {what} at commit"
            f" {snapshot.graph_commit_id}",
            type=item.name,
            entity_id=entity_id,
            property=name,
        )
    etag = _etag(graph_id, handle, cell, item.properties[name].property_id)
    return BlobReader(cell.value, etag, snapshot, item.name)


def _typed(snapshot: Snapshot, kind: str, name: str) -> NodeType | EdgeType:
    if kind not in ("node", "edge"):
        raise InvalidArgument(f"a kind is 'node' or 'edge', not {kind!r}", argument="kind")
    if not isinstance(name, str) or ":" in name:
        raise InvalidArgument(
            f"a type is given by its name, as Person, not by {name!r}", argument="type"
        )
    return snapshot.type(f"{kind}:{name}")


def _is_unicode(text: str) -> bool:
    """Whether a text can be an id at all: a lone surrogate cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _require_blob(item: NodeType | EdgeType, name: str) -> None:
    declared = item.properties.get(name) if isinstance(name, str) else None
    if declared is not None and declared.type.scalar is Scalar.BLOB:
        return
    known = ", ".join(item.blob_properties) or "none"
    raise InvalidArgument(
        f"{item.name}.{name} is no Blob property; the type has {known}",
        type=item.name,
        property=name,
    )


def _etag(graph_id: GraphId, handle: TableHandle, cell: BlobCell, property_id: int | None) -> str:
    # Versions count up within one line of a table, and a row gets a new form only in a new one.
    parts = (
        graph_id,
        handle.pin.location,
        handle.pin.branch,
        cell.row_id,
        cell.changed_at,
        property_id,
    )
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'
