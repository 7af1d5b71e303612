"""Key columns of staged and committed rows, for the checks of a load that join them.

Committed rows are had here only, and only for a rule: what its outcome depends on goes to the read
set with them, so no check can leave it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from omnigraph.errors import InternalError
from omnigraph.graph.commit.read_set import AllRows
from omnigraph.graph.manifest.table_refs import ref_of
from omnigraph.graph.validation.relation_rules import (
    CardinalityRule,
    EndRule,
    KeptEndRule,
    NewIdRule,
    UniqueRule,
)
from omnigraph.pipeline.checks.staged_questions import (
    LeftSources,
    StagedById,
    StagedExistence,
    StagedRows,
    StagedSources,
    StagedTuples,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from omnigraph.graph.commit.read_set import Question
    from omnigraph.graph.commit.txn import WriteTxn
    from omnigraph.graph.manifest.rows import TableRef
    from omnigraph.graph.validation.relation_rules import RelationRule
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

    def committed(self, rule: RelationRule, *, moves: bool = False) -> DataFrame | None:
        """Key columns of the rows that a rule asks, `None` for none, and what depends on them.

        Args:
            rule: what is checked.
            moves: staged edges may be of committed ids, and take them from where they start.

        Raises:
            InternalError: the rule asks nobody.
        """
        if rule.asked is None:
            raise InternalError(f"a rule of {rule.item.name} asks nobody; please report this")
        ref = ref_of(rule.asked)
        for each in self._questions(rule, moves=moves):
            if (ref, each) not in self._asked:
                self._asked.add((ref, each))
                self._txn.read_set.ask(ref, each)
        return self.all_committed(ref)

    def all_committed(self, ref: TableRef) -> DataFrame | None:
        """Key columns of all committed rows, `None` for none; nothing depends on them."""
        return self._frames.committed(ref) if self._frames.has_committed(ref) else None

    def _questions(self, rule: RelationRule, *, moves: bool) -> Sequence[Question]:
        """On which committed rows the outcome of a rule depends."""
        ref = ref_of(rule.item)
        match rule:
            case NewIdRule():
                return [StagedExistence(self._staged[ref])]
            case UniqueRule():
                return [StagedTuples(self._staged[ref], rule.names)]
            case EndRule():
                return [StagedExistence(self._staged[ref], rule.endpoint)]
            case KeptEndRule():
                return [AllRows()]
            case CardinalityRule():
                staged = self._staged[ref]
                if not moves:
                    return [StagedSources(staged)]
                base = self._txn.readable(ref)
                return [StagedSources(staged), StagedById(staged), LeftSources(staged, base)]
            case _:
                assert_never(rule)
