"""Ids that a repeated task mints again: a function of the operation and the place in the input."""

from __future__ import annotations

import hashlib

from ulid import ULID

_RANDOM_BYTES = 10


class DerivedIds:
    """ULIDs of one split: the time of the operation, and a digest in place of random bits."""

    def __init__(self, operation_id: str, authored_ms: int, *, source: int, start: int) -> None:
        self._time = authored_ms.to_bytes(6, "big")
        self._seed = f"{operation_id}\0{source}\0{start}\0".encode()
        self._count = 0

    def next_ulid(self) -> str:
        """The next id; the same for the same number of calls."""
        digest = hashlib.blake2b(self._seed + str(self._count).encode(), digest_size=_RANDOM_BYTES)
        self._count += 1
        return str(ULID.from_bytes(self._time + digest.digest()))
