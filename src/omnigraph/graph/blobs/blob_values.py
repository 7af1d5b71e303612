"""Blob values of a write: bytes in base64, or the address of something outside the graph.

Whoever writes reads its blob cells here, so that one budget counts them all: bytes for each type
and addresses for the whole write. A limit is checked before the values are copied into a column.
Addresses must be allowed when they are read; they are probed together, once, before staging.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import ResourceLimit
from omnigraph.graph.arrays import one_array
from omnigraph.graph.blobs.addresses import DENY_ALL
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.lang.values import describe_json
from omnigraph.limits import (
    MAX_DECODED_BLOB_BYTES,
    MAX_EXTERNAL_BLOB_CELLS,
    MAX_EXTERNAL_BLOB_URI_BYTES,
)
from omnigraph.storage.blobs import STORED_BLOB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from omnigraph.graph.arrays import Mask
    from omnigraph.graph.blobs.addresses import ExternalBlobs
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.lang import EdgeType, NodeType

Blobs: TypeAlias = "pa.Array[Any]"  # Any: bytes, or structs of bytes and addresses

INLINE: Final = "base64:"
"""What a text begins with that holds the bytes themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobColumn:
    """Blob cells as a column of their table."""

    values: Blobs
    """`large_binary`, or `STORED_BLOB` where some cell is an address."""
    unfit: Mask
    """Cells that were given and are no blob; null in `values`."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why each of them is none, by position."""


class BlobBudget:
    """What one write may hold of blobs, and the addresses that it must find before it is staged."""

    def __init__(self, external: ExternalBlobs = DENY_ALL) -> None:
        self._external = external
        self._bytes: dict[TableRef, int] = {}
        self._cells = 0
        self._addresses: dict[str, None] = {}
        self._probed: set[str] = set()

    def again(self) -> BlobBudget:
        """The same write prepared anew: nothing is counted yet, what was found stays found."""
        fresh = BlobBudget(self._external)
        fresh._probed = self._probed
        return fresh

    def hold(self, item: NodeType | EdgeType, size_bytes: int) -> None:
        """Count bytes that the write holds for rows of a type.

        Raises:
            ResourceLimit: they are too many.
        """
        self.require_room(item, size_bytes)
        ref = ref_of(item)
        self._bytes[ref] = self._bytes.get(ref, 0) + size_bytes

    def require_room(self, item: NodeType | EdgeType, size_bytes: int) -> None:
        """Refuse bytes that the write cannot hold, before they are there.

        Raises:
            ResourceLimit: they are too many.
        """
        total = self._bytes.get(ref_of(item), 0) + size_bytes
        if total > MAX_DECODED_BLOB_BYTES:
            raise ResourceLimit(
                f"a write holds {total:,} bytes of blobs for {item.name} and may hold"
                f" {MAX_DECODED_BLOB_BYTES:,}; write them in parts",
                resource="decoded blob input bytes",
                limit=MAX_DECODED_BLOB_BYTES,
                actual=total,
            )

    def refer(self, item: NodeType | EdgeType, name: str, uri: str) -> None:
        """Count one cell that holds an address.

        Raises:
            ExternalBlobDenied: the graph does not allow it.
            ResourceLimit: it is too long, or the write has too many.
        """
        size_bytes = len(uri.encode("utf-8", "surrogatepass"))
        if size_bytes > MAX_EXTERNAL_BLOB_URI_BYTES:
            raise ResourceLimit(
                f"{item.name}.{name} is given an address of {size_bytes:,} bytes and one may have"
                f" {MAX_EXTERNAL_BLOB_URI_BYTES:,}; bytes of a blob follow `{INLINE}`",
                resource="external Blob URI bytes",
                limit=MAX_EXTERNAL_BLOB_URI_BYTES,
                actual=size_bytes,
            )
        if uri not in self._addresses:
            self._external.require(uri, type_name=item.name, name=name)
            self._addresses[uri] = None
        self._cells += 1
        if self._cells > MAX_EXTERNAL_BLOB_CELLS:
            raise ResourceLimit(
                f"a write refers to more than {MAX_EXTERNAL_BLOB_CELLS:,} blobs outside the graph;"
                " write them in parts",
                resource="external Blob reference cells",
                limit=MAX_EXTERNAL_BLOB_CELLS,
                actual=self._cells,
            )

    def probe(self) -> None:
        """Make sure that every address names something; each is asked for once.

        Raises:
            ExternalBlobSource: one could not be found.
        """
        missing = [uri for uri in self._addresses if uri not in self._probed]
        if missing:
            self._external.probe(missing)
            self._probed.update(missing)

    def unseen(self, uris: Iterable[str]) -> dict[str, str]:
        """Which of these addresses of the write name nothing that can be seen, and why.

        Raises:
            ExternalBlobSource: a store does not answer.
        """
        asked = [uri for uri in dict.fromkeys(uris) if uri not in self._probed]
        reasons = self._external.unseen(asked) if asked else {}
        self._probed.update(uri for uri in asked if uri not in reasons)
        return reasons


def read_blobs(
    item: NodeType | EdgeType, name: str, values: Sequence[object], budget: BlobBudget
) -> BlobColumn:
    """The JSON values of one column as blobs; `bytes` are taken as they are.

    Raises:
        ExternalBlobDenied: a cell is an address that the graph does not allow.
        ResourceLimit: the write would hold too many bytes or addresses.
    """
    cells: list[bytes | None] = [None] * len(values)
    addresses: dict[int, str] = {}
    reasons: dict[int, str] = {}
    known: dict[str, bytes] = {}
    for at, value in enumerate(values):
        if value is None:
            continue
        if isinstance(value, str) and not value.startswith(INLINE):
            budget.refer(item, name, value)
            addresses[at] = value
            continue
        try:
            cells[at] = _bytes_of(item, value, known, budget)
        except _NoBlob as error:
            reasons[at] = str(error)
    unfit = np.zeros(len(values), np.bool_)
    unfit[list(reasons)] = True
    return BlobColumn(values=_column(cells, addresses), unfit=unfit, reasons=reasons)


def refer_stored(item: NodeType | EdgeType, rows: pa.Table, budget: BlobBudget) -> None:
    """Count the addresses in rows whose blobs have the form of the table.

    Raises:
        ExternalBlobDenied: the graph does not allow one of them.
        ResourceLimit: one is too long, or the write has too many.
    """
    for name in item.blob_properties:
        if pa.types.is_struct(rows.schema.field(name).type):
            for uri in pc.struct_field(rows[name], "uri").drop_null().to_pylist():
                budget.refer(item, name, str(uri))


def joined(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of one type below each other; blobs take the form of addresses where one has it."""
    parts = [schema.empty_table(), *tables]
    for name in schema.names:
        if any(pa.types.is_struct(table.schema.field(name).type) for table in tables):
            parts = [_with_stored_form(part, name) for part in parts]
    return pa.concat_tables(parts)


class _NoBlob(Exception):
    """Why a value is no blob."""


def _bytes_of(
    item: NodeType | EdgeType, value: object, known: dict[str, bytes], budget: BlobBudget
) -> bytes:
    if isinstance(value, bytes):
        budget.hold(item, len(value))
        return value
    if not isinstance(value, str):
        raise _NoBlob(f"expected Blob, got {describe_json(value)}")
    decoded = known.get(value)
    if decoded is None:
        encoded = value[len(INLINE) :]
        budget.require_room(item, len(encoded) // 4 * 3 - encoded[-2:].count("="))
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise _NoBlob(f"what follows `{INLINE}` is no base64 ({error})") from error
        known[value] = decoded
    budget.hold(item, len(decoded))
    return decoded


def _column(cells: list[bytes | None], addresses: Mapping[int, str]) -> Blobs:
    data = pa.array(cells, pa.large_binary())
    if not addresses:
        return data
    uris = pa.array([addresses.get(at) for at in range(len(cells))], pa.string())
    is_null = pa.array([cell is None and at not in addresses for at, cell in enumerate(cells)])
    return pa.StructArray.from_arrays([data, uris], fields=list(STORED_BLOB), mask=is_null)


def in_stored_form(values: Blobs) -> Blobs:
    """Blobs as the table holds those that may be addresses, whichever form they have."""
    if pa.types.is_struct(values.type):
        return values
    return pa.StructArray.from_arrays(
        [values, pa.nulls(len(values), pa.string())],
        fields=list(STORED_BLOB),
        mask=values.is_null(),
    )


def _with_stored_form(table: pa.Table, name: str) -> pa.Table:
    at = table.schema.get_field_index(name)
    part = table.schema.field(at)
    if pa.types.is_struct(part.type):
        return table
    values = in_stored_form(one_array(table.column(at)))
    return table.set_column(at, part.with_type(STORED_BLOB), values)
