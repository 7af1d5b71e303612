"""Where the rules across rows are checked: in one process while its keys fit, else by Spark.

| way | committed rows are | for |
|---|---|---|
| `keys` | looked up by key | few staged rows, or a few beside very many committed ones |
| `whole` | read, only what rules compare | as much as one process may hold |
| `joins` | joined on executors | any size |

All give the same findings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.pipeline.checks.held_keys import committed_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.lang.catalog import EdgeType, NodeType

_LOOKED_UP_ROWS: Final = 100_000
"""Up to so many staged rows committed ones are looked up by key."""
_JOINED_ROWS: Final = 1_000_000
"""Up to so many staged rows no JVM is asked."""
_READ_PER_ROW: Final = 16
"""One pass over so many committed rows costs no more than looking one key up."""
_HELD_COPIES: Final = 6
"""What the checks hold at most beside each other of what they compare."""


class CheckWay(StrEnum):
    """How the rules across rows are checked."""

    AUTO = "auto"
    KEYS = "keys"
    WHOLE = "whole"
    JOINS = "joins"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenWay:
    """How they are checked, and what that may take."""

    way: CheckWay
    key_bytes: float = math.inf
    """How much of the staged rows may be held; for more they are joined."""


def choose_way(
    txn: WriteTxn,
    staged: Iterable[NodeType | EdgeType],
    rows: int,
    *,
    has_spark: bool,
    most_bytes: int,
) -> ChosenWay:
    """How so many staged rows of these types are checked.

    Args:
        txn: what they are checked against.
        staged: their types.
        rows: how many there are of all types.
        has_spark: they can be joined.
        most_bytes: what this process may hold for it.
    """
    if rows <= _LOOKED_UP_ROWS:
        return ChosenWay(way=CheckWay.KEYS)
    committed = committed_keys(txn, staged)
    key_bytes = most_bytes // _HELD_COPIES - committed.size_bytes
    is_joined = has_spark and rows > _JOINED_ROWS
    fits = key_bytes > 0 and not committed.is_too_long
    if fits and (is_joined or committed.rows <= rows * _READ_PER_ROW):
        return ChosenWay(way=CheckWay.WHOLE, key_bytes=key_bytes if is_joined else math.inf)
    return ChosenWay(way=CheckWay.JOINS if is_joined else CheckWay.KEYS)
