"""Blob values of mutations and loads: bytes in base64, or the address of something outside."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from omnigraph.errors import ExternalBlobDenied, InvalidArgument, ResourceLimit
from omnigraph.limits import MAX_DECODED_BLOB_BYTES

if TYPE_CHECKING:
    from omnigraph.lang import EdgeType, NodeType

_INLINE = "base64:"


def read_blob(item: NodeType | EdgeType, name: str, value: object) -> bytes:
    """The bytes of a blob value.

    Raises:
        InvalidArgument: the base64 is malformed.
        ExternalBlobDenied: it is an address, and the graph allows none.
        ResourceLimit: it is too large.
    """
    if isinstance(value, bytes):
        decoded = value
    else:
        text = str(value)
        if not text.startswith(_INLINE):
            raise ExternalBlobDenied(
                f"{item.name}.{name} takes `{_INLINE}` and the bytes in base64; the graph allows"
                " no address outside it",
                type=item.name,
                property=name,
            )
        try:
            decoded = base64.b64decode(text.removeprefix(_INLINE), validate=True)
        except binascii.Error as error:
            raise InvalidArgument(
                f"{item.name}.{name}: what follows `{_INLINE}` is no base64 ({error})",
                type=item.name,
                property=name,
            ) from error
    if len(decoded) > MAX_DECODED_BLOB_BYTES:
        raise ResourceLimit(
            f"{item.name}.{name} has {len(decoded):,} bytes and a write may hold"
            f" {MAX_DECODED_BLOB_BYTES:,}",
            resource="decoded blob input bytes",
            limit=MAX_DECODED_BLOB_BYTES,
            actual=len(decoded),
        )
    return decoded
