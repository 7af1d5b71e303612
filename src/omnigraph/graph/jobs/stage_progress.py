"""How far a job is, as whoever watches it is told: one value for every stage of every lane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """What is done of a stage. What nobody counts is zero tasks; what nobody knows is `None`."""

    stage: str
    done: int = 0
    """Tasks that have ended; tables, where a stage works on one after the other."""
    total: int = 0
    rows: int | None = None
    """Rows of the stage so far."""
    total_rows: int | None = None
    """The rows that it works on."""
    bytes: int | None = None
    """Bytes of input so far. While tasks run it is their share, as if all were of one size:
    Spark tells how many have ended and not which."""
    total_bytes: int | None = None
    spark_stages: int | None = None
    """Stages of Spark that run now; `None` where there is no Spark."""


Progress: TypeAlias = "Callable[[StageProgress], None]"
"""Told how far a job is, whenever more is known; what it raises ends the job."""
