"""The words and the fields of a stage of long work: what is known of it, and how fast it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.graph.jobs.stage_progress import StageProgress

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024
_WHOLE_FROM: Final = 100


@dataclass(frozen=True, slots=True)
class StageText:
    """What was told last of a stage, and since when it is known."""

    progress: StageProgress
    name: str
    unit: str
    began_us: int = 0
    told_us: int = 0

    def after(self, progress: StageProgress, *, name: str, now_us: int) -> StageText:
        """The text when more is told: of the same stage, or of another that begins."""
        is_same = progress.stage == self.progress.stage
        began_us = self.began_us if is_same else now_us
        return StageText(progress, name, self.unit, began_us, now_us)

    @property
    def doing(self) -> str:
        """`reading the input: 12 of 24 tasks, 384 of 768 MiB`."""
        return self._said([*self._tasks(), *self._amounts()])

    @property
    def line(self) -> str:
        """`reading the input: 12 of 24 tasks, 384 of 768 MiB, 31 MiB/s, 1 Spark stage`."""
        return self._said([*self._tasks(), *self._amounts(), *self._rates(), *self._spark_stages()])

    @property
    def fields(self) -> dict[str, object]:
        """What is known, for the log."""
        progress = self.progress
        counted = (
            {f"{self.unit}_done": progress.done, self.unit: progress.total}
            if progress.total
            else {}
        )
        known: dict[str, object | None] = {
            "doing": self.name,
            "stage": progress.stage,
            **counted,
            "rows": progress.rows,
            "total_rows": progress.total_rows,
            "rows_per_s": self._per_s(progress.rows),
            "bytes": progress.bytes,
            "total_bytes": progress.total_bytes,
            "bytes_per_s": self._per_s(progress.bytes),
            "spark_stages": progress.spark_stages,
        }
        return {name: value for name, value in known.items() if value is not None}

    def _said(self, parts: list[str]) -> str:
        return f"{self.name}: {', '.join(parts)}" if parts else self.name

    def _tasks(self) -> list[str]:
        return (
            [f"{self.progress.done:,} of {self.progress.total:,} {self.unit}"]
            if self.progress.total
            else []
        )

    def _amounts(self) -> list[str]:
        progress = self.progress
        rows = _of(progress.rows, progress.total_rows, "{:,}".format)
        size = _of(progress.bytes, progress.total_bytes, format_bytes)
        many = "row" if rows == "1" else "rows"
        return [*([] if rows is None else [f"{rows} {many}"]), *([] if size is None else [size])]

    def _rates(self) -> list[str]:
        rows, size = self._per_s(self.progress.rows), self._per_s(self.progress.bytes)
        return [
            *([f"{rows:,} rows/s"] if rows else []),
            *([f"{format_bytes(size)}/s"] if size else []),
        ]

    def _spark_stages(self) -> list[str]:
        count = self.progress.spark_stages
        return [f"{count} Spark stage{'' if count == 1 else 's'}"] if count else []

    def _per_s(self, amount: int | None) -> int | None:
        """Over the stage so far."""
        spent_us = self.told_us - self.began_us
        return None if amount is None or not spent_us else amount * 1_000_000 // spent_us


def format_bytes(size: int) -> str:
    """A size for people: `117 B`, `1.5 MiB`, `384 MiB`."""
    number, at = float(size), 0
    while number >= _STEP and at < len(_UNITS) - 1:
        number, at = number / _STEP, at + 1
    digits = 0 if at == 0 or number >= _WHOLE_FROM else 1
    return f"{number:.{digits}f}".removesuffix(".0") + f" {_UNITS[at]}"


def _of(done: int | None, total: int | None, said: Callable[[int], str]) -> str | None:
    """`384 of 768 MiB`, or what is known of it."""
    if done is None:
        return None if total is None else said(total)
    if total is None:
        return said(done)
    number, _, unit = said(done).partition(" ")
    is_same_unit = said(total).partition(" ")[2] == unit
    return f"{number if is_same_unit else said(done)} of {said(total)}"
