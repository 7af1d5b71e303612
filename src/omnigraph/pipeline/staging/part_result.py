"""What became of one part of an input: a split of a file, or a partition of a frame.

Tasks give it back pickled, and a load that goes on reads it from what the one before kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation import Code
    from omnigraph.pipeline.files.row_origin import RowRun
    from omnigraph.storage.staged_fragments import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFindings:
    """What was found in one part."""

    counts: Mapping[Code, int] = field(default_factory=dict)
    sample: int = 1
    """How many violations were asked for; the same for all parts of a job."""
    path: str | None = None
    """Where the first of them are, in order."""
    ends: tuple[int, ...] = ()
    """Where the violations end in the file, for each of the `halvings` of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRejects:
    """What a part kept of its bad rows."""

    count: int = 0
    """How many there are."""
    path: str | None = None
    """Where they are; of too many, as many as may be rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIntake:
    """What a part of the input brought to one table."""

    pieces: Pieces
    read: int
    """Records of this type, good and bad."""
    staged: int
    has_given_ids: bool
    """Ids came with the input or follow from its keys: they may repeat or exist already."""
    first_line: int | None = None
    """Line of the first staged row, when all the others follow it one by one."""
    lines_file: str | None = None
    """Else: where the lines are."""
    bad_file: str | None = None
    """Keys of the rows that break a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeResult:
    """What became of one part of the input: a split of a file, or a partition of a frame."""

    ordinal: int
    lines: int
    """Lines, or rows, of the part."""
    size_bytes: int
    tables: Mapping[TableRef, TableIntake]
    respelled: Mapping[str, Mapping[str, str]]
    """Ids of nodes that were rewritten, by node type."""
    findings: KeptFindings = field(default_factory=KeptFindings)
    """With lines of the part, not of its file."""
    no_records: int = 0
    """Lines that are neither blank nor records."""
    rejects: KeptRejects = field(default_factory=KeptRejects)
    """The rows that break a rule by themselves."""
    runs: tuple[RowRun, ...] = ()
    """Of which files the rows are, where Spark reads files."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """How many values became null in an expression that forgives, by what it is."""
    spent_files: tuple[str, ...] = ()
    """Of paid vectors: what is in them is in the rows."""
