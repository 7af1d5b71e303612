"""Which bytes of a blob one call may read."""

from __future__ import annotations

from omnigraph.errors import BlobRangeError, InvalidArgument, ResourceLimit
from omnigraph.limits import MAX_BLOB_READ_BYTES


def checked_end(length: int, start: int, end: int | None) -> int:
    """Where a read of a value of this length ends.

    Raises:
        BlobRangeError, ResourceLimit, InvalidArgument: as `BlobReader.read`.
    """
    for name, bound in (("start", start), ("end", end)):
        is_left_out = bound is None and name == "end"
        if isinstance(bound, bool) or not (isinstance(bound, int) or is_left_out):
            raise InvalidArgument(f"{name} is a number of bytes, not {bound!r}", argument=name)
    stop = length if end is None else min(end, length)
    # Of an empty value the whole can be read, and no part of it.
    is_past = start >= length and not start == length == 0
    if start < 0 or is_past or (end is not None and end < start):
        raise BlobRangeError(
            f"the blob has {length:,} bytes and no range from {start} to"
            f" {stop if end is None else end}",
            start=start,
            end=stop if end is None else end,
            length=length,
        )
    if stop - start > MAX_BLOB_READ_BYTES:
        raise ResourceLimit(
            f"one call reads at most {MAX_BLOB_READ_BYTES:,} bytes of a blob, not"
            f" {stop - start:,}; read ranges, or iterate over the reader",
            resource="Blob read range bytes",
            limit=MAX_BLOB_READ_BYTES,
            actual=stop - start,
        )
    return stop
