"""The embedder of an HTTP provider: batches, attempts, one deadline.

The deadline covers a whole call: its batches, their attempts and the pauses between them. A caller
with more texts than that allows embeds them in several calls.

Neither the key nor a text nor anything that a provider sent is put into a log or an error; where a
foreign exception could carry one, it is not kept as a cause either.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from omnigraph.embedding.backoff import Backoff
from omnigraph.embedding.connection import Connection
from omnigraph.embedding.texts import in_batches
from omnigraph.embedding.vectors import to_vectors
from omnigraph.embedding.wire import Ask, IndexedRow, Unreadable, Wire
from omnigraph.errors import EmbeddingFailed, EmbeddingInvalid, EmbeddingUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from omnigraph.clock import Clock
    from omnigraph.embedding.connection import Reply
    from omnigraph.embedding.embedder import Purpose
    from omnigraph.ids import IdSource
    from omnigraph.settings import EmbeddingSettings

log = logging.getLogger(__name__)

_SUCCESS: Final = frozenset(range(200, 300))
_TRY_AGAIN: Final = frozenset({408, 429, *range(500, 600)})
_NO_RIGHTS: Final = (401, 403)
_NO_SUCH_PLACE: Final = (404, 405)
_MAX_VALUE_BYTES: Final = 40
_MAX_ENVELOPE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    ask: Ask
    first: int
    """The position of its first text in the call."""
    number: int
    started_us: int


class HttpEmbedder:
    """Asks one provider; safe to share between threads."""

    __slots__ = ("_backoff", "_clock", "_connection", "_model", "_pause", "_settings", "_wire")

    def __init__(
        self,
        wire: Wire,
        settings: EmbeddingSettings,
        *,
        base_url: str,
        model: str,
        clock: Clock,
        ids: IdSource,
        pause: Callable[[float], None],
    ) -> None:
        self._wire = wire
        self._settings = settings
        self._model = model
        self._clock = clock
        self._pause = pause
        self._backoff = Backoff(settings.retry_backoff_ms, clock, ids)
        self._connection = Connection(base_url, clock)

    @property
    def model(self) -> str:
        """The text that is compared with `@embed(model=…)`."""
        return self._model

    def embed(
        self, texts: Sequence[str], *, dimension: int, purpose: Purpose
    ) -> npt.NDArray[np.float32]:
        """One vector of length 1 per text.

        Raises:
            EmbeddingUnavailable: no key, or the provider refused.
            EmbeddingFailed: no answer within the deadline and the attempts.
            EmbeddingInvalid: the answer does not have one good vector per text.
        """
        deadline_us = self._clock.monotonic_us() + 1_000 * self._settings.deadline_ms
        header = self._key_header()
        vectors = np.empty((len(texts), dimension), dtype=np.float32)
        for first, batch in in_batches(texts, self._settings.batch_texts):
            ask = Ask(model=self._model, texts=batch, dimension=dimension, purpose=purpose)
            vectors[first : first + len(batch)] = self._ask(ask, first, header, deadline_us)
        return vectors

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._connection.close()

    def _key_header(self) -> tuple[str, str]:
        for variable, secret_of in self._wire.keys.items():
            secret = secret_of(self._settings)
            key = secret.reveal() if secret is not None else ""
            if key and not (key.isascii() and key.isprintable() and key.strip() == key):
                raise self._unavailable(
                    f"{variable} holds characters that no key has; set it again"
                )
            if key:
                return self._wire.key_header(key)
        raise self._unavailable(f"it needs a key; set {' or '.join(self._wire.keys)}")

    def _ask(
        self, ask: Ask, first: int, header: tuple[str, str], deadline_us: int
    ) -> npt.NDArray[np.float32]:
        """The vectors of one batch, after as many attempts as it takes or may take."""
        path, value = self._wire.path_and_body(ask)
        # Texts are Unicode by now. A model that is not must not fail here, beside the texts.
        body = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        number, status, cause = 0, None, "no time left"
        while (started_us := self._clock.monotonic_us()) < deadline_us:
            number += 1
            reply = self._connection.post(
                path,
                body,
                headers=dict([header]),
                until_us=min(deadline_us, started_us + 1_000 * self._settings.timeout_ms),
                max_bytes=_MAX_ENVELOPE_BYTES + _MAX_VALUE_BYTES * len(ask.texts) * ask.dimension,
            )
            attempt = _Attempt(ask=ask, first=first, number=number, started_us=started_us)
            vectors = self._take(attempt, reply)
            if vectors is not None:
                return vectors
            status, cause = reply.status, reply.cause
            if not self._wait(number, reply, deadline_us):
                break
        raise self._failed(status, cause, number)

    def _take(self, attempt: _Attempt, reply: Reply) -> npt.NDArray[np.float32] | None:
        """What a reply holds; None if it is worth another attempt."""
        if _is_refusal(reply):
            self._report(attempt, logging.WARNING, "refused", reply.cause)
            raise self._refused(attempt.ask, reply)
        rows = None if reply.body is None else self._read(reply.body)
        if rows is None:
            self._report(attempt, logging.INFO, "no_answer", reply.cause)
            return None
        count = len(attempt.ask.texts)
        try:
            vectors = to_vectors(
                _in_order(rows, count, attempt.first),
                count=count,
                dimension=attempt.ask.dimension,
                first=attempt.first,
            )
        except EmbeddingInvalid as error:
            self._report(attempt, logging.WARNING, "invalid", error.message)
            raise
        self._report(attempt, logging.DEBUG, "ok", "")
        return vectors

    def _report(self, attempt: _Attempt, level: int, outcome: str, cause: str) -> None:
        fields = {
            "provider": self._wire.provider,
            "model": self._model,
            "dimension": attempt.ask.dimension,
            "count": len(attempt.ask.texts),
            "attempt": attempt.number,
            "elapsed_ms": (self._clock.monotonic_us() - attempt.started_us) // 1_000,
            "outcome": outcome,
        }
        log.log(level, "embed", extra=fields | ({"cause": cause} if cause else {}))

    def _read(self, body: bytes) -> list[IndexedRow] | None:
        try:
            return self._wire.read_rows(json.loads(body))
        except (ValueError, RecursionError, Unreadable):
            return None

    def _wait(self, attempt: int, reply: Reply, deadline_us: int) -> bool:
        """Pause before the next attempt; False, at once, if there can be none in time."""
        if attempt >= self._settings.retry_attempts:
            return False
        pause_us = self._backoff.pause_us(attempt, reply.retry_after)
        if self._clock.monotonic_us() + pause_us >= deadline_us:
            return False
        self._pause(pause_us / 1e6)
        return True

    def _refused(self, ask: Ask, reply: Reply) -> EmbeddingUnavailable:
        match reply.status:
            case status if status in _NO_RIGHTS:
                remedy = f"check {' or '.join(self._wire.keys)}"
            case status if status in _NO_SUCH_PLACE or reply.cause.startswith("HTTP 3"):
                remedy = "check OMNIGRAPH_EMBED_BASE_URL and OMNIGRAPH_EMBED_MODEL"
            case _:
                remedy = (
                    f"check that the model offers {ask.dimension} dimensions and that no text is"
                    " longer than it takes"
                )
        return self._unavailable(f"it refused the request with {reply.cause}; {remedy}", reply)

    def _unavailable(self, why: str, reply: Reply | None = None) -> EmbeddingUnavailable:
        return EmbeddingUnavailable(
            f"embedding provider {self._wire.provider} (model {self._model!r}): {why}",
            provider=self._wire.provider,
            status=None if reply is None else reply.status,
        )

    def _failed(self, status: int | None, cause: str, attempts: int) -> EmbeddingFailed:
        return EmbeddingFailed(
            f"embedding provider {self._wire.provider} (model {self._model!r}) gave no answer:"
            f" {attempts} of {self._settings.retry_attempts} attempts within"
            f" {self._settings.deadline_ms} ms, the last ended with {cause}; send the same again"
            " later",
            provider=self._wire.provider,
            status=status,
            attempts=attempts,
        )


def _is_refusal(reply: Reply) -> bool:
    return reply.status is not None and reply.status not in _SUCCESS | _TRY_AGAIN


def _in_order(rows: list[IndexedRow], count: int, first: int) -> list[object]:
    """The rows by index; each text must have exactly one."""
    placed: dict[int, object] = {}
    for index, row in rows:
        if not 0 <= index < count or index in placed:
            raise EmbeddingInvalid(
                f"the provider returned {len(rows)} vectors for {count} texts, and one of them for"
                f" no text of its own (index {index})",
                position=first + min(max(index, 0), count - 1),
            )
        placed[index] = row
    for index in range(count):
        if index not in placed:
            raise EmbeddingInvalid(
                f"the provider returned no vector for text {first + index}", position=first + index
            )
    return [placed[index] for index in range(count)]
