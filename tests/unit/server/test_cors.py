"""Pages of the origins that are named may ask, and no others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.serving import LiveServer, serving

import omnigraph.server
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

G = "/graphs/default"
APP, OTHER = "https://app.example.com", "https://other.example.com"
CONDITIONS = ("omnigraph-if-graph-commit", "omnigraph-timeout-ms")


@pytest.fixture(scope="module")
def paged(graph_path: Path) -> Iterator[LiveServer]:
    settings = Settings()
    server = replace(settings.server, cors_origins=(APP,))
    with serving({"default": graph_path}, settings=replace(settings, server=server)) as live:
        yield live


def preflight(
    live: LiveServer, *headers: str, origin: str = APP, method: str = "POST"
) -> httpx.Response:
    asked = {"Access-Control-Request-Headers": ", ".join(headers)} if headers else {}
    with live.client() as client:
        return client.options(
            f"{G}/query",
            headers={"Origin": origin, "Access-Control-Request-Method": method, **asked},
        )


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("authorization", "content-type", "x-request-id", "idempotency-key", "range"),
        ("Omnigraph-If-Graph-Commit", "Omnigraph-Timeout-Ms", "Omnigraph-Of-A-Later-Release"),
        ("If-Match", "If-None-Match", "If-Range", "If-Modified-Since", "authorization"),
    ],
)
def test_a_preflight_is_told_every_header_that_it_may_send(
    paged: LiveServer, headers: tuple[str, ...]
) -> None:
    answer = preflight(paged, *headers)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == APP
    assert "Access-Control-Allow-Credentials" not in answer.headers
    told = answer.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {name.lower() for name in headers} <= set(told)


@pytest.mark.parametrize(
    ("headers", "origin", "method"),
    [((), OTHER, "POST"), (("x-other",), APP, "POST"), ((), APP, "PATCH")],
)
def test_a_preflight_of_what_is_not_allowed_is_refused_with_the_envelope(
    paged: LiveServer, headers: tuple[str, ...], origin: str, method: str
) -> None:
    answer = preflight(paged, *headers, origin=origin, method=method)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert answer.headers["X-Request-Id"]


def test_an_answer_shows_its_headers_to_pages_of_the_origin_alone(paged: LiveServer) -> None:
    with paged.client() as client:
        ours, others, none = (
            client.get(f"{G}/schema", headers=headers)
            for headers in ({"Origin": APP}, {"Origin": OTHER}, {})
        )
    assert ours.headers["Access-Control-Allow-Origin"] == APP
    assert "Omnigraph-Schema-Hash" in ours.headers["Access-Control-Expose-Headers"]
    for answer in (others, none):
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.status_code == 200


def test_every_header_that_an_answer_may_have_is_shown() -> None:
    folder = Path(omnigraph.server.__file__).parent
    files = [path for path in folder.rglob("*.py") if path.name != "cors.py"]
    named = {
        name
        for path in files
        for name in re.findall(r'"(Omnigraph-[A-Za-z-]+)"', path.read_text(encoding="utf-8"))
    }
    shown = (folder / "middleware" / "cors.py").read_text(encoding="utf-8")
    assert {name for name in named if f'"{name}"' not in shown} == set()
    assert len(named) > len(CONDITIONS)


def test_without_origins_no_page_of_another_one_can_ask(server: LiveServer) -> None:
    answer = preflight(server)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert "Access-Control-Allow-Origin" not in answer.headers
