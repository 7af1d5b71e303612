"""Task bodies of embedding: what texts there are, and their vectors, paid for.

A part of the input gives the same texts in the same order however often it is read, so a text is
named by its place among the distinct texts of its part. Texts stay where they are read: only their
keys, and what they cost, cross to the driver.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from omnigraph.clock import SystemClock
from omnigraph.embedding import Purpose, open_embedder
from omnigraph.embedding.pace import MOST_TOKENS, Pace, cut_requests, estimate_tokens
from omnigraph.embedding.text_keys import KEY_BYTES, text_keys
from omnigraph.errors import (
    EmbeddingInvalid,
    EmbeddingModelMismatch,
    InternalError,
    OmnigraphError,
    Retry,
)
from omnigraph.pipeline.spark.task_storage import open_task_storage
from omnigraph.pipeline.staging.vector_cache import PaidVectors, places_batch
from omnigraph.settings import load_process_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from omnigraph.embedding import CheckedEmbedder
    from omnigraph.embedding.pace import Rate

_SURVEYED: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(KEY_BYTES),
    "tokens": pa.int64(),
    "rows": pa.int64(),
}
SURVEYED: Final = pa.schema(_SURVEYED)
"""The distinct texts of a part, in the order in which they first occur."""
MOST_TEXTS: Final = 250_000
"""Texts of one paying task: what it returns fits even when each lies in a file of its own."""


class TextPart(Protocol):
    """A part of the input of a job; pickled to the tasks that read it."""

    def texts(self) -> Iterable[tuple[str, str]]:
        """What a text stands for, as people name it, and the text; always the same."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextModel:
    """Which vectors are wanted."""

    name: str
    """The model, as the driver's embedder calls itself."""
    dimension: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyTask:
    """One part to look at."""

    part: TextPart
    model: TextModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTexts:
    """Some of the distinct texts of a part, by their places, ascending."""

    part: TextPart
    places: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayTask:
    """Texts that one task has embedded and keeps."""

    root: str
    folder: str
    """Where this task, and nobody else, keeps what it paid for."""
    job_folder: str
    """Where a task that cannot be helped says so to the others."""
    model: TextModel
    chosen: tuple[ChosenTexts, ...]
    rate: Rate
    batch_texts: int


def survey(task: SurveyTask) -> Iterator[pa.RecordBatch]:
    """The distinct texts of a part."""
    tokens: dict[bytes, int] = {}
    rows: dict[bytes, int] = {}
    for key, _, text in _keyed(task.part, task.model):
        rows[key] = rows.get(key, 0) + 1
        if key not in tokens:
            tokens[key] = estimate_tokens(text)
    yield pa.record_batch(
        [
            pa.array(list(rows), pa.binary(KEY_BYTES)),
            pa.array(list(tokens.values()), pa.int64()),
            pa.array(list(rows.values()), pa.int64()),
        ],
        schema=SURVEYED,
    )


def pay(task: PayTask, *, given: CheckedEmbedder | None = None) -> Iterator[pa.RecordBatch]:
    """Embed the chosen texts and keep every answer; those that an earlier attempt kept stay.

    The embedder is that of this process's settings, unless one is given.

    Raises:
        EmbeddingUnavailable, EmbeddingInvalid, EmbeddingFailed: as the embedder says.
        EmbeddingModelMismatch: the embedder is not of the job's model.
    """
    objects = open_task_storage(task.root).objects
    kept = PaidVectors(objects, task.folder)
    known = kept.places()
    job = PaidVectors(objects, task.job_folder)
    with ExitStack() as leaving:
        embedder = given or leaving.enter_context(
            open_embedder(load_process_settings().embedding, SystemClock())
        )
        _require_model(embedder, task.model)
        pace = Pace(task.rate, SystemClock())
        most_tokens = MOST_TOKENS if task.rate.tokens is None else max(1, int(task.rate.tokens))
        requests = cut_requests(
            _unpaid(task, known),
            most_texts=task.batch_texts,
            most_tokens=min(MOST_TOKENS, most_tokens),
        )
        for request, tokens in requests:
            if job.is_stopped():
                break
            pace.wait(tokens)
            try:
                vectors = _embedded(embedder, task.model, request)
            except OmnigraphError as error:
                if error.retry is Retry.NEVER:
                    job.stop()
                raise
            path = kept.keep([key for key, _, _ in request], vectors)
            known.update((key, path) for key, _, _ in request)
    yield places_batch(known)


def _keyed(part: TextPart, model: TextModel) -> Iterator[tuple[bytes, str, str]]:
    for label, text in part.texts():
        if not text:
            raise EmbeddingInvalid(
                f"{label}: the text is empty and has no vector; give it a text, or null", row=label
            )
        (key,) = text_keys(model.name, model.dimension, [text])
        yield key, label, text


def _unpaid(task: PayTask, known: dict[bytes, str]) -> Iterator[tuple[tuple[bytes, str, str], int]]:
    for chosen in task.chosen:
        left = set(chosen.places.tolist())
        seen: set[bytes] = set()
        for key, label, text in _keyed(chosen.part, task.model):
            if key in seen:
                continue
            place = len(seen)
            seen.add(key)
            if place not in left:
                continue
            left.remove(place)
            if key not in known:
                yield (key, label, text), estimate_tokens(text)
            if not left:
                break
        if left:
            raise InternalError(
                f"a part of the input had {len(left)} more texts when it was first read; please"
                " report this"
            )


def _embedded(
    embedder: CheckedEmbedder, model: TextModel, request: list[tuple[bytes, str, str]]
) -> npt.NDArray[np.float32]:
    try:
        return embedder.embed(
            [text for _, _, text in request],
            dimension=model.dimension,
            purpose=Purpose.DOCUMENT,
        )
    except EmbeddingInvalid as error:
        position = error.details.get("position")
        if not isinstance(position, int):
            raise
        label = request[position][1]
        raise EmbeddingInvalid(
            f"{label}: {error.message}", **error.details | {"row": label}
        ) from error


def _require_model(embedder: CheckedEmbedder, model: TextModel) -> None:
    if embedder.model != model.name:
        raise EmbeddingModelMismatch(
            f"the driver of this job embeds with {model.name!r}, and a task has"
            f" {embedder.model!r}; set OMNIGRAPH_EMBED_PROVIDER and OMNIGRAPH_EMBED_MODEL alike"
            " for both",
            recorded=model.name,
            embedder=embedder.model,
        )
