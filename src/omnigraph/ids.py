"""Names and numbers that identify things, and the one owner of randomness.

Each kind of id has its own type, so that the type checker refuses a branch name where a branch id
is wanted. Minted ids are ULIDs: they sort by the time of minting, and minting needs no
coordination. Code that mints takes an `IdSource`; `seeded_ids` with a manual clock replays a run.
"""

from __future__ import annotations

import os
import random
import struct
import threading
from itertools import accumulate
from typing import TYPE_CHECKING, NewType, Protocol

from ulid import ULID

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.clock import Clock

GraphId = NewType("GraphId", str)
"""ULID of a graph, minted at init."""

CommitId = NewType("CommitId", str)
"""ULID of a graph commit, minted before the first effect of the write."""

OperationId = NewType("OperationId", str)
"""ULID of one attempt to write, minted before its first effect."""

BranchId = NewType("BranchId", str)
"""`main`, or a lower-case ULID; unlike a name it is never used again."""

BranchName = NewType("BranchName", str)
"""What a user calls a branch; a later branch may carry the same name."""

TableId = NewType("TableId", int)
"""Number of a table: that of its type."""

Incarnation = NewType("Incarnation", int)
"""Which lifetime of a table; dropping a type and adding it again gives the next."""

TableKey = NewType("TableKey", str)
"""`node:<type>` or `edge:<type>`, as people and limits name a table."""

RESERVED_ACTOR = "omnigraph:"
"""What the names of actors of the system begin with; nobody else's may."""
MAIN_BRANCH_ID = BranchId("main")
MAIN_BRANCH = BranchName("main")

_RANDOM_BITS = 80
_RANDOM_BYTES = _RANDOM_BITS // 8
_STEP_BYTES = 8
_ULID_BYTES = 16
_LETTERS = 26
_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class IdSource(Protocol):
    """Where new ids come from."""

    def next_ulid(self) -> str:
        """A new ULID: 26 characters, upper case, greater than every earlier one of this source."""
        ...

    def next_ulids(self, count: int) -> list[str]:
        """So many new ULIDs, in the order of their minting; for loads, which mint millions."""
        ...


class UlidSource:
    """ULIDs from a clock and a source of random bytes; safe to share between threads."""

    __slots__ = ("_clock", "_last", "_lock", "_random_bytes")

    def __init__(self, clock: Clock, *, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last = 0

    def next_ulid(self) -> str:
        """A new ULID, greater than every earlier one, also when the clock stands or goes back."""
        with self._lock:
            value = self._last = self._next()
        return str(ULID.from_bytes(value.to_bytes(_ULID_BYTES, "big")))

    def next_ulids(self, count: int) -> list[str]:
        """New ULIDs, each greater than the one before; one reading of the clock for all."""
        if count < 1:
            return []
        with self._lock:
            first = self._next()
            steps = struct.unpack(f">{count - 1}Q", self._random_bytes(_STEP_BYTES * (count - 1)))
            values = list(accumulate(steps, lambda value, step: value + 1 + step, initial=first))
            self._last = values[-1]
        return spell_ulids(b"".join(value.to_bytes(_ULID_BYTES, "big") for value in values))

    def _next(self) -> int:
        moment = self._clock.now_ms()
        if moment > self._last >> _RANDOM_BITS:
            return moment << _RANDOM_BITS | self._random(_RANDOM_BYTES)
        # A step of one would let a forked child mint the same ids as its parent.
        return self._last + 1 + self._random(_STEP_BYTES)

    def _random(self, length: int) -> int:
        return int.from_bytes(self._random_bytes(length), "big")


def spell_ulids(octets: bytes) -> list[str]:
    """The texts of ULIDs of 16 octets each, one behind the other."""
    import numpy as np

    words = np.frombuffer(octets, np.uint8).reshape(-1, _ULID_BYTES)
    # 130 bits, of which the first two are zero: 26 letters of five.
    bits = np.unpackbits(np.pad(words, ((0, 0), (1, 0))), axis=1)[:, 6:]
    letters = bits.reshape(len(words), _LETTERS, 5) @ np.array([16, 8, 4, 2, 1], np.uint8)
    text = np.frombuffer(_ALPHABET, np.uint8)[letters].tobytes().decode("ascii")
    return [text[at : at + _LETTERS] for at in range(0, len(text), _LETTERS)]


def seeded_ids(seed: int, clock: Clock) -> UlidSource:
    """A source that gives the same ids for the same seed and the same readings of the clock.

    For replays and tests only: whoever knows the seed knows every id.
    """
    return UlidSource(clock, random_bytes=random.Random(seed).randbytes)  # noqa: S311 - not a secret


def new_graph_id(ids: IdSource) -> GraphId:
    """Mint the id of a graph."""
    return GraphId(ids.next_ulid())


def new_commit_id(ids: IdSource) -> CommitId:
    """Mint the id of a graph commit."""
    return CommitId(ids.next_ulid())


def new_operation_id(ids: IdSource) -> OperationId:
    """Mint the id of an attempt to write."""
    return OperationId(ids.next_ulid())


def new_branch_id(ids: IdSource) -> BranchId:
    """Mint the id of a branch; lower case, because it becomes part of a path."""
    return BranchId(ids.next_ulid().lower())


def new_link_uuid(ids: IdSource) -> str:
    """Mint the uuid of one Lance transaction; it sorts like the ULID that it is made of."""
    return str(ULID.from_str(ids.next_ulid()).to_uuid())
