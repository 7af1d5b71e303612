"""Key columns of staged and committed rows, for the checks of a load that join them.

Committed rows are had here only, and only by who says what the outcome depends on: that goes to the
read set with it, so no check can leave it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.pipeline.checks.staged_questions import (
    LeftSources,
    StagedById,
    StagedExistence,
    StagedRows,
    StagedSources,
    StagedTuples,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from omnigraph.graph.commit.read_set import Question
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.pipeline.staging.detached_views import StagedView
    from omnigraph.pipeline.staging.key_frames import KeyFrames


class AskedFrames:
    """The frames of one check over one captured state."""

    def __init__(
        self, frames: KeyFrames, txn: WriteTxn, views: Mapping[TableRef, StagedView]
    ) -> None:
        self._frames = frames
        self._txn = txn
        self._staged = {ref: StagedRows(txn.store, view) for ref, view in views.items()}
        self._asked: set[tuple[TableRef, Question]] = set()

    def staged(self, ref: TableRef) -> DataFrame:
        """Key columns of the rows of the input."""
        return self._frames.staged(ref)

    def committed(self, ref: TableRef, asked: Question, *others: Question) -> DataFrame | None:
        """Key columns of the rows that are there, `None` for none, and what depends on them."""
        for each in (asked, *others):
            if (ref, each) not in self._asked:
                self._asked.add((ref, each))
                self._txn.read_set.ask(ref, each)
        return self._frames.committed(ref) if self._frames.has_committed(ref) else None

    def existence(self, ref: TableRef, name: str = "id") -> Question:
        """Whether rows exist with the ids that staged rows of a table hold in a column."""
        return StagedExistence(self._staged[ref], name)

    def tuples(self, ref: TableRef, names: tuple[str, ...]) -> Question:
        """Which rows hold the tuples of staged rows."""
        return StagedTuples(self._staged[ref], names)

    def sources(self, ref: TableRef) -> Question:
        """Which edges start where staged edges start."""
        return StagedSources(self._staged[ref])

    def moved(self, ref: TableRef) -> tuple[Question, Question]:
        """Which edges staged ones take from where they start, and which others start there."""
        staged = self._staged[ref]
        return StagedById(staged), LeftSources(staged, self._txn.readable(ref))
