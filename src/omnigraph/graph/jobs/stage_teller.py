"""Tells whoever watches a job how far its stages are, in tasks, rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from omnigraph.graph.jobs.stage_progress import StageProgress

if TYPE_CHECKING:
    from omnigraph.graph.jobs.stage_progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """Rows and bytes of input, each as far as it is known."""

    rows: int | None = None
    size_bytes: int | None = None

    def plus_share(self, work: Amount, done: int, total: int) -> Amount:
        """With the part of some work that so many of its tasks are."""
        return Amount(
            rows=_plus_share(self.rows, work.rows, done, total),
            size_bytes=_plus_share(self.size_bytes, work.size_bytes, done, total),
        )


NOTHING_KNOWN: Final = Amount()


class StageTeller:
    """Tells of one job, in the thread that runs it.

    A stage that was entered keeps what is known of all of it, over several actions. An action of
    another stage in between is told by itself.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress
        self._told = StageProgress(stage="")
        self._reached = NOTHING_KNOWN

    def enter(self, stage: str, work: Amount = NOTHING_KNOWN) -> None:
        """A stage begins that has so much to do."""
        self._told, self._reached = _begun(stage, work), NOTHING_KNOWN
        self._tell(self._told)

    def reach(self, amount: Amount) -> None:
        """So much of the stage that was entered is done, exactly."""
        self._reached = amount
        self._told = replace(self._told, rows=amount.rows, bytes=amount.size_bytes)
        self._tell(self._told)

    def tell_tasks(
        self,
        stage: str,
        done: int,
        total: int,
        work: Amount = NOTHING_KNOWN,
        *,
        spark_stages: int | None = None,
    ) -> None:
        """So many tasks of an action are done, which has so much to do in all."""
        is_entered = stage == self._told.stage
        reached = self._reached if is_entered else NOTHING_KNOWN
        so_far = reached.plus_share(work, done, total)
        told = replace(
            self._told if is_entered else _begun(stage, work),
            done=done,
            total=total,
            rows=so_far.rows,
            bytes=so_far.size_bytes,
            spark_stages=spark_stages,
        )
        if is_entered:
            self._told = told
        self._tell(told)

    def _tell(self, told: StageProgress) -> None:
        if self._progress is not None:
            self._progress(told)


def _begun(stage: str, work: Amount) -> StageProgress:
    return StageProgress(stage=stage, total_rows=work.rows, total_bytes=work.size_bytes)


def _plus_share(reached: int | None, work: int | None, done: int, total: int) -> int | None:
    if work is None:
        return reached
    return (reached or 0) + work * done // max(total, 1)
