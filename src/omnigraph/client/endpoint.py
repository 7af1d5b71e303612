"""One graph of a server as a place to send requests to, for every transport alike.

A token is sent to its own server alone: no redirect is followed. It appears in no text of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from omnigraph.client.call import Answer
from omnigraph.client.credentials import find_token
from omnigraph.errors import (
    DeadlineExceeded,
    InvalidArgument,
    OmnigraphError,
    OutcomeUnknown,
    Retry,
    ServerUnavailable,
)
from omnigraph.settings.server_address import parse_server_address

if TYPE_CHECKING:
    from omnigraph.client.call import Call

MOST_ATTEMPTS: Final = 4
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 600.0
_LATE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.1
_GRAPH_ID: Final = re.compile("[a-zA-Z0-9-]{1,64}")
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a graph is served, and who asks."""

    url: str
    graph: str | None
    """The id of the graph; without one only the server itself can be asked."""
    token: str | None = field(default=None, repr=False)
    timeout_s: float | None = None

    @classmethod
    def parse(
        cls, url: str, *, graph: str | None, token: str | None, timeout_s: float | None
    ) -> Endpoint:
        """A place that requests can be sent to.

        Raises:
            InvalidArgument: the address, the id, the token or the time is none.
        """
        try:
            parse_server_address(url)
            httpx.URL(url)
        except (ValueError, httpx.InvalidURL) as error:
            raise InvalidArgument(str(error), argument="url") from None
        if graph is not None and not (isinstance(graph, str) and _GRAPH_ID.fullmatch(graph)):
            raise InvalidArgument(
                f"the id of a graph has 1 to 64 letters, digits and '-', not {graph!r}",
                argument="graph",
            )
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise InvalidArgument(
                "a token is one line of printable ASCII characters", argument="token"
            )
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidArgument("timeout_s is a number above 0", argument="timeout_s")
        return cls(url=url.rstrip("/"), graph=graph, token=token, timeout_s=timeout_s)

    def with_found_token(self) -> Endpoint:
        """This place with the token that the operator has for it, unless one was given.

        Raises:
            SettingInvalid: a setting or the file of credentials is malformed.
        """
        found = find_token(self.url) if self.token is None else None
        return self if found is None else replace(self, token=found.reveal())

    def client_options(self) -> dict[str, Any]:
        """What both kinds of clients are made with."""
        headers = {"User-Agent": "omnigraph"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.strip()}"
        return {"headers": headers, "follow_redirects": False, "timeout": self._timeout(None)}

    def request_options(self, call: Call[Any]) -> dict[str, Any]:
        """A call as the arguments of `build_request`."""
        root = self.url if self.graph is None else f"{self.url}/graphs/{quote(self.graph)}"
        return {
            "method": call.method,
            "url": f"{root}/{call.path}",
            "params": list(call.query) or None,
            "headers": dict(call.headers),
            "content": call.content,
            "timeout": self._timeout(call.timeout_s),
        }

    def _timeout(self, wanted_s: float | None) -> httpx.Timeout:
        # The server ends what takes too long, so the wait here is a little longer.
        limit_s = self.timeout_s or (wanted_s + _LATE_S if wanted_s else _ANSWER_S)
        return httpx.Timeout(limit_s, connect=min(_CONNECT_S, limit_s), pool=None)

    def translate(self, error: httpx.HTTPError, call: Call[Any]) -> OmnigraphError:
        """A failure on the way as the error that tells what is known of the request."""
        told = type(error).__name__
        if isinstance(error, _NOT_SENT):
            return ServerUnavailable(
                f"the server {self.url} cannot be reached ({told}: {error}); nothing was sent",
                url=self.url,
            )
        if call.is_write:
            return OutcomeUnknown(
                f"the connection to {self.url} was lost after a write was sent ({told}); look for"
                " it in the list of commits, or send it again with the same idempotency key",
                url=self.url,
                idempotency_key=call.key,
            )
        if isinstance(error, httpx.TimeoutException):
            limit = self.timeout_s or call.timeout_s or _ANSWER_S
            return DeadlineExceeded(
                f"the server {self.url} did not answer within {limit:g} s",
                timeout_ms=round(limit * 1000),
            )
        return ServerUnavailable(
            f"the answer of {self.url} was cut off ({told}); send the request again", url=self.url
        )


def pause_before_retry(error: OmnigraphError, call: Call[Any], attempt: int) -> float | None:
    """How long to wait before a call is sent again; `None` if it is not.

    A write is repeated only with a key, and only where nothing happened.
    """
    is_repeatable = call.is_write and call.key is not None and error.retry is Retry.AS_IS
    if not is_repeatable or attempt >= MOST_ATTEMPTS:
        return None
    told = error.details.get("retry_after_s")
    wait = float(told) if isinstance(told, int | float) else _FIRST_PAUSE_S * 2**attempt
    return wait if wait <= _LONGEST_PAUSE_S else None


def answer_of(response: httpx.Response, content: bytes) -> Answer:
    """A response without its transport."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, content=content)
