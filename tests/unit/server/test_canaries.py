"""The search for planted secrets finds one wherever a server of a test lets it out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.canaries import PLANTED, Canaries, secrets_of
from tests.serving import ACTOR, TOKEN, LiveServer, serving

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = PLANTED["AWS_SECRET_ACCESS_KEY"]


def in_a_log(_: LiveServer) -> None:
    logging.getLogger("omnigraph.server").warning("odd", extra={"why": f"<{TOKEN}>"})


def in_a_line_of_every_request(_: LiveServer) -> None:
    logging.getLogger("omnigraph.server.access").info("request", extra={"path": SECRET})


def in_an_answer(live: LiveServer) -> None:
    missing = {"query": "query q() { match { $p: Person } return { $p.name } }", "branch": SECRET}
    with live.client(TOKEN) as client:
        client.post("/graphs/default/query", json=missing)


def in_a_header(live: LiveServer) -> None:
    with live.client() as client:
        client.get("/healthz", headers={"X-Request-Id": SECRET})


def in_a_metric(live: LiveServer) -> None:
    live.runtime.metrics.query_rows.add(SECRET)


@pytest.mark.parametrize(
    ("leak", "where"),
    [
        (in_a_log, "a log line"),
        (in_a_line_of_every_request, "a log line of omnigraph.server.access"),
        (in_an_answer, "the response of"),
        (in_a_header, "the headers"),
        (in_a_metric, "the metrics"),
    ],
)
def test_a_secret_that_is_let_out_is_found(
    graph_path: Path, leak: Callable[[LiveServer], None], where: str
) -> None:
    with (
        pytest.raises(AssertionError, match=where) as failure,
        serving({"default": graph_path}, tokens={ACTOR: TOKEN}) as live,
    ):
        leak(live)
    assert SECRET not in str(failure.value)


def test_a_secret_cut_in_two_chunks_is_found() -> None:
    canaries = Canaries([SECRET])

    async def app(_: object, __: object, send: Callable[..., object]) -> None:
        for part in (b"x" + SECRET[:5].encode(), SECRET[5:].encode() + b"y"):
            await send({"type": "http.response.body", "body": part, "more_body": True})  # type: ignore[misc]  # a coroutine

    async def drop(message: object) -> None: ...

    asyncio.run(canaries.watching(app)({"type": "http", "path": "/"}, drop, drop))  # type: ignore[arg-type]  # any ASGI
    with pytest.raises(AssertionError, match="the response of /"):
        canaries.require_none()


def test_what_no_output_of_a_program_may_show_is_known_by_its_variable() -> None:
    environ = {
        "OPENAI_API_KEY": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "OMNIGRAPH_TOKEN_PROD": "c",
        "OMNIGRAPH_BEARER_TOKEN": "d",
        "JDBC_PASSWORD": "e",
        "GEMINI_API_KEY": " ",
        "OMNIGRAPH_HOME": "f",
    }
    assert secrets_of(environ) == ["a", "b", "c", "d", "e"]
