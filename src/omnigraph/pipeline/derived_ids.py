"""Ids that a repeated task mints again: a function of the operation and the place in the input."""

from __future__ import annotations

import hashlib
from typing import Final

from ulid import ULID

_RANDOM_BYTES: Final = 10
_TIME_LETTERS: Final = 10
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_TEN_BITS: Final = (1 << 10) - 1


class DerivedIds:
    """ULIDs of one split: the time of the operation, and a digest in place of random bits."""

    def __init__(self, operation_id: str, authored_ms: int, *, source: int, start: int) -> None:
        moment = ULID.from_bytes(authored_ms.to_bytes(6, "big") + bytes(_RANDOM_BYTES))
        self._time = str(moment)[:_TIME_LETTERS]
        self._seed = hashlib.blake2b(digest_size=_RANDOM_BYTES)
        self._seed.update(f"{operation_id}\0{source}\0{start}\0".encode())
        self._count = 0

    def next_ulid(self) -> str:
        """The next id; the same for the same number of calls."""
        digest = self._seed.copy()
        digest.update(b"%d" % self._count)
        self._count += 1
        bits = int.from_bytes(digest.digest(), "big")
        # Spelled two letters at a time: a load mints millions.
        return (
            f"{self._time}{_PAIRS[bits >> 70]}{_PAIRS[bits >> 60 & _TEN_BITS]}"
            f"{_PAIRS[bits >> 50 & _TEN_BITS]}{_PAIRS[bits >> 40 & _TEN_BITS]}"
            f"{_PAIRS[bits >> 30 & _TEN_BITS]}{_PAIRS[bits >> 20 & _TEN_BITS]}"
            f"{_PAIRS[bits >> 10 & _TEN_BITS]}{_PAIRS[bits & _TEN_BITS]}"
        )
