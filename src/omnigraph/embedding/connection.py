"""One request to a provider: the only code that touches the HTTP library.

It is imported at the first request, because most processes never embed. A reply keeps nothing that
a provider could have echoed: of a refusal only the status, of a lost connection only the kind of
error. For the same reason the HTTP library logs nothing while a request of ours is under way; its
own lines show URLs and the headers of answers.

Connecting, sending and each wait for bytes are limited to the time that was left when the request
began, and the time is checked at every piece of a body: one that trickles in cannot hold a call.
The library offers no such check while it reads the head of an answer. Redirects are not followed:
the key is for the configured address alone.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from omnigraph.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx

    from omnigraph.clock import Clock

_IS_ASKING: Final = ContextVar("omnigraph_embedding_is_asking", default=False)
_FOREIGN_LOGGERS: Final = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")
_SHORTEST_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How a request ended; `body` is None unless a success arrived as a whole."""

    status: int | None
    cause: str
    """What to call this end in a log or an error: a status, or a kind of failure."""
    retry_after: str | None = None
    body: bytes | None = None


class Connection:
    """The connections to one provider, kept between requests; safe to share between threads."""

    __slots__ = ("_base_url", "_client", "_clock", "_lock")

    def __init__(self, base_url: str, clock: Clock) -> None:
        self._base_url = base_url
        self._clock = clock
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def post(
        self,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        until_us: int,
        max_bytes: int,
    ) -> Reply:
        """Send one request and wait for its answer until `until_us` of the monotonic clock.

        Raises:
            SettingInvalid: the base URL names no host.
        """
        client = self._open_client()
        from httpx import HTTPError

        status = retry_after = None
        try:
            with (
                _silent(),
                client.stream(
                    "POST",
                    self._base_url + path,
                    content=body,
                    headers={"Content-Type": "application/json", **headers},
                    timeout=max(_SHORTEST_S, (until_us - self._clock.monotonic_us()) / 1e6),
                ) as response,
            ):
                status = response.status_code
                retry_after = response.headers.get("Retry-After")
                if response.is_success:
                    return self._read(response, until_us, max_bytes)
                cause = f"HTTP {status}"
        except HTTPError as error:
            cause = type(error).__name__
        return Reply(status=status, cause=cause, retry_after=retry_after)

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _read(self, response: httpx.Response, until_us: int, max_bytes: int) -> Reply:
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > max_bytes:
                return Reply(status=response.status_code, cause="answer too large")
            if self._clock.monotonic_us() > until_us:
                return Reply(status=response.status_code, cause="answer too slow")
        return Reply(status=response.status_code, cause="malformed answer", body=bytes(body))

    def _open_client(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                try:
                    httpx.URL(self._base_url)
                except httpx.InvalidURL as error:
                    raise SettingInvalid(
                        f"OMNIGRAPH_EMBED_BASE_URL: {error}", name="OMNIGRAPH_EMBED_BASE_URL"
                    ) from error
                for name in _FOREIGN_LOGGERS:
                    logging.getLogger(name).addFilter(_is_loud)
                self._client = httpx.Client(follow_redirects=False)
            return self._client


def _is_loud(_: logging.LogRecord) -> bool:
    return not _IS_ASKING.get()


@contextmanager
def _silent() -> Iterator[None]:
    token = _IS_ASKING.set(True)
    try:
        yield
    finally:
        _IS_ASKING.reset(token)
