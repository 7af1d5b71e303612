"""The texts of a job and their vectors: each distinct text is paid for by one task, once.

The driver gets the keys of all parts, leaves out those that are paid for already, and gives every
other one to the part in which it occurs first. How many tasks ask at the same time follows from the
limits of the provider: each gets its share of them, and more tasks would only wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from omnigraph.embedding.pace import Rate
from omnigraph.errors import InternalError
from omnigraph.graph.jobs.stage_teller import Amount
from omnigraph.pipeline.embed.tasks import (
    MOST_TEXTS,
    SURVEYED,
    ChosenTexts,
    PayTask,
    SurveyTask,
    TextModel,
    pay,
    survey,
)
from omnigraph.pipeline.spark.lanes import LocalLane
from omnigraph.pipeline.staging.vector_cache import PLACES, PaidVectors, is_paid_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from omnigraph.embedding import CheckedEmbedder
    from omnigraph.graph.jobs.stage_times import StageTimes
    from omnigraph.pipeline.embed.tasks import TextPart
    from omnigraph.pipeline.spark.lanes import TaskLane
    from omnigraph.settings import EmbeddingSettings
    from omnigraph.storage.objects import StorageAdapter

SURVEY: Final = "survey"
EMBED: Final = "embed"

_LEAST_REQUESTS: Final = 30.0
"""Requests per minute that one task makes with ease: with a smaller share it would mostly wait."""
_TASKS_PER_SLOT: Final = 4
_ATTEMPTS: Final = 3
"""Another job may remove files that both of them use; then what is missing is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedPlace:
    """Where a job keeps what it paid for."""

    root: str
    folder: str
    """Shared by all runs of the job."""
    run: str
    """The name of this run, which no other has."""

    @property
    def run_folder(self) -> str:
        """What only this run writes to."""
        return f"{self.folder}/{self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What texts there are."""

    parts: tuple[TextPart, ...]
    keys: tuple[tuple[bytes, ...], ...]
    """Of each part the distinct keys, in their order."""
    tokens: dict[bytes, int]
    rows: int

    @property
    def texts(self) -> int:
        """How many distinct texts."""
        return len(self.tokens)


class TextEmbedding:
    """The vectors of the texts of one job, for one model and one dimension."""

    def __init__(
        self,
        lane: TaskLane,
        objects: StorageAdapter,
        place: EmbedPlace,
        model: TextModel,
        settings: EmbeddingSettings,
        *,
        times: StageTimes,
        given: CheckedEmbedder | None = None,
    ) -> None:
        self._lane = lane
        self._objects = objects
        self._place = place
        self._model = model
        self._settings = settings
        self._times = times
        self._given = given
        self._earlier: dict[str, list[bytes]] = {}
        self._surveyed: set[bytes] = set()
        self._places: dict[bytes, str] | None = None

    @property
    def places(self) -> dict[bytes, str]:
        """Where the vector of each text is that was paid for."""
        if self._places is None:
            self._earlier = PaidVectors(self._objects, self._place.folder).keys_by_file()
            self._places = {key: path for path, keys in self._earlier.items() for key in keys}
        return self._places

    def survey(self, parts: Sequence[TextPart]) -> Survey:
        """Look at all texts; asks no embedder.

        Raises:
            EmbeddingInvalid: a text is empty.
        """
        self._times.enter(SURVEY)
        tasks = [SurveyTask(part=part, model=self._model) for part in parts]
        keys: list[tuple[bytes, ...]] = []
        tokens: dict[bytes, int] = {}
        rows = retries = 0
        for result in self._lane.run(SURVEY, tasks, survey, SURVEYED):
            (batch,) = result.batches
            part_keys = [each for each in batch.column("key").to_pylist() if each is not None]
            keys.append(tuple(part_keys))
            tokens |= dict(zip(part_keys, map(int, batch.column("tokens").to_numpy()), strict=True))
            rows += int(batch.column("rows").to_numpy().sum())
            retries += result.attempt - 1
        self._times.count(tasks=len(tasks), retries=retries, rows=rows)
        self._surveyed.update(tokens)
        return Survey(parts=tuple(parts), keys=tuple(keys), tokens=tokens, rows=rows)

    def unpaid(self, found: Survey) -> int:
        """How many texts would be paid for."""
        return sum(key not in self.places for key in found.tokens)

    def pay(self, found: Survey) -> int:
        """Embed every text that has no vector yet; how many those were.

        Raises:
            EmbeddingUnavailable, EmbeddingInvalid, EmbeddingModelMismatch: as the embedder says;
                what was paid for stays for the next run.
            EmbeddingFailed, PipelineTaskError: the provider gave no answer.
        """
        self._times.enter(EMBED)
        paid = self.unpaid(found)
        self._times.count(rows=paid)
        for _ in range(_ATTEMPTS):
            tasks = self._pay_tasks(found)
            if not tasks:
                return paid
            self._run(tasks)
            existing = set(PaidVectors(self._objects, self._place.folder).files())
            self._places = {key: path for key, path in self.places.items() if path in existing}
        if self.unpaid(found):
            raise InternalError(
                "vectors that were paid for are gone before they were used; another job removes"
                f" {self._place.folder}: run this one again when it has ended",
                folder=self._place.folder,
            )
        return paid

    def remove(self, living: Callable[[str], object] | None = None) -> None:
        """Delete what this run kept, and what it found and has used up; all that is committed.

        A file that holds a text which was not surveyed is of use to another run and stays. So does
        everything of a run that `living` says to be at work.
        """
        runs: dict[str, bool] = {}
        for each in self._objects.list(self._place.folder):
            run = each.path.removeprefix(f"{self._place.folder}/").partition("/")[0]
            if run == self._place.run or not self._is_used_up(each.path):
                continue
            if run not in runs:
                runs[run] = living is not None and bool(living(run))
            if not runs[run]:
                self._objects.delete(each.path)
        PaidVectors(self._objects, self._place.run_folder).remove()

    def _is_used_up(self, path: str) -> bool:
        if not is_paid_file(path):
            return True
        return path in self._earlier and self._surveyed.issuperset(self._earlier[path])

    def _run(self, tasks: list[PayTask]) -> None:
        # What was handed in lives in this process and nowhere else.
        lane = self._lane if self._given is None else LocalLane(teller=self._lane.teller)
        function = pay if self._given is None else partial(pay, given=self._given)
        retries = 0
        texts = sum(len(each.places) for task in tasks for each in task.chosen)
        for result in lane.run(EMBED, tasks, function, PLACES, work=Amount(rows=texts)):
            (batch,) = result.batches
            column: Any = batch.column("file")  # Any: a dictionary array
            files = column.dictionary.to_pylist()
            numbers = column.indices.to_numpy()
            for key, number in zip(batch.column("key").to_pylist(), numbers, strict=True):
                if key is not None:
                    self.places[key] = files[number]
            retries += result.attempt - 1
        self._times.count(tasks=len(tasks), retries=retries)

    def _pay_tasks(self, found: Survey) -> list[PayTask]:
        wanted = self._wanted(found)
        texts = sum(len(each.places) for each in wanted)
        if not texts:
            return []
        tokens = sum(cost for key, cost in found.tokens.items() if key not in self.places)
        rate = Rate(
            requests=self._settings.requests_per_minute, tokens=self._settings.tokens_per_minute
        )
        slots = self._lane.slots if self._given is None else 1
        count = choose_tasks(
            texts,
            tokens,
            rate=rate,
            slots=slots,
            batch_texts=self._settings.batch_texts,
        )
        shares = share_out(wanted, count)
        return [
            PayTask(
                root=self._place.root,
                folder=f"{self._place.run_folder}/{number:05d}",
                job_folder=self._place.run_folder,
                model=self._model,
                chosen=chosen,
                rate=rate.shared_by(min(len(shares), slots)),
                batch_texts=self._settings.batch_texts,
            )
            for number, chosen in enumerate(shares)
        ]

    def _wanted(self, found: Survey) -> list[ChosenTexts]:
        """Every text without a vector, in the part in which it occurs first."""
        taken: set[bytes] = set()
        wanted: list[ChosenTexts] = []
        for part, keys in zip(found.parts, found.keys, strict=True):
            places = [
                place
                for place, key in enumerate(keys)
                if key not in self.places and key not in taken
            ]
            taken.update(keys)
            if places:
                wanted.append(ChosenTexts(part=part, places=np.array(places, np.int64)))
        return wanted


def choose_tasks(texts: int, tokens: int, *, rate: Rate, slots: int, batch_texts: int) -> int:
    """How many tasks share the texts.

    Without limits a few for each slot, so that one that runs again has little to do. With limits no
    more than run at the same time, because each gets its share of the rate; and no more than keep
    busy with their share. But never so few that one could not return what it did.
    """
    requests = -(-texts // batch_texts)
    least = max(1, -(-texts // MOST_TEXTS))
    per_minute = min(
        rate.requests if rate.requests is not None else float("inf"),
        float("inf") if rate.tokens is None else rate.tokens * requests / max(tokens, 1),
    )
    if per_minute == float("inf"):
        return max(least, min(requests, slots * _TASKS_PER_SLOT))
    return max(least, min(requests, slots, int(per_minute / _LEAST_REQUESTS)))


def share_out(wanted: Sequence[ChosenTexts], count: int) -> list[tuple[ChosenTexts, ...]]:
    """The texts in at most so many shares of about the same size, each in the given order."""
    total = sum(len(each.places) for each in wanted)
    most = -(-total // count)
    shares: list[list[ChosenTexts]] = [[]]
    room = most
    for each in wanted:
        start = 0
        while start < len(each.places):
            if not room:
                shares.append([])
                room = most
            piece = each.places[start : start + room]
            shares[-1].append(ChosenTexts(part=each.part, places=piece))
            start += len(piece)
            room -= len(piece)
    return [tuple(share) for share in shares]
