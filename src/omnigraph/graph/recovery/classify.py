"""What happened to the tables of an interrupted write: pure judgement over facts.

E is the version that the writer expected, P the pin now in force, H the newest version, all on the
Lance line that the sidecar names. Versions above P are recognised by the uuid and properties of
their transactions, never by their number alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from omnigraph.storage.handles import CREATION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from omnigraph.graph.recovery.sidecars import SidecarTable
    from omnigraph.storage.handles import VersionTrace


class TableClass(StrEnum):
    """What happened to one table."""

    INVARIANT_VIOLATION = "InvariantViolation"
    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    INCOMPLETE_CHAIN = "IncompleteChain"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What storage says about one table of a sidecar."""

    table: SidecarTable
    pin: int | None
    """P; `None` if the table has no pin on the line, or its pinned version cannot be opened.

    No line pins a table that the write itself created: its own first version stands for it.
    """

    head: int | None
    """H; `None` if the Lance line is gone."""

    traces: Sequence[VersionTrace] = ()
    """The versions above P, in order."""

    row_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A table with its class."""

    facts: TableFacts
    table_class: TableClass


def classify(facts: TableFacts) -> Judged:
    """The class of one table."""
    return Judged(facts=facts, table_class=_class_of(facts))


def _class_of(facts: TableFacts) -> TableClass:
    pin, head, table = facts.pin, facts.head, facts.table
    if pin is None or head is None or head < pin:
        return TableClass.INVARIANT_VIOLATION
    if head == pin:
        return TableClass.NO_MOVEMENT
    planned = [link.uuid for link in table.links]
    landed = [trace.uuid for trace in facts.traces]
    if pin == table.expected_version and landed == planned:
        return TableClass.ROLLED_PAST_EXPECTED
    if pin == table.expected_version and landed == planned[: len(landed)]:
        return TableClass.INCOMPLETE_CHAIN
    if head == pin + 1:
        return TableClass.UNEXPECTED_AT_P1
    return TableClass.UNEXPECTED_MULTISTEP


def has_landed(judged: Judged) -> bool:
    """Whether everything that was planned for a table is there, and nothing else."""
    table = judged.facts.table
    if table.created and not table.links:
        return judged.table_class is TableClass.NO_MOVEMENT
    return judged.table_class is TableClass.ROLLED_PAST_EXPECTED


def foreign_versions(
    traces: Iterable[VersionTrace], settled: Collection[str]
) -> list[VersionTrace]:
    """Versions above a pin that no settled or pending operation of ours made.

    The creation of a table above a pin is ours too: an init that was taken for dead, cleared, and
    woke up when another one had made the table anew.
    """
    return [
        trace for trace in traces if trace.operation_id not in settled and trace.kind != CREATION
    ]
