"""Clients that send too much, too little, too slowly, or nonsense: refused, and nobody else minds.

Each test ends with a request that is answered: the server stays healthy.
"""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.serving import LiveServer, serving

from omnigraph import Graph
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = "node Doc { slug: String @key  body: String? }"
ALL = "query all() { match { $d: Doc } return { $d.slug, $d.body } }"
SLUGS = "query slugs($s: String?) { match { $d: Doc } return { $d.slug } }"
G = "/graphs/default"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server without patience, over a graph whose rows fill every buffer of a connection."""
    path = tmp_path_factory.mktemp("hostile") / "docs.omni"
    lines = [
        json.dumps({"type": "Doc", "data": {"slug": f"d{number}", "body": "x" * 2 * MIB}})
        for number in range(8)
    ]
    with Graph.init(path, schema=SCHEMA) as graph:
        graph.load("\n".join(lines).encode(), mode="append")
    settings = Settings()
    impatient = replace(settings.server, header_timeout_ms=200, idle_timeout_ms=400)
    with serving({"default": path}, settings=replace(settings, server=impatient)) as live:
        yield live


@pytest.fixture(autouse=True)
def _healthy_afterwards(server: LiveServer) -> Iterator[None]:
    yield
    with server.client() as client:
        assert client.post(f"{G}/query", json={"query": SLUGS}).json()["row_count"] == 8


@pytest.fixture
def wire(server: LiveServer) -> Iterator[socket.socket]:
    """A connection without a client that would mind its manners."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.socket() as connection:
        # Small, so that a client that does not read is noticed soon.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect((host, int(port)))
        yield connection


def post(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: h", "Content-Type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def received(wire: socket.socket) -> tuple[bytes, bytes]:
    """What came back, to the end of the connection: head and body."""
    parts = b""
    while True:
        try:
            part = wire.recv(65536)
        except ConnectionResetError:
            break
        parts += part
        head, _, body = parts.partition(b"\r\n\r\n")
        if not part or (body.startswith(b"{") and body.endswith(b"}")):
            break
    return head + b"\r\n", body


def answered(wire: socket.socket) -> tuple[int, dict[str, object]]:
    """The status and the body of what came back."""
    head, body = received(wire)
    return int(head.split(b" ")[1]), json.loads(body)


def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(wire: socket.socket) -> None:
    wire.sendall(post(f"{G}/query", f"Content-Length: {2 * MIB}"))
    status, body = answered(wire)
    assert (status, body["reason"]) == (413, "resource_limit")
    assert body["resource_limit"] == {
        "resource": "request_body_bytes",
        "limit": MIB,
        "actual": 2 * MIB,
    }


def test_a_body_in_chunks_is_cut_off_where_it_passes_the_limit(wire: socket.socket) -> None:
    wire.sendall(post(f"{G}/query", "Transfer-Encoding: chunked"))
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    for _ in range(17):
        wire.sendall(chunk)
    status, body = answered(wire)
    assert (status, body["reason"]) == (413, "resource_limit")


@pytest.mark.extended
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "media_type", "limit"),
    [("query", "application/json", MIB), ("load/ndjson", "application/x-ndjson", 32 * MIB)],
)
def test_a_body_may_have_as_many_bytes_as_the_limit_and_not_one_more(
    server: LiveServer, path: str, media_type: str, limit: int, *, is_chunked: bool
) -> None:
    with server.client() as client:
        for size, is_refused in ((limit, False), (limit + 1, True)):
            body = b" " * size
            pieces = (body[at : at + MIB] for at in range(0, size, MIB))
            answer = client.post(
                f"{G}/{path}",
                content=pieces if is_chunked else body,
                headers={"Content-Type": media_type},
            )
            assert (answer.status_code == 413) is is_refused, answer.text
            assert answer.status_code in (200, 400, 413)


def test_a_load_of_an_actor_who_has_too_many_is_refused_before_its_body_is_sent(
    server: LiveServer, wire: socket.socket
) -> None:
    workload = server.runtime.workload
    lines = post(f"{G}/load/ndjson", "Content-Length: 33").replace(b"json\r", b"x-ndjson\r")
    with ExitStack() as held:
        for _ in range(server.runtime.settings.server.per_actor_inflight_max):
            held.enter_context(workload.writing(None, 1))
        wire.sendall(lines)
        status, body = answered(wire)
    assert (status, body["reason"]) == (429, "too_many_requests")


def test_headers_that_never_end_close_the_connection(wire: socket.socket) -> None:
    wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\nX-Slow: ")
    assert _received(wire) == b""


def test_a_second_request_must_send_its_headers_too(wire: socket.socket) -> None:
    wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /hea")
    seen = b""
    while part := _received(wire):
        seen += part
    assert seen.count(b"HTTP/1.1") == 1


def _received(wire: socket.socket) -> bytes:
    try:
        return wire.recv(65536)
    except ConnectionResetError:
        return b""


def test_a_body_that_stops_coming_is_504(wire: socket.socket) -> None:
    wire.sendall(post(f"{G}/query", "Content-Length: 100") + b'{"query"')
    status, body = answered(wire)
    assert (status, body["deadline_exceeded"]) == (504, {"limit_ms": 400, "phase": "body"})


def test_a_client_that_does_not_read_is_cut_off(
    wire: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="omnigraph.server.connections")
    body = json.dumps({"query": ALL}).encode()
    wire.sendall(post(f"{G}/query", f"Content-Length: {len(body)}") + body)
    while "client stood still" not in caplog.messages:
        time.sleep(0.01)
    size = 0
    while part := _received(wire):
        size += len(part)
    assert size < 16 * MIB


def test_a_client_that_leaves_in_the_middle_of_an_export_frees_its_slot(
    server: LiveServer, wire: socket.socket
) -> None:
    wire.sendall(post(f"{G}/export", "Content-Length: 2") + b"{}")
    assert wire.recv(1024).startswith(b"HTTP/1.1 200")
    wire.close()
    with server.client() as client:
        while (answer := client.post(f"{G}/export", json={})).status_code == 413:
            pass
        assert answer.status_code == 200
        assert len(answer.text.splitlines()) == 8


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/1.1\r\nHost: h\r\nX-Long: " + b"x" * 70_000,
        b"GET /healthz HTTP/1.1\r\n" + b"X-Many: 1\r\n" * 9_500,
        b"GET /healthz HTTP/1.1\r\nHost: h\r\nBad Name: 1\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["tls", "long header", "many headers", "name", "two lengths", "length"],
)
def test_what_is_no_http_gets_the_envelope(wire: socket.socket, request_bytes: bytes) -> None:
    wire.sendall(request_bytes + b"\r\n\r\n")
    head, body = received(wire)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["code"] == "bad_request"
    assert re.search(rb"\r\nx-request-id: [0-9A-Z]{26}\r\n", head)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{G}/branches/..%2f..%2f__manifest"),
        ("DELETE", f"{G}/branches/%2e%2e"),
        ("DELETE", f"{G}/branches/a%00b"),
        ("DELETE", f"{G}/branches/%ff%fe"),
        ("GET", f"{G}/snapshot?branch=../../etc/passwd"),
        ("GET", f"{G}/snapshot?branch=%00"),
        ("GET", f"{G}/snapshot?branch=" + "x" * 5_000),
        ("GET", f"{G}/commits/..%2f..%2fschema"),
        ("GET", f"{G}/commits/" + "A" * 5_000),
        ("GET", f"{G}/commits/%ed%a0%80/changes"),
        ("GET", "/graphs/..%2fdefault/schema"),
        ("GET", "/graphs/default%00/schema"),
        ("GET", "/graphs//schema"),
        ("GET", f"{G}/blob?entity=node&type=Doc&id=..%2f..&property=body"),
        ("GET", f"{G}/changes?cursor=" + "A" * 5_000),
        ("POST", f"{G}/queries/..%2fx"),
    ],
)
def test_paths_and_names_that_lead_elsewhere_lead_nowhere(
    server: LiveServer, method: str, path: str
) -> None:
    with server.client() as client:
        # As it is written: the client would tidy it up.
        request = client.build_request(method, "/")
        request.url = httpx.URL(server.url).copy_with(raw_path=path.encode())
        answer = client.send(request)
    assert answer.status_code in {400, 404, 405, 413}, answer.text
    assert answer.json()["reason"]


@pytest.mark.extended
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"query":' * 50_000,
        b'{"query": "x", "params": {"s": ' + b"[" * 20_000 + b"]" * 20_000 + b"}}",
        b'{"query": "x", "params": {"s": ' + b"9" * 100_000 + b"}}",
        b'{"query": "x", "params": {"s": 1e999999}}',
        b'{"query": "\\ud800"}',
        b'{"query": "x", "branch": "\\ud800"}',
        b'{"query": "x", "params": {"\\u0000": "\\udfff"}}',
        b"\xff\xfe{}",
        b'{"query": NaN}',
        b'{"query": "' + b"match{" * 100_000 + b'"}',
        b'{"query": "query q() { match { $d: Doc } return { ' + b"(" * 50_000 + b' } }"}',
        b"null",
        b"",
    ],
    ids=range(14),
)
def test_bombs_of_json_and_of_queries_are_bad_requests(server: LiveServer, body: bytes) -> None:
    with server.client() as client:
        for route in ("query", "mutate", "explain", "load", "branches/merge"):
            answer = client.post(
                f"{G}/{route}", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 400, (route, answer.text[:300])
            assert answer.json()["code"] == "bad_request"
