"""Requests over blocking sockets: one pool of connections for one graph of a server."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import httpx

from omnigraph.client.call import require_success
from omnigraph.client.endpoint import answer_of, pause_before_retry
from omnigraph.errors import InvalidArgument, OmnigraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from omnigraph.client.call import Answer, Call
    from omnigraph.client.endpoint import Endpoint

T = TypeVar("T")


class Connection:
    """Sends calls and reads answers; safe to share between threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._http = httpx.Client(**endpoint.client_options())

    def send(self, call: Call[T]) -> T:
        """The result of a call.

        Raises:
            OmnigraphError: what the server raised, or what became of the request on its way.
        """
        attempt = 0
        while True:
            try:
                return call.read(self._exchange(call))
            except OmnigraphError as error:
                pause_s = pause_before_retry(error, call, attempt)
                if pause_s is None:
                    raise
            time.sleep(pause_s)
            attempt += 1

    def _exchange(self, call: Call[T]) -> Answer:
        self._require_open()
        try:
            response = self._http.send(
                self._http.build_request(**self.endpoint.request_options(call))
            )
        except httpx.HTTPError as error:
            raise self.endpoint.translate(error, call) from error
        return answer_of(response, response.content)

    @contextmanager
    def stream(self, call: Call[T]) -> Iterator[Iterator[bytes]]:
        """The chunks of an answer as they come; closed with the block.

        Raises:
            OmnigraphError: as `send`; one that is cut off ends with an error, never quietly.
        """
        self._require_open()
        options = self.endpoint.request_options(call)
        try:
            response = self._http.send(self._http.build_request(**options), stream=True)
        except httpx.HTTPError as error:
            raise self.endpoint.translate(error, call) from error
        try:
            if not response.is_success:
                require_success(answer_of(response, response.read()))
            yield self._chunks(response, call)
        finally:
            response.close()

    def _chunks(self, response: httpx.Response, call: Call[T]) -> Iterator[bytes]:
        try:
            yield from response.iter_bytes()
        except httpx.HTTPError as error:
            raise self.endpoint.translate(error, call) from error

    def _require_open(self) -> None:
        if self._http.is_closed:
            raise InvalidArgument("this graph is closed; connect again")

    def close(self) -> None:
        """Close the connections; safe twice."""
        self._http.close()
