"""Requests that wait without holding a thread: one pool of connections for one graph."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import httpx

from omnigraph.client.call import require_success
from omnigraph.client.endpoint import answer_of, pause_before_retry
from omnigraph.errors import InvalidArgument, OmnigraphError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from omnigraph.client.call import Answer, Call
    from omnigraph.client.endpoint import Endpoint

P = ParamSpec("P")
T = TypeVar("T")


class AsyncConnection:
    """Sends calls and reads answers, for the tasks of one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._http = httpx.AsyncClient(**endpoint.client_options())

    def bind(self, build: Callable[P, Call[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """A coroutine function with the arguments of the function that builds the call."""

        async def ask(*args: P.args, **options: P.kwargs) -> T:
            return await self.send(build(*args, **options))

        ask.__doc__ = build.__doc__
        return ask

    async def send(self, call: Call[T]) -> T:
        """The result of a call.

        Raises:
            OmnigraphError: what the server raised, or what became of the request on its way.
        """
        attempt = 0
        while True:
            try:
                return call.read(await self._exchange(call))
            except OmnigraphError as error:
                pause_s = pause_before_retry(error, call, attempt)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)
            attempt += 1

    async def _exchange(self, call: Call[T]) -> Answer:
        response = await self._response(call, is_stream=False)
        return answer_of(response, response.content)

    async def stream(self, call: Call[T]) -> AsyncIterator[bytes]:
        """The chunks of an answer as they come.

        Raises:
            OmnigraphError: as `send`; one that is cut off ends with an error, never quietly.
        """
        response = await self._response(call, is_stream=True)
        try:
            if not response.is_success:
                require_success(answer_of(response, await response.aread()))
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx.HTTPError as error:
            raise self.endpoint.translate(error, call) from error
        finally:
            await response.aclose()

    async def _response(self, call: Call[T], *, is_stream: bool) -> httpx.Response:
        if self._http.is_closed:
            raise InvalidArgument("this graph is closed; connect again")
        request = self._http.build_request(**self.endpoint.request_options(call))
        try:
            return await self._http.send(request, stream=is_stream)
        except httpx.HTTPError as error:
            raise self.endpoint.translate(error, call) from error

    async def close(self) -> None:
        """Close the connections; safe twice."""
        await self._http.aclose()
