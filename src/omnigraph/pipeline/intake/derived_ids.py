"""Ids that a repeated task mints again: a function of the operation and the place in the input."""

from __future__ import annotations

import hashlib
from typing import Final

from omnigraph.ids import spell_ulids

_RANDOM_BYTES: Final = 10


class DerivedIds:
    """ULIDs of one part: the time of the operation, and a digest in place of random bits."""

    def __init__(self, operation_id: str, authored_ms: int, *, source: int, start: int) -> None:
        self._time = authored_ms.to_bytes(6, "big")
        self._seed = hashlib.blake2b(digest_size=_RANDOM_BYTES)
        self._seed.update(f"{operation_id}\0{source}\0{start}\0".encode())
        self._count = 0

    def next_ulid(self) -> str:
        """The next id; the same for the same number of ids before it."""
        return self.next_ulids(1)[0]

    def next_ulids(self, count: int) -> list[str]:
        """The next ids, however many are asked for at once."""
        octets = bytearray()
        copy, moment = self._seed.copy, self._time
        for number in range(self._count, self._count + count):
            digest = copy()
            digest.update(b"%d" % number)
            octets += moment
            octets += digest.digest()
        self._count += count
        return spell_ulids(bytes(octets))
